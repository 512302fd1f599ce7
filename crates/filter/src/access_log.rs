//! Attributes of a request for the host's access log, such as Envoy's
//! `%FILTER_STATE(wasm.diana.rule:PLAIN)%`. An attribute costs 0.3 µs, so by default a request that
//! every rule admits without delay gets none.

use crate::Host;
use diana_base::format::{decimal, hex};
use diana_base::time::Span;
use diana_config::{Configuration, LoggedActor};
use diana_limiter::cells::store::Store;
use diana_limiter::decide::{Outcome, RuleCheck};
use diana_limiter::policy::{ActorSource, Policy};
use diana_limiter::session::Worker;

/// The rules that refuse a request, or the deny list.
pub const RULE: &str = "wasm.diana.rule";
/// The rules in shadow that would refuse a request, or the deny list in shadow.
pub const SHADOW: &str = "wasm.diana.shadow";
/// The rules in shadow that would make a request wait for its turn.
pub const DELAYED: &str = "wasm.diana.delayed";
/// The rules that admit a request and have less left than `near_limit`.
pub const NEAR: &str = "wasm.diana.near";
/// The thresholds of soft limits that a request is beyond.
pub const OVER: &str = "wasm.diana.over";
/// The actor source of the rule that decides.
pub const ACTOR: &str = "wasm.diana.actor";
/// The actor that the deciding rule counts, escaped.
pub const ACTOR_VALUE: &str = "wasm.diana.actor_value";
/// A keyed hash of the escaped actor.
pub const ACTOR_HASH: &str = "wasm.diana.actor_hash";
/// The plan of the request, if a rule with plans counts the request.
pub const PLAN: &str = "wasm.diana.plan";
/// The quota that the rule that decides has left.
pub const REMAINING: &str = "wasm.diana.remaining";
/// How many milliseconds a request waited for its turn.
pub const WAITED_MS: &str = "wasm.diana.waited_ms";
/// The ticket of a refusal.
pub const TICKET: &str = "wasm.diana.ticket";

/// All attributes, with the names that access logs have for them in both shells.
pub const ATTRIBUTES: [&str; 12] =
    [RULE, SHADOW, DELAYED, NEAR, OVER, ACTOR, ACTOR_VALUE, ACTOR_HASH, PLAN, REMAINING, WAITED_MS, TICKET];

/// Sets the attributes of a request after the last decision of `worker`. `over`: the thresholds
/// that the request is beyond; empty if there are none.
pub(super) fn set_attributes(
    host: impl Host,
    configuration: &Configuration,
    worker: &Worker<impl Store>,
    over: &str,
) {
    let Configuration { policy, access_log, near_limit, .. } = configuration;
    let (decision, logs_all) = (worker.decision(), access_log.has_all_requests);
    if decision.is_plain() && !logs_all && near_limit.is_none() && over.is_empty() {
        return;
    }
    let (refused, shadowed) = (decision.refused_by(policy), decision.shadowed_by(policy));
    let delayed = decision.delayed_by(policy);
    let near = near_limit.map(|limit| limit.rules(decision)).and_then(|rules| names(policy, rules));
    let is_logged = refused.is_some()
        || shadowed.is_some()
        || delayed.is_some()
        || near.is_some()
        || !over.is_empty()
        || matches!(decision.outcome, Outcome::Delay(_))
        || logs_all;
    if !is_logged {
        return;
    }
    for (key, rules) in [
        (RULE, refused.as_deref()),
        (SHADOW, shadowed.as_deref()),
        (DELAYED, delayed.as_deref()),
        (NEAR, near.as_deref()),
        (OVER, Some(over).filter(|over| !over.is_empty())),
    ] {
        if let Some(rules) = rules {
            host.set_attribute(key, rules);
        }
    }
    if let Some(plan) = decision.plan(policy) {
        host.set_attribute(PLAN, plan);
    }
    if let Some(check) = decision.decisive() {
        // Most refused requests have their actor, and nothing is left.
        if logs_all || check.actor() != ActorSource::Actor {
            host.set_attribute(ACTOR, check.actor().name());
        }
        if let Some(actor) = &access_log.actor {
            set_actor(host, actor, check, worker);
        }
        if let Some(verdict) = check.verdict()
            && (logs_all || near.is_some() || verdict.remaining > 0)
        {
            host.set_attribute(REMAINING, &decimal(verdict.remaining));
        }
    }
}

