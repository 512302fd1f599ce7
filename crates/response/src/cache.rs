//! Caches the texts of a worker's responses, for later decisions that show the same.

use super::fields::ShownRule;
use super::options::{Form, ResponseOptions};
use super::problem::Problem;
use super::{Refusal, RefusalForm};
use diana_base::{narrowed, widened};
use diana_limiter::decide::Decision;
use diana_limiter::policy::{Policy, RuleId};
use std::borrow::Cow;
use std::rc::Rc;

/// The number of slots of each cache; a power of two. Texts with the same slot replace each other.
const SLOTS: usize = 64;

/// The headers that show the remaining quota, with their names.
pub type QuotaHeaders = Rc<[(&'static str, String)]>;

/// The texts of one worker's last responses under one policy. The worker builds a text once for all
/// clients that get the same numbers.
#[derive(Debug, Default)]
pub struct ResponseCache {
    /// The rules that the present response shows.
    shown: Vec<ShownRule>,
    headers: Vec<ShownQuota>,
    bodies: Vec<Body>,
}

/// Headers, and the rules that they show.
#[derive(Clone, Debug, Default)]
struct ShownQuota {
    shown: Vec<ShownRule>,
    headers: Option<QuotaHeaders>,
}

/// The text of a problem, and the rules that it names.
#[derive(Clone, Debug, Default)]
struct Body {
    problem: Option<Problem>,
    rules: Vec<RuleId>,
    text: String,
}

impl ResponseCache {
    /// [`ResponseOptions::headers`], if there are any. `options` and `policy` are always the same.
    #[must_use]
    pub fn headers(
        &mut self,
        options: &ResponseOptions,
        policy: &Policy,
        decision: &Decision,
    ) -> Option<QuotaHeaders> {
        self.quota(options, policy, decision).map(Rc::clone)
    }

    /// [`ResponseOptions::refusal`]. `options` and `policy` are always the same.
    #[must_use]
    pub fn refusal<'a>(
        &'a mut self,
        options: &'a ResponseOptions,
        policy: &Policy,
        decision: &Decision,
        form: impl Into<RefusalForm>,
        entropy: u32,
    ) -> Option<Refusal<'a>> {
        self.quota(options, policy, decision);
        let ResponseCache { shown, headers, bodies } = self;
        let quota = find(shown, headers, options.form).map_or(&[][..], |headers| headers);
        let quota = quota.iter().map(|(name, value)| (*name, Cow::from(&**value)));
        options.refusal_with(policy, decision, &form.into(), entropy, quota, move |problem| {
            text(bodies, problem, policy, decision, options).as_bytes().into()
        })
    }

    /// The headers of the decision, built if they are not in their slot. `None` without headers.
    fn quota(
        &mut self,
        options: &ResponseOptions,
        policy: &Policy,
        decision: &Decision,
    ) -> Option<&QuotaHeaders> {
        let ResponseCache { shown, headers, .. } = self;
        shown.clear();
        if options.form == Form::OFF {
            return None;
        }
        ShownRule::tightest_first(options, decision, shown);
        if shown.is_empty() {
            return None;
        }
        if find(shown, headers, options.form).is_none() {
            if headers.is_empty() {
                headers.resize(SLOTS, ShownQuota::default());
            }
            let slot = headers.get_mut(slot(shown))?;
            slot.shown.clone_from(shown);
            slot.headers = Some(options.fields(policy, shown).into());
        }
        find(shown, headers, options.form)
    }
}

/// The headers that show what `shown` does.
fn find<'h>(shown: &[ShownRule], headers: &'h [ShownQuota], form: Form) -> Option<&'h QuotaHeaders> {
    let slot = headers.get(slot(shown))?;
    let digits = |rule: &ShownRule| rule.digits(form.has(Form::OPENAI));
    let same = slot.shown.len() == shown.len() && slot.shown.iter().map(digits).eq(shown.iter().map(digits));
    slot.headers.as_ref().filter(|_| same)
}

fn slot(shown: &[ShownRule]) -> usize {
    slot_of(shown.iter().fold(0, |sum: u64, rule| sum.rotate_left(7) ^ rule.remaining))
}

fn slot_of(number: u64) -> usize {
    narrowed(number & u64::from(u16::MAX)) & SLOTS.saturating_sub(1)
}

