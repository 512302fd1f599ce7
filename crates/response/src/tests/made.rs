//! Hand-made policies and decisions, and a parser of structured fields.

use diana_base::time::{Span, Time};
use diana_calendar::{Calendar, Unit};
use diana_limiter::algorithm::{self, Algorithm, Allowance, Charge, Verdict};
use diana_limiter::decide::{Decision, Outcome, Reason, RuleCheck, RuleResult};
use diana_limiter::policy::{self, Draft, Enforce, LimitDraft, Policy, Rule, RuleDraft};

/// A policy of rules with these names; `~` before a name puts the rule into shadow.
pub fn policy<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Policy {
    let rule = |name: S| {
        let (name, shadowed) = (name.as_ref(), name.as_ref().strip_prefix('~'));
        let enforce = if shadowed.is_none() { Enforce::EVERYBODY } else { Enforce::NOBODY };
        let quota = policy::Quota::NOTHING;
        RuleDraft { enforce, ..RuleDraft::new(shadowed.unwrap_or(name), Vec::new(), quota) }
    };
    let limit = LimitDraft::new("/".parse().unwrap(), names.into_iter().map(rule).collect());
    Draft { limits: vec![limit], ..Draft::default() }.build()
}

/// A rule's quota, its unit in milliseconds (0 for requests in flight), and its verdict; `None` if
/// a store failed.
pub type RuleState = (u64, u64, Option<Verdict>);

/// The decision that follows if the rules of `policy` are in these states, one each.
pub fn decision(policy: &Policy, states: &[RuleState]) -> Decision {
    let check = |((rule, compiled), (rpu, unit_ms, verdict)): ((_, &Rule), &RuleState)| {
        let quota = Allowance { rpu: *rpu, unit: Span::from_ms(*unit_ms) };
        // This algorithm shows the quota as it is.
        let quota = policy::Quota::new(quota, Algorithm::RefuseAll).alone();
        let check = RuleCheck::new(rule, quota, *verdict);
        if compiled.enforced() { check } else { check.in_shadow() }
    };
    let checks: Vec<RuleCheck> = policy.rules().zip(states).map(check).collect();
    let refusing = checks.iter().find(|check| check.result() == RuleResult::Refused);
    let outcome = refusing.map_or(Outcome::Pass, |check| Outcome::Reject(Reason::Rule(check.rule())));
    Decision { outcome, checks, ..Decision::default() }
}

/// The same decision with these checks in place of its own.
fn with(decision: Decision, change: impl Fn(usize, RuleCheck) -> RuleCheck) -> Decision {
    let checks = decision.checks.iter().cloned().enumerate().map(|(at, check)| change(at, check)).collect();
    Decision { checks, ..decision }
}

/// The same decision while the global stores are down.
pub fn degraded(decision: Decision) -> Decision {
    with(decision, |_, check| check.degraded())
}

/// The same decision, with a penalty of the rule with this index.
pub fn penalized(decision: Decision, rule: usize) -> Decision {
    let quota = policy::Quota::new(Allowance { rpu: 10, unit: Span::from_secs(1) }, Algorithm::RefuseAll);
    with(decision, |at, check| match at == rule {
        true => RuleCheck::new(check.rule(), quota.alone(), penalty()),
        false => check,
    })
}

/// The same decision, but the rule with this index counts months from this day, at `now` in seconds
/// since 1970.
pub fn monthly(decision: Decision, rule: usize, day: u8, now: u64) -> Decision {
    let calendar = Calendar { day, ..Calendar::new(Unit::Month) };
    let quota = policy::Quota::calendar(10, calendar).unwrap();
    with(decision, |at, check| {
        let verdict = check.verdict().copied().filter(|_| at == rule);
        let at = Time::ZERO.after(Span::from_secs(now));
        let charge = |verdict: Verdict| Verdict { charge: Charge { at, ..verdict.charge }, ..verdict };
        verdict.map_or(check.clone(), |verdict| {
            RuleCheck::new(check.rule(), quota.alone(), Some(charge(verdict)))
        })
    })
}

/// Admitted, with `remaining` left and more available in `more_in_ms` milliseconds.
pub fn admit(remaining: u64, more_in_ms: u64) -> Option<Verdict> {
    verdict(algorithm::Admission::Admit { delay: Span::ZERO }, remaining, more_in_ms)
}

/// Refused for this many milliseconds; `None`: for ever.
pub fn refuse(retry_after_ms: impl Into<Option<u64>>) -> Option<Verdict> {
    let retry_after = retry_after_ms.into().map(Span::from_ms);
    verdict(
        algorithm::Admission::Refuse { retry_after },
        0,
        retry_after.unwrap_or_default().as_ns() / 1_000_000,
    )
}

/// Refused for a minute by a penalty.
pub fn penalty() -> Option<Verdict> {
    let charge = Charge { booked_at: Verdict::PENALTY, ..Charge::default() };
    refuse(60_000).map(|verdict| Verdict { charge, ..verdict })
}

fn verdict(outcome: algorithm::Admission, remaining: u64, more_in_ms: u64) -> Option<Verdict> {
    let more_in = Span::from_ms(more_in_ms);
    Some(Verdict { admission: outcome, remaining, more_in, full_in: more_in, charge: Charge::default() })
}

/// An item of a structured field's list: a string and its parameters.
pub type Item = (String, Vec<(String, Bare)>);

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bare {
    Integer(u64),
    String(String),
}

/// Parses a list of string items with parameters (RFC 9651 §4.2); `None` for any other text.
pub fn items(text: &str) -> Option<Vec<Item>> {
    let mut rest = text;
    let mut items = Vec::new();
    loop {
        let (value, after) = string(rest)?;
        let mut parameters = Vec::new();
        rest = after;
        while let Some(after) = rest.strip_prefix(';') {
            let (key, after) = after.split_once('=')?;
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_lowercase()) {
                return None;
            }
            let (value, after) = bare(after)?;
            parameters.push((key.to_string(), value));
            rest = after;
        }
        items.push((value, parameters));
        if rest.is_empty() {
            return Some(items);
        }
        rest = rest.strip_prefix(", ")?;
    }
}

fn bare(text: &str) -> Option<(Bare, &str)> {
    if text.starts_with('"') {
        return string(text).map(|(value, after)| (Bare::String(value), after));
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, after) = text.split_at(digits);
    let number = (number.len() <= 15).then(|| number.parse().ok()).flatten()?;
    Some((Bare::Integer(number), after))
}

fn string(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.strip_prefix('"')?.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            visible @ ' '..='~' => value.push(visible),
            _ => return None,
        }
    }
}
