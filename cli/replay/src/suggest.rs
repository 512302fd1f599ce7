//! Suggests a quota for a rule from the peaks of its actors.

use crate::number::{count, percent, plural, span, unit};
use crate::summary::{RuleSummary, Suggestion};

/// A shorter log may lack the busiest hour of the day.
const DAY_S: f64 = 86_400.0;
/// A log of fewer units may lack the busiest one. If the unit is a day, seven units are a week.
const LEAST_UNITS: f64 = 7.0;
/// A daily log begins after its day does, and ends before.
const NEARLY: f64 = 0.95;

/// What a suggestion would refuse: the share of the requests, by `rpu` and by `burst` if the rule
/// has one. `None` if that is unknown.
pub type Refuses<'a> = &'a dyn Fn(u64, Option<u64>) -> Option<f64>;

/// The quota that a log of `log_s` seconds suggests, with the reasoning. `None` without peaks, and
/// for a rule that refuses all requests.
#[must_use]
pub fn suggestion(rule: &RuleSummary, log_s: f64, refuses: Refuses) -> Option<Suggestion> {
    if rule.rpu == 0 {
        return None;
    }
    let at =
        |share: f64| rule.peaks.iter().find(|quantile| quantile.share >= share).map(|quantile| quantile.peak);
    let share = share(rule.actors);
    let (most, highest) = (at(share)?, at(1.0)?);
    let is_single = rule.actors <= 1;
    let peak = if is_single { highest } else { most };
    let rpu = rounded(peak.saturating_mul(6).div_ceil(5)).max(1);
    let within = match rule.unit_s {
        0.0 => "in flight at once".to_owned(),
        length => format!("within {}", unit(length)),
    };
    let mut why = match is_single {
        true => format!("The highest peak is {} {within}.", plural(highest, "request")),
        false if share == 1.0 => format!(
            "The busiest of the {} actors has at most {} {within}.",
            count(rule.actors),
            plural(most, "request")
        ),
        false => format!(
            "{} % of the {} actors have at most {} {within}; the busiest has {}.",
            share * 100.0,
            count(rule.actors),
            plural(most, "request"),
            count(highest)
        ),
    };
    why.push_str(&format!(" A quota of {} leaves at least 20 % headroom.", count(rpu)));
    let burst = rule.burst.map(|burst| {
        let (burst, reason) = suggested_burst(burst, rule.rpu, rpu, peak);
        why.push_str(&reason);
        burst
    });
    let compared = compared(rule, rpu, refuses(rpu, burst), refuses(rule.rpu, None));
    if let Some(share) = refuses(rpu, burst) {
        why.push_str(&match share {
            0.0 => " The rule alone would have refused nothing.".to_owned(),
            share => format!(" The rule alone would have refused {} of the requests.", percent(share)),
        });
    }
    if rule.algorithm == "W" && rule.unit_s > 0.0 {
        why.push_str(" A window may admit twice the quota around its end.");
    }
    Some(Suggestion { rpu, burst, caveat: caveat(rule.unit_s, log_s), compared, why })
}

/// Why the suggestion is no improvement, if it is none. The shares are those that the rule alone
/// refuses with the suggestion, and with the quota now.
fn compared(rule: &RuleSummary, rpu: u64, then: Option<f64>, now: Option<f64>) -> Option<String> {
    match (then, now) {
        (Some(then), Some(now)) if then > now => {
            Some(format!("This refuses more than the quota now: {} against {}.", percent(then), percent(now)))
        }
        _ if rpu < rule.rpu && rule.refused == 0 => {
            Some("This is lower than the quota now, which refuses nothing.".into())
        }
        _ => None,
    }
}

/// The share of the actors that a suggested quota never refuses. Of fewer than 100 actors, one in a
/// hundred would be less than one actor.
fn share(actors: u64) -> f64 {
    match actors {
        0..100 => 1.0,
        100..1_000 => 0.99,
        _ => 0.999,
    }
}

/// The `burst` that goes with the suggested `rpu`, and why. The peak of an aligned unit says how
/// many requests come, not how fast, so the bucket must admit all of them at once.
fn suggested_burst(burst: u64, rpu_now: u64, rpu: u64, peak: u64) -> (u64, String) {
    let requests = plural(peak, "request");
    let now = count(burst);
    if burst == rpu_now {
        return (
            rpu,
            format!(" If `burst` stays equal to `rpu`, as by default, {requests} may come at once."),
        );
    }
    if burst < peak {
        let reason = format!(
            " The `burst` of {now} is lower than this peak: after {now} at once, the bucket refuses requests that come \
             faster than the quota. With a `burst` of {}, {requests} may come at once.",
            count(rpu)
        );
        return (rpu, reason);
    }
    (burst, format!(" With the `burst` of {now}, {requests} may come at once."))
}

/// Why a log is too short for a suggestion.
fn caveat(unit_s: f64, log_s: f64) -> Option<String> {
    let covers = format!("The log covers only {}", span(log_s));
    if unit_s < DAY_S && log_s < NEARLY * DAY_S {
        return Some(format!("{covers}, less than a day: the busiest hour may be missing."));
    }
    (log_s < NEARLY * LEAST_UNITS * unit_s).then(|| {
        let unit = unit(unit_s);
        format!("{covers}, fewer than {LEAST_UNITS} units of {unit}: the busiest unit may be missing.")
    })
}

