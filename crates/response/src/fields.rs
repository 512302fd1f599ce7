//! The rules whose quotas a client sees, and the header fields that show the remaining quota, in
//! the forms that clients read.
//!
//! | form | source |
//! | --- | --- |
//! | `ratelimit-policy: "per-ip";q=10;w=1` | draft 10 §3: quota, window in seconds |
//! | `ratelimit: "per-ip";r=0;t=1` | draft 10 §4: remaining, seconds until there is more |
//! | `ratelimit-policy: "c";q=8;qu="concurrent-requests"` | draft 10 §3: in flight, so no window |
//! | `x-ratelimit-limit: 10, 10;w=1;name="per-ip"` | Envoy's `DRAFT_VERSION_03` (tightest, all) |
//! | `x-ratelimit-remaining: 0` | of the tightest rule |
//! | `x-ratelimit-reset: 1` | of the tightest rule, in seconds |
//! | `x-ratelimit-limit-tokens: 1000` | OpenAI's API: of the tightest rule that counts tokens |
//! | `x-ratelimit-reset-requests: 6m0s` | OpenAI's API: of the tightest rule that counts requests, until nothing is used |
//!
//! Draft 10 is draft-ietf-httpapi-ratelimit-headers-10. Seconds are whole and rounded up: a unit of
//! 500 ms is a window of one second.

use super::ResponseOptions;
use super::wait::{PERMIT_WAIT, bound, finite_wait, in_flight};
use diana_base::format::{decimal, field_string, number};
use diana_base::sort;
use diana_base::time::Span;
use diana_limiter::algorithm::{Admission, Allowance};
use diana_limiter::decide::{Decision, RuleCheck};
use diana_limiter::policy::{CountedUnit, Policy, RuleId};
use std::cmp::Reverse;

/// The most rules that the headers show, so that they stay short under any policy.
const MAX_SHOWN: usize = 16;

/// One rule as a client sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownRule {
    /// The index among the rules that counted the request.
    index: usize,
    pub(super) rule: RuleId,
    pub(super) quota: Allowance,
    pub(super) remaining: u64,
    refuses: bool,
    /// The time until a refusing rule would admit the request, or until another rule has more left;
    /// for requests in flight, a guess. `None`: never.
    pub(super) wait: Option<Span>,
    /// The wait for fields that cannot express "never".
    finite_wait: Span,
    /// The time until nothing is used, unless more is.
    full_in: Span,
}

impl ShownRule {
    /// The rules to show: refusing rules first, the longest wait first; then the others, the least
    /// remaining first. Among those with equal remaining, the slowest to grow comes first. The sort
    /// is stable. They replace the contents of `limits`. Hidden rules are not among them.
    pub(super) fn tightest_first(
        options: &ResponseOptions,
        decision: &Decision,
        limits: &mut Vec<ShownRule>,
    ) {
        limits.clear();
        let checks = decision.checks.iter().enumerate().filter(|(_, check)| !options.hides(check.rule()));
        limits.extend(checks.filter_map(|(index, check)| ShownRule::of(index, check)));
        sort::sort_by_key(limits, |limit| {
            if limit.refuses {
                (0, 0, Reverse(limit.wait.unwrap_or(Span::from_ns(u64::MAX))), limit.index)
            } else {
                (1, limit.remaining, Reverse(limit.wait.unwrap_or_default()), limit.index)
            }
        });
        limits.truncate(MAX_SHOWN);
    }

    /// `None` for a rule that is not shown: in shadow, or without a verdict.
    fn of(index: usize, check: &RuleCheck) -> Option<ShownRule> {
        let verdict = check.verdict().filter(|_| !check.is_in_shadow())?;
        let (refuses, wait) = match verdict.admission {
            Admission::Refuse { retry_after } => (check.is_enforced(), retry_after),
            Admission::Admit { .. } => (false, (verdict.more_in > Span::ZERO).then_some(verdict.more_in)),
        };
        let (rule, quota) = (check.rule(), check.shown());
        let wait = wait.map(|wait| if in_flight(quota) { PERMIT_WAIT } else { bound(check, wait) });
        let finite_wait = bound(check, finite_wait(quota));
        let (remaining, full_in) = (verdict.remaining, bound(check, verdict.full_in));
        Some(ShownRule { index, rule, quota, remaining, refuses, wait, finite_wait, full_in })
    }