/// The text of the problem, built if it is not in its slot.
fn text<'b>(
    bodies: &'b mut Vec<Body>,
    problem: Problem,
    policy: &Policy,
    decision: &Decision,
    options: &ResponseOptions,
) -> &'b str {
    let first = decision.refusing_rules().next().map_or(0, RuleId::index);
    if bodies.is_empty() {
        bodies.resize(SLOTS, Body::default());
    }
    let body = bodies.get_mut(slot_of(widened(first)));
    debug_assert!(body.is_some(), "a slot for each number");
    let Some(body) = body else {
        return "";
    };
    if body.problem != Some(problem) || !body.rules.iter().copied().eq(decision.refusing_rules()) {
        body.problem = Some(problem);
        body.rules.clear();
        body.rules.extend(decision.refusing_rules());
        body.text = problem.json(policy, options.violated(decision));
    }
    &body.text
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::{RuleState, admit, decision, degraded, monthly, penalty, policy, refuse};
    use super::super::tests::{PROTOCOLS, hiding};
    use super::*;
    use diana_limiter::decide::{Outcome, Reason};
    use proptest::prelude::*;
    use proptest::sample::select;

    /// A few states, so that many decisions show the same numbers.
    fn state() -> impl Strategy<Value = RuleState> {
        let quota = select(vec![(10, 1000), (10, 60_000), (9, 1000), (8, 0), (0, 1000)]);
        let verdict = select(vec![
            admit(1, 900),
            admit(1, 1000),
            admit(1, 1001),
            admit(1, 901),
            admit(65, 900),
            admit(u64::from(u16::MAX) + 2, 900),
            admit(9, 0),
            refuse(900),
            refuse(1001),
            refuse(2001),
            refuse(None),
            penalty(),
            None,
        ]);
        (quota, verdict).prop_map(|((rpu, unit_ms), verdict)| (rpu, unit_ms, verdict))
    }

    /// What else a decision may be, besides what follows from the states of its rules.
    fn changed(mut decision: Decision, change: u8) -> Decision {
        let Some(rule) = decision.checks.first().map(|check| check.rule()) else {
            return decision;
        };
        match change {
            0 => decision.outcome = Outcome::Reject(Reason::Denied),
            1 => decision.outcome = Outcome::Allowed,
            2 => decision.outcome = Outcome::Reject(Reason::NoActor(rule)),
            3 => decision.outcome = Outcome::Reject(Reason::Unavailable(rule)),
            4 => return degraded(decision),
            5 => decision.checks = decision.checks.iter().take(1).cloned().collect(),
            6 | 7 => return monthly(decision, 0, 31, 1_806_408_000 - 86_400 * u64::from(change)),
            _ => {}
        }
        decision
    }

    proptest! {
        #[test]
        fn a_cached_response_is_the_one_that_would_be_built(
            decisions in prop::collection::vec((prop::collection::vec(state(), 3), 0u8..12, select(PROTOCOLS.to_vec()), any::<u32>()), 1..200),
            form in select(vec![Form::IETF, Form::X_RATELIMIT, Form::PLAIN, Form::BOTH, Form::OPENAI, Form::OFF]),
            hidden in select(vec![None, Some(0), Some(1)]),
            status in select(vec![429, 503, 401]),
        ) {
            let policy = policy(["a", "b", "~c"]);
            let rules = hidden.map_or(Vec::new(), |hidden| hiding(hidden, 3));
            let options = ResponseOptions { status, form, rules, ..ResponseOptions::default() };
            let mut cache = ResponseCache::default();
            for (states, change, protocol, entropy) in decisions {
                let decision = changed(decision(&policy, &states), change);
                let ticket = (entropy % 3 == 0).then(|| "0-_".into());
                let form = RefusalForm { ticket, ..protocol.into() };
                let headers = cache.headers(&options, &policy, &decision);
                prop_assert_eq!(headers.as_deref().unwrap_or_default(), &*options.headers(&policy, &decision));
                let refusal = options.refusal(&policy, &decision, form.clone(), entropy);
                prop_assert_eq!(cache.refusal(&options, &policy, &decision, form, entropy), refusal);
            }
        }
    }

    #[test]
    fn texts_are_built_once_while_they_show_the_same() {
        let (policy, options) = (policy(["a", "b"]), ResponseOptions::default());
        let mut cache = ResponseCache::default();
        let mut headers = |ms| {
            let decision = decision(&policy, &[(10, 1000, admit(3, ms))]);
            cache.headers(&options, &policy, &decision).unwrap()
        };
        let first = headers(400);
        assert!(Rc::ptr_eq(&first, &headers(1000)), "one second, rounded up");
        assert!(!Rc::ptr_eq(&first, &headers(1001)));
    }
}