/// A number rounded up to two digits.
fn rounded(number: u64) -> u64 {
    let digits = number.checked_ilog10().unwrap_or(0);
    let step = 10u64.saturating_pow(digits.saturating_sub(1));
    number.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Quantile;

    const WEEK_S: f64 = 604_800.0;

    fn rule(actors: u64, unit_s: f64, peaks: &[(f64, u64)]) -> RuleSummary {
        let peaks = peaks.iter().map(|(share, peak)| Quantile { share: *share, peak: *peak }).collect();
        RuleSummary { actors, unit_s, peaks, rpu: 7, algorithm: "SL".into(), ..RuleSummary::default() }
    }

    fn suggested(rule: &RuleSummary) -> Suggestion {
        suggestion(rule, WEEK_S, &|_, _| None).unwrap()
    }

    #[test]
    fn a_suggestion_gives_its_reasons() {
        let many = rule(1_000, 60.0, &[(0.5, 3), (0.999, 41), (1.0, 5_000)]);
        let found = suggestion(&many, WEEK_S, &|rpu, burst| (rpu == 50 && burst.is_none()).then_some(0.0123))
            .unwrap();
        assert_eq!((found.rpu, found.burst, found.caveat), (50, None, None));
        assert_eq!(
            found.why,
            "99.9 % of the 1,000 actors have at most 41 requests within one minute; the busiest has 5,000. \
             A quota of 50 leaves at least 20 % headroom. The rule alone would have refused 1.23 % of the requests."
        );
        let single = rule(1, 1.0, &[(0.99, 123), (1.0, 123)]);
        let single = suggestion(&single, WEEK_S, &|_, _| Some(0.0)).unwrap();
        assert_eq!(single.rpu, 150);
        assert_eq!(
            single.why,
            "The highest peak is 123 requests within one second. A quota of 150 leaves at least 20 % headroom. \
             The rule alone would have refused nothing."
        );
        let permits = suggested(&rule(200, 0.0, &[(0.99, 1), (1.0, 4)]));
        assert_eq!(
            permits.why,
            "99 % of the 200 actors have at most 1 request in flight at once; the busiest has 4. A quota of 2 leaves at least 20 % headroom."
        );
        let few = suggested(&rule(9, 1.0, &[(0.99, 1), (1.0, 4)]));
        assert!(
            few.why.starts_with("The busiest of the 9 actors has at most 4 requests within one second."),
            "{}",
            few.why
        );
        assert!(suggestion(&rule(0, 1.0, &[]), WEEK_S, &|_, _| None).is_none());
    }

    #[test]
    fn a_rule_that_refuses_all_has_no_suggestion() {
        let closed = RuleSummary { rpu: 0, ..rule(9, 60.0, &[(1.0, 41)]) };
        assert!(suggestion(&closed, WEEK_S, &|_, _| None).is_none());
    }

    #[test]
    fn a_burst_is_as_large_as_the_peak() {
        let bucket = |rpu, burst| {
            let rule = RuleSummary { rpu, burst: Some(burst), ..rule(9, 60.0, &[(1.0, 41)]) };
            let found = suggestion(&rule, WEEK_S, &|_, burst| burst.map(|_| 0.0)).unwrap();
            assert!(found.why.ends_with(" would have refused nothing."), "{}", found.why);
            (found.rpu, found.burst.unwrap(), found.why)
        };
        for (rpu, burst, suggested, words) in [
            (20, 20, 50, " If `burst` stays equal to `rpu`, as by default, 41 requests may come at once."),
            (
                90,
                10,
                50,
                "The `burst` of 10 is lower than this peak: after 10 at once, the bucket refuses requests",
            ),
            (90, 10, 50, "With a `burst` of 50, 41 requests may come at once."),
            (20, 60, 60, "With the `burst` of 60, 41 requests may come at once."),
        ] {
            let found = bucket(rpu, burst);
            assert_eq!((found.0, found.1), (50, suggested));
            assert!(found.2.contains(words), "{}", found.2);
        }
    }

    #[test]
    fn a_short_log_is_named() {
        assert_eq!(
            [(60.0, 3.0), (0.0, 7_200.0), (DAY_S, 200_000.0), (14_400.0, DAY_S)]
                .map(|(unit_s, log_s)| caveat(unit_s, log_s).unwrap()),
            [
                "The log covers only 3 s, less than a day: the busiest hour may be missing.",
                "The log covers only 2 h, less than a day: the busiest hour may be missing.",
                "The log covers only 2 d 8 h, fewer than 7 units of one day: the busiest unit may be missing.",
                "The log covers only 1 d, fewer than 7 units of 4 hours: the busiest unit may be missing.",
            ]
        );
        for (unit_s, log_s) in [(60.0, DAY_S - 9.0), (14_400.0, 2.0 * DAY_S), (DAY_S, WEEK_S - 9.0)] {
            assert_eq!(caveat(unit_s, log_s), None);
        }
    }

    #[test]
    fn numbers_are_rounded_for_people() {
        assert_eq!([1, 9, 10, 11, 99, 101, 1_234].map(rounded), [1, 9, 10, 11, 99, 110, 1_300]);
    }
}