/// The names of these rules, separated by commas. `None` if there are none.
fn names<'r>(policy: &Policy, rules: impl Iterator<Item = &'r RuleCheck>) -> Option<String> {
    let names: Vec<&str> = rules.filter_map(|check| Some(policy.rule(check.rule())?.name())).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Sets the attribute that names the actor of a report, unless the rule counts no particular actor.
#[cold]
#[inline(never)]
fn set_actor(host: impl Host, actor: &LoggedActor, check: &RuleCheck, worker: &Worker<impl Store>) {
    let is_value = matches!(actor, LoggedActor::Value);
    let text = actor_text(check, worker, if is_value { LONGEST } else { usize::MAX });
    match actor {
        // A rule on all requests counts no particular actor.
        _ if text.is_empty() => {}
        LoggedActor::Value => host.set_attribute(ACTOR_VALUE, &text),
        LoggedActor::Hash(Some(hash)) => host.set_attribute(ACTOR_HASH, &hash.of(text.as_bytes())),
        LoggedActor::Hash(None) => {}
    }
}

/// The escaped actor of a report, of at most so many bytes. Empty if the rule counts no particular
/// actor.
pub(super) fn actor_text(check: &RuleCheck, worker: &Worker<impl Store>, most: usize) -> String {
    if check.actor() == ActorSource::Missing {
        return String::new();
    }
    let counted = worker.counted_actor(check.rule());
    debug_assert!(counted.is_some(), "a rule that reports has counted an actor");
    escape(counted.iter().flat_map(|counted| counted.raw_values()), most)
}

/// The most bytes of an escaped actor, including the `*` of a cut one.
const LONGEST: usize = 128;

/// The values in a form that no log mistakes for anything else, whatever clients send: letters,
/// digits and `-._~:/@+` stay, other bytes become `%` and two hexadecimal digits, and commas
/// separate the values. A lone dash, which logs show for no value, becomes `%2d`. A text of more
/// than `most` bytes is cut between two characters and ends with `*`.
#[must_use]
pub fn escape<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>, most: usize) -> String {
    let (mut text, mut cut) = (String::new(), 0);
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        for byte in value.as_ref() {
            // After a cut here, there is room for the `*`.
            if text.len() < most {
                cut = text.len();
            }
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => text.push(char::from(*byte)),
                b'-' | b'.' | b'_' | b'~' | b':' | b'/' | b'@' | b'+' => text.push(char::from(*byte)),
                _ => {
                    text.push('%');
                    hex(&mut text, *byte);
                }
            }
            if text.len() > most {
                text.truncate(cut);
                text.push('*');
                return text;
            }
        }
    }
    if text == "-" { "%2d".into() } else { text }
}

/// Sets how long the effective stream waited for its turn.
pub(super) fn set_waited(host: impl Host, waited: Span) {
    host.set_attribute(WAITED_MS, &decimal(whole_ms(waited)));
}

pub(super) fn whole_ms(span: Span) -> u64 {
    span.as_ns().checked_div(1_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(value: &[u8]) -> String {
        escape([value], LONGEST)
    }

    /// The values of a text that is not cut.
    fn unescaped(text: &str) -> Vec<Vec<u8>> {
        let value = |value: &str| {
            let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
            while let Some((byte, after)) = rest.split_first() {
                let (digits, later) = if *byte == b'%' { after.split_at(2) } else { (&[][..], after) };
                let digits = str::from_utf8(digits).unwrap();
                bytes.push(if digits.is_empty() { *byte } else { u8::from_str_radix(digits, 16).unwrap() });
                rest = later;
            }
            bytes
        };
        text.split(',').map(value).collect()
    }

    #[test]
    fn hostile_values_are_plain_text() {
        for (value, text) in [
            (&b"ann@example.com"[..], "ann@example.com"),
            (b"2001:db8::/64", "2001:db8::/64"),
            (b"a\"b\\c", "a%22b%5cc"),
            (b"a\r\nb\0\x1b[31m", "a%0d%0ab%00%1b%5b31m"),
            (b"\xff\xc3\xa9", "%ff%c3%a9"),
            (b"Bearer e30.e30.AA==", "Bearer%20e30.e30.AA%3d%3d"),
            (b"100%,*", "100%25%2c%2a"),
            (b"${jndi:x}", "%24%7bjndi:x%7d"),
            (b"-", "%2d"),
            (b"--", "--"),
        ] {
            assert_eq!(escaped(value), text);
        }
        assert_eq!(escape(["ann", "192.0.2.7"], LONGEST), "ann,192.0.2.7");
    }

    #[test]
    fn a_long_value_is_cut_between_two_characters() {
        let plain = |length| "a".repeat(length);
        assert_eq!(escaped(plain(LONGEST).as_bytes()), plain(LONGEST));
        assert_eq!(escaped(plain(LONGEST + 1).as_bytes()), plain(LONGEST - 1) + "*");
        for before in LONGEST - 4..LONGEST {
            let text = escaped(&[plain(before).as_bytes(), b"\n"].concat());
            let whole = plain(before) + "%0a";
            assert_eq!(text, if whole.len() > LONGEST { plain(before) + "*" } else { whole });
        }
        assert_eq!(escaped("a".repeat(1 << 20).as_bytes()).len(), LONGEST);
    }

    proptest! {
        #[test]
        fn any_values_are_told_apart_and_plain(values in proptest::collection::vec(any::<Vec<u8>>(), 1..4)) {
            let text = escape(&values, usize::MAX);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\'<>&=;|*".contains(&byte)));
            prop_assert_eq!(unescaped(&text), values.clone());
            let cut = escape(&values, LONGEST);
            prop_assert!(cut.len() <= LONGEST);
            match cut.strip_suffix('*') {
                Some(start) => prop_assert!(text.starts_with(start) && text.len() > LONGEST),
                None => prop_assert_eq!(cut, text),
            }
        }
    }
}