    /// `None` for a quota of requests in flight.
    pub(super) fn window_secs(&self) -> Option<u64> {
        (!in_flight(self.quota)).then(|| self.quota.unit.as_secs_ceil())
    }

    /// Seconds until the client may expect more. A rule that never admits the request has its unit,
    /// as in `Retry-After`; a rule that cannot grow has 0.
    pub(super) fn reset_secs(&self) -> u64 {
        match (self.wait, self.refuses) {
            (Some(wait), _) => wait.as_secs_ceil(),
            (None, true) => self.finite_wait.as_secs_ceil(),
            (None, false) => 0,
        }
    }

    /// What the fields show, OpenAI's included or not: equal digits make equal fields.
    pub(super) fn digits(&self, has_openai: bool) -> impl PartialEq + use<> {
        let wait = self.wait.map(Span::as_secs_ceil);
        let full_in = has_openai.then(|| (self.full_in.as_secs_ceil(), below_a_second(self.full_in)));
        (self.rule, self.quota, self.remaining, wait, self.reset_secs(), full_in)
    }
}

/// The milliseconds of a span that has less than 1000, rounded up; `None` for 0.
fn below_a_second(span: Span) -> Option<u64> {
    Some(span.as_ms_ceil()).filter(|ms| (1..1000).contains(ms))
}

/// The names of a version of draft-ietf-httpapi-ratelimit-headers.
pub(super) struct Draft {
    policy: &'static str,
    quota: &'static str,
    window: &'static str,
    in_flight: &'static str,
    service: &'static str,
    remaining: &'static str,
    reset: &'static str,
}

/// Version 10. Version 11 may call `r` `a`, and `t` `w`
/// (ietf-wg-httpapi/ratelimit-headers#166).
pub(super) const DRAFT_10: Draft = Draft {
    policy: "ratelimit-policy",
    quota: ";q=",
    window: ";w=",
    in_flight: r#";qu="concurrent-requests""#,
    service: "ratelimit",
    remaining: ";r=",
    reset: ";t=",
};

/// `RateLimit-Policy` and `RateLimit`, lists of items (RFC 9651 §3.1) in the same order; empty
/// without a rule to show. `RateLimit` omits the reset if no time brings more or the time is
/// unknown.
pub(super) fn ietf(draft: &Draft, all: &Policy, limits: &[ShownRule]) -> Vec<(&'static str, String)> {
    if limits.is_empty() {
        return Vec::new();
    }
    let policy = list(limits, |list, limit| {
        field_string(list, all.rule_name(limit.rule));
        list.push_str(draft.quota);
        number(list, integer(limit.quota.rpu));
        match limit.window_secs() {
            Some(window) => {
                list.push_str(draft.window);
                number(list, window);
            }
            None => list.push_str(draft.in_flight),
        }
    });
    let service = list(limits, |list, limit| {
        field_string(list, all.rule_name(limit.rule));
        list.push_str(draft.remaining);
        number(list, integer(limit.remaining));
        if let Some(wait) = limit.wait.filter(|_| !in_flight(limit.quota)) {
            list.push_str(draft.reset);
            number(list, wait.as_secs_ceil());
        }
    });
    vec![(draft.policy, policy), (draft.service, service)]
}

/// The units of OpenAI's fields, and the names: limit, remaining, reset.
const OPENAI: [(CountedUnit, [&str; 3]); 2] = [
    (
        CountedUnit::Requests,
        ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
    ),
    (
        CountedUnit::Numbers,
        ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
    ),
];

/// Whether this is the name of a field of OpenAI's.
pub(super) fn is_openai(name: &str) -> bool {
    OPENAI.iter().any(|(_, names)| names.contains(&name))
}

/// OpenAI's fields: of each unit, those of the tightest rule. The reset is the time until nothing
/// is used. Rules that count bytes or requests in flight are in none.
pub(super) fn openai(policy: &Policy, limits: &[ShownRule]) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    for (unit, [rpu, remaining, reset]) in &OPENAI {
        let counts = |limit: &&ShownRule| {
            !in_flight(limit.quota)
                && policy.rule(limit.rule).is_some_and(|rule| rule.counted_unit() == *unit)
        };
        if let Some(limit) = limits.iter().find(counts) {
            fields.push((*rpu, decimal(limit.quota.rpu)));
            fields.push((*remaining, decimal(limit.remaining)));
            fields.push((*reset, go_duration(limit.full_in)));
        }
    }
    fields
}

/// A span as Go prints durations: `20ms`, `1s`, `6m0s`, `1h0m0s`. Rounded up, from one second on to
/// whole seconds.
fn go_duration(span: Span) -> String {
    if let Some(ms) = below_a_second(span) {
        return decimal(ms) + "ms";
    }
    let seconds = span.as_secs_ceil();
    let mut text = String::new();
    if seconds >= 3600 {
        number(&mut text, seconds / 3600);
        text.push('h');
    }
    if seconds >= 60 {
        number(&mut text, seconds / 60 % 60);
        text.push('m');
    }
    number(&mut text, seconds % 60);
    text + "s"
}

/// `x-ratelimit-limit`, `-remaining` and `-reset`; empty without a rule to show. If `lists`, the
/// first one also lists the quotas of all rules.
pub(super) fn x_ratelimit(policy: &Policy, limits: &[ShownRule], lists: bool) -> Vec<(&'static str, String)> {
    let Some(tightest) = limits.first() else {
        return Vec::new();
    };
    let mut all = decimal(tightest.quota.rpu);
    for limit in limits.iter().filter(|_| lists) {
        all.push_str(", ");
        number(&mut all, limit.quota.rpu);
        if let Some(window) = limit.window_secs() {
            all.push_str(";w=");
            number(&mut all, window);
        }
        all.push_str(";name=");
        field_string(&mut all, policy.rule_name(limit.rule));
    }
    vec![
        ("x-ratelimit-limit", all),
        ("x-ratelimit-remaining", decimal(tightest.remaining)),
        ("x-ratelimit-reset", decimal(tightest.reset_secs())),
    ]
}

/// The capacity in bytes to reserve per rule.
const ITEM_BYTES: usize = 48;

fn list(limits: &[ShownRule], write_item: impl Fn(&mut String, &ShownRule)) -> String {
    let mut list = String::with_capacity(limits.len().saturating_mul(ITEM_BYTES));
    for limit in limits {
        if !list.is_empty() {
            list.push_str(", ");
        }
        write_item(&mut list, limit);
    }
    list
}

/// Clamps an integer to 15 digits (RFC 9651 §3.3.1).
fn integer(number: u64) -> u64 {
    number.min(999_999_999_999_999)
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::{Bare, RuleState, admit, decision, items, policy, refuse};
    use super::*;
    use proptest::prelude::*;

    /// The rules to show.
    fn shown(policy: &Policy, states: &[RuleState]) -> Vec<ShownRule> {
        let mut limits = Vec::new();
        ShownRule::tightest_first(&ResponseOptions::default(), &decision(policy, states), &mut limits);
        limits
    }

    /// Header fields in one of the forms.
    type ShowFields = fn(&Policy, &[ShownRule]) -> Vec<(&'static str, String)>;

    fn show(form: ShowFields, names: &[&str], states: &[RuleState]) -> Vec<(&'static str, String)> {
        let policy = policy(names);
        form(&policy, &shown(&policy, states))
    }

    /// The names of the rules shown, in order.
    fn order(names: &[&str], states: &[RuleState]) -> Vec<String> {
        let shown = show(draft_10, names, states);
        let names = |value: &str| items(value).unwrap().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let [(_, policies), (_, limits)] = &shown[..] else {
            assert!(shown.is_empty());
            return Vec::new();
        };
        assert_eq!(names(policies), names(limits));
        names(limits)
    }

    fn draft_10(policy: &Policy, limits: &[ShownRule]) -> Vec<(&'static str, String)> {
        ietf(&DRAFT_10, policy, limits)
    }

    fn listed(policy: &Policy, limits: &[ShownRule]) -> Vec<(&'static str, String)> {
        x_ratelimit(policy, limits, true)
    }

    #[test]
    fn the_plain_form_has_a_number_only() {
        let plain = |policy: &Policy, limits: &[ShownRule]| x_ratelimit(policy, limits, false);
        let states = [(10, 1000, admit(9, 100)), (5, 1000, admit(3, 100))];
        let shown = show(plain, &["a", "b"], &states);
        assert_eq!(shown[..2], [("x-ratelimit-limit", "5".into()), ("x-ratelimit-remaining", "3".into())]);
    }

    /// Parameters as ietf-wg-httpapi/ratelimit-headers#166 proposes them.
    const DRAFT_11: Draft = Draft { remaining: ";a=", reset: ";w=", ..DRAFT_10 };

    #[test]
    fn another_draft_has_other_names() {
        let draft_11 = |policy: &Policy, limits: &[ShownRule]| ietf(&DRAFT_11, policy, limits);
        let shown = show(draft_11, &["a"], &[(10, 1000, admit(9, 100))]);
        let expected = [("ratelimit-policy", r#""a";q=10;w=1"#), ("ratelimit", r#""a";a=9;w=1"#)];
        assert_eq!(shown, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn openai_has_requests_and_tokens_apart() {
        use diana_limiter::policy::{Cost, Draft, Estimate, LimitDraft, Measure, Quota, RuleDraft};
        use diana_limiter::request::Parts;
        let mut parts = Parts::default();
        let estimate = || Estimate { units: 1, max: 100 };
        let number = Cost::response(Measure::Json("/usage".into()), None, estimate()).unwrap();
        let bytes = [Cost::request_bytes(1_000, &mut parts), Cost::response_bytes(estimate()).unwrap()];
        let header = Cost::header("x-cost", 1, 1..=9, &mut parts).unwrap();
        let costs = [Cost::default(), Cost::units(5).unwrap(), number, header].into_iter().chain(bytes);
        let rule = |(index, cost): (usize, Cost)| RuleDraft {
            cost,
            ..RuleDraft::new(&index.to_string(), Vec::new(), Quota::NOTHING)
        };
        let limit = LimitDraft::new("/".parse().unwrap(), costs.enumerate().map(rule).collect());
        let policy = Draft { limits: vec![limit], parts, ..Draft::default() }.build();
        let of = |states: &[RuleState]| {
            let shown = openai(&policy, &shown(&policy, states)).into_iter();
            shown
                .map(|(name, value)| format!("{} {value}", name.strip_prefix("x-ratelimit-").unwrap()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let rest = || admit(500, 0);
        // A bucket has more in a second, and is full in six minutes.
        let filling = admit(7, 1000)
            .map(|verdict| diana_limiter::algorithm::Verdict { full_in: Span::from_secs(360), ..verdict });
        assert_eq!(
            of(&[(100, 60_000, filling), (90, 1000, admit(8, 20)), (50, 1000, admit(9, 1000))]),
            "limit-requests 100, remaining-requests 7, reset-requests 6m0s, \
             limit-tokens 50, remaining-tokens 9, reset-tokens 1s"
        );
        // Bytes and permits are neither, and what a number in the request says are no requests.
        assert_eq!(
            of(&[
                (8, 0, admit(0, 9)),
                (90, 1000, rest()),
                (50, 1000, rest()),
                (40, 1000, admit(3, 1)),
                (1, 1, admit(0, 1)),
                (1, 1, refuse(9))
            ]),
            "limit-requests 90, remaining-requests 500, reset-requests 0s, \
             limit-tokens 40, remaining-tokens 3, reset-tokens 1ms"
        );
        assert_eq!(of(&[(8, 0, admit(0, 9))]), "");
    }

    #[test]
    fn a_span_is_printed_as_go_does() {
        for (ns, expected) in [
            (0, "0s"),
            (1, "1ms"),
            (19_000_001, "20ms"),
            (999_000_000, "999ms"),
            (999_000_001, "1s"),
            (1_000_000_001, "2s"),
            (59_000_000_001, "1m0s"),
            (360_000_000_000, "6m0s"),
            (3_599_000_000_000, "59m59s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_000_000_000, "25h1m1s"),
        ] {
            assert_eq!(go_duration(Span::from_ns(ns)), expected);
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        for (state, policies, limits, remaining, reset) in [
            ((10, 1000, admit(9, 100)), "q=10;w=1", "r=9;t=1", "9", "1"),
            ((10, 1000, admit(10, 0)), "q=10;w=1", "r=10", "10", "0"),
            ((10, 1000, refuse(1001)), "q=10;w=1", "r=0;t=2", "0", "2"),
            ((10, 500, admit(0, 50)), "q=10;w=1", "r=0;t=1", "0", "1"),
            ((1000, 86_400_000, admit(1, 86_399_001)), "q=1000;w=86400", "r=1;t=86400", "1", "86400"),
            ((0, 60_000, refuse(None)), "q=0;w=60", "r=0", "0", "60"),
        ] {
            let expected =
                [("ratelimit-policy", format!("\"a\";{policies}")), ("ratelimit", format!("\"a\";{limits}"))];
            assert_eq!(show(draft_10, &["a"], &[state]), expected);
            let (quota, window) = (state.0, policies.split_once('w').unwrap().1);
            let expected = [
                ("x-ratelimit-limit", format!("{quota}, {quota};w{window};name=\"a\"")),
                ("x-ratelimit-remaining", remaining.into()),
                ("x-ratelimit-reset", reset.into()),
            ];
            assert_eq!(show(listed, &["a"], &[state]), expected);
        }
    }

    /// The ring gives only the latest time at which a permit returns.
    #[test]
    fn a_quota_of_requests_in_flight_has_no_window() {
        for (state, limits, reset) in [
            ((8, 0, admit(7, 67_500)), "r=7", "1"),
            ((8, 0, refuse(67_500)), "r=0", "1"),
            ((8, 0, refuse(1)), "r=0", "1"),
            ((8, 0, admit(8, 0)), "r=8", "0"),
            ((0, 0, refuse(None)), "r=0", "3600"),
        ] {
            let expected = [
                ("ratelimit-policy", format!(r#""x";q={};qu="concurrent-requests""#, state.0)),
                ("ratelimit", format!(r#""x";{limits}"#)),
            ];
            assert_eq!(show(draft_10, &["x"], &[state]), expected);
            let expected = [
                ("x-ratelimit-limit", format!(r#"{0}, {0};name="x""#, state.0)),
                ("x-ratelimit-remaining", limits[2..].into()),
                ("x-ratelimit-reset", reset.into()),
            ];
            assert_eq!(show(listed, &["x"], &[state]), expected);
        }
    }

    /// A delayed request is an admitted one.
    #[test]
    fn a_delayed_request_is_admitted() {
        let delayed = |remaining| {
            let outcome = Admission::Admit { delay: Span::from_secs(9) };
            admit(remaining, 500)
                .map(|verdict| diana_limiter::algorithm::Verdict { admission: outcome, ..verdict })
        };
        let states = [(10, 1000, admit(9, 100)), (10, 1000, delayed(3)), (10, 1000, refuse(500))];
        assert_eq!(
            show(draft_10, &["tb", "lb", "w"], &states)[1].1,
            r#""w";r=0;t=1, "lb";r=3;t=1, "tb";r=9;t=1"#
        );
    }

    #[test]
    fn quotas_of_both_kinds_are_shown_together() {
        let states = [(8, 0, refuse(60_000)), (10, 1000, refuse(1500)), (5, 60_000, admit(4, 12_000))];
        assert_eq!(
            show(draft_10, &["c", "tb", "w"], &states),
            [
                (
                    "ratelimit-policy",
                    r#""tb";q=10;w=1, "c";q=8;qu="concurrent-requests", "w";q=5;w=60"#.to_string()
                ),
                ("ratelimit", r#""tb";r=0;t=2, "c";r=0, "w";r=4;t=12"#.into()),
            ]
        );
        assert_eq!(
            show(listed, &["c", "tb", "w"], &states)[0].1,
            r#"10, 10;w=1;name="tb", 8;name="c", 5;w=60;name="w""#
        );
    }

    #[test]
    fn the_tightest_rule_leads() {
        let states =
            [(100, 1000, admit(40, 10)), (1000, 3_600_000, admit(7, 3600)), (10, 1000, admit(9, 100))];
        assert_eq!(
            show(listed, &["a", "b", "c"], &states),
            [
                (
                    "x-ratelimit-limit",
                    r#"1000, 1000;w=3600;name="b", 10;w=1;name="c", 100;w=1;name="a""#.to_string()
                ),
                ("x-ratelimit-remaining", "7".into()),
                ("x-ratelimit-reset", "4".into()),
            ]
        );
        let cases: [(&[RuleState], &[&str]); 5] = [
            (&[(9, 1, admit(0, 9)), (9, 1, refuse(1)), (9, 1, refuse(2))], &["c", "b", "a"]),
            (&[(9, 1, refuse(9)), (9, 1, refuse(None)), (9, 1, refuse(9))], &["b", "a", "c"]),
            (&[(9, 1, admit(1, 0)), (9, 1, admit(1, 5)), (9, 1, admit(0, 1))], &["c", "b", "a"]),
            (&[(9, 1, admit(1, 5)), (9, 1, admit(1, 5)), (9, 1, admit(1, 5))], &["a", "b", "c"]),
            (&[(9, 1, admit(5, 5)), (9, 1, admit(0, 0)), (9, 1, refuse(0))], &["c", "b", "a"]),
        ];
        for (states, expected) in cases {
            assert_eq!(order(&["a", "b", "c"], states), expected, "{states:?}");
        }
    }

    #[test]
    fn rules_that_do_not_count_are_not_shown() {
        let states = [(9, 1, admit(5, 5)), (9, 1, refuse(5)), (9, 1, None), (9, 1, admit(6, 5))];
        assert_eq!(order(&["a", "~b", "c", "~d"], &states), ["a"]);
        assert_eq!(order(&["~a", "~b", "c", "~d"], &states), [""; 0]);
        assert_eq!(show(listed, &["~a"], &states), []);
    }

    #[test]
    fn the_tightest_16_are_shown() {
        let names: Vec<String> = (0..40).map(|index| format!("rule-{index}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let states: Vec<RuleState> = (0..40).map(|index| (100, 1000, admit(40 - index, 1))).collect();
        let expected: Vec<&str> = names.iter().rev().take(16).copied().collect();
        assert_eq!(order(&names, &states), expected);
    }

    #[test]
    fn items_are_read_as_the_standard_has_them() {
        assert_eq!(
            items(r#""a\"";q=1, "b""#),
            Some(vec![("a\"".into(), vec![("q".into(), Bare::Integer(1))]), ("b".into(), vec![])])
        );
        for other in [
            "",
            "a;q=1",
            "\"a\";q",
            "\"a\";q=",
            "\"a\";q=-1",
            "\"a\",",
            "\"a\" ;q=1",
            "\"é\"",
            "\"a\";q=1000000000000000",
            "\"a\";q=\"b",
            "\"a\";q=b",
        ] {
            assert_eq!(items(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn the_fields_are_lists_of_strings_with_parameters(
            rules in proptest::collection::vec(
                ("[ -}]{0,8}", any::<u64>(), prop_oneof![Just(0), 1..=604_800_000u64], 0..=u64::MAX / 1_000_000),
                1..20,
            ),
        ) {
            let policy = policy(rules.iter().map(|(name, ..)| name));
            let states: Vec<RuleState> = rules.iter().map(|&(_, n, unit, ms)| (n, unit, admit(n, ms))).collect();
            let shown = draft_10(&policy, &shown(&policy, &states));
            let shown: Vec<_> = shown.iter().map(|(_, value)| items(value)).collect();
            let [Some(policies), Some(limits)] = &shown[..] else {
                return Err(TestCaseError::fail(format!("{shown:?}")));
            };
            prop_assert_eq!(policies.len(), rules.len().min(MAX_SHOWN));
            prop_assert_eq!(limits.len(), policies.len());
            for ((name, policy), (again, limit)) in policies.iter().zip(limits) {
                prop_assert_eq!(name, again);
                prop_assert!(rules.iter().any(|(known, ..)| known == name));
                let keys = |parameters: &[(String, Bare)]| -> String {
                    parameters.iter().map(|(key, _)| &**key).collect()
                };
                let grows = keys(limit) == "rt" && limit[1].1 != Bare::Integer(0) || keys(limit) == "r";
                prop_assert!(grows, "{limit:?}");
                match &policy[1] {
                    (key, Bare::Integer(secs)) => prop_assert!(key == "w" && *secs > 0),
                    (key, Bare::String(unit)) => {
                        prop_assert!(key == "qu" && unit == "concurrent-requests");
                        prop_assert_eq!(keys(limit), "r");
                    }
                }
                prop_assert_eq!(policy.len(), 2);
                prop_assert_eq!(&policy[0].0, "q");
            }
        }
    }
}
