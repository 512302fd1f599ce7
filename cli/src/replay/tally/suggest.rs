//! Suggests a quota for a rule from the peaks of its actors.

use crate::replay::summary::{RuleSummary, Suggestion};

/// The share of the actors that a suggested quota never refuses. Of fewer than 100 actors, one in a
/// hundred would be less than one actor.
fn share(actors: u64) -> f64 {
    match actors {
        0..100 => 1.0,
        100..1_000 => 0.99,
        _ => 0.999,
    }
}

/// The quota that the log suggests, with the reasoning. `refuses` is the share of the requests that
/// a quota would refuse, if that is known. `None` without peaks.
#[must_use]
pub fn suggestion(rule: &RuleSummary, refuses: impl Fn(u64) -> Option<f64>) -> Option<Suggestion> {
    let at =
        |share: f64| rule.peaks.iter().find(|quantile| quantile.share >= share).map(|quantile| quantile.peak);
    let share = share(rule.actors);
    let (most, highest) = (at(share)?, at(1.0)?);
    let is_single = rule.actors <= 1;
    let basis = if is_single { highest } else { most };
    let rpu = rounded(basis.saturating_mul(6).div_ceil(5)).max(1);
    let within = match rule.unit_s {
        0.0 => "in flight at once".to_owned(),
        unit => format!("within {}", span(unit)),
    };
    let requests = |count: u64| if count == 1 { "1 request".to_owned() } else { format!("{count} requests") };
    let mut why = match is_single {
        true => format!("The highest peak is {} {within}.", requests(highest)),
        false if share == 1.0 => {
            format!("The busiest of the {} actors has at most {} {within}.", rule.actors, requests(most))
        }
        false => format!(
            "{} % of the {} actors have at most {} {within}; the busiest has {highest}.",
            share * 100.0,
            rule.actors,
            requests(most)
        ),
    };
    why.push_str(&format!(" A quota of {rpu} leaves at least 20 % headroom."));
    if let Some(share) = refuses(rpu) {
        why.push_str(&match share {
            0.0 => " The rule alone would have refused nothing.".to_owned(),
            share => format!(" The rule alone would have refused {} of the requests.", percent(share)),
        });
    }
    if rule.algorithm == "TB" && rule.unit_s > 1.0 {
        why.push_str(" A token bucket admits the whole quota at once, unless `burst` is lower.");
    }
    if rule.algorithm == "W" && rule.unit_s > 0.0 {
        why.push_str(" A window may admit twice the quota around its end.");
    }
    Some(Suggestion { rpu, why })
}

/// A share in percent, for people.
#[must_use]
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        small if small < 0.01 => "less than 0.01 %".into(),
        small if small < 10.0 => format!("{small:.2} %"),
        large => format!("{large:.1} %"),
    }
}

/// A length of time, for people.
#[must_use]
pub fn span(seconds: f64) -> String {
    let units = [(86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second")];
    let whole = units.iter().find(|(length, _)| seconds >= *length && seconds % length == 0.0);
    match whole {
        Some((length, name)) if seconds == *length => format!("one {name}"),
        Some((length, name)) => format!("{} {name}s", seconds / length),
        None if seconds < 1.0 => format!("{} ms", (seconds * 1e3).round()),
        None => format!("{seconds} s"),
    }
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
    use crate::replay::summary::Quantile;

    fn rule(actors: u64, unit_s: f64, peaks: &[(f64, u64)]) -> RuleSummary {
        let peaks = peaks.iter().map(|(share, peak)| Quantile { share: *share, peak: *peak }).collect();
        RuleSummary { actors, unit_s, peaks, algorithm: "TB".into(), ..RuleSummary::default() }
    }

    #[test]
    fn a_suggestion_gives_its_reasons() {
        let many = rule(1_000, 60.0, &[(0.5, 3), (0.999, 41), (1.0, 5_000)]);
        let found = suggestion(&many, |rpu| (rpu == 50).then_some(0.0123)).unwrap();
        assert_eq!(found.rpu, 50);
        assert_eq!(
            found.why,
            "99.9 % of the 1000 actors have at most 41 requests within one minute; the busiest has 5000. \
             A quota of 50 leaves at least 20 % headroom. The rule alone would have refused 1.23 % of the requests. \
             A token bucket admits the whole quota at once, unless `burst` is lower."
        );
        let single = suggestion(&rule(1, 1.0, &[(0.99, 123), (1.0, 123)]), |_| Some(0.0)).unwrap();
        assert_eq!(single.rpu, 150);
        assert_eq!(
            single.why,
            "The highest peak is 123 requests within one second. A quota of 150 leaves at least 20 % headroom. \
             The rule alone would have refused nothing."
        );
        let permits = suggestion(&rule(200, 0.0, &[(0.99, 1), (1.0, 4)]), |_| None).unwrap();
        assert_eq!(
            permits.why,
            "99 % of the 200 actors have at most 1 request in flight at once; the busiest has 4. A quota of 2 leaves at least 20 % headroom."
        );
        let few = suggestion(&rule(9, 1.0, &[(0.99, 1), (1.0, 4)]), |_| None).unwrap();
        assert!(
            few.why.starts_with("The busiest of the 9 actors has at most 4 requests within one second."),
            "{}",
            few.why
        );
        assert!(suggestion(&rule(0, 1.0, &[]), |_| None).is_none());
    }

    #[test]
    fn numbers_are_rounded_for_people() {
        assert_eq!([1, 9, 10, 11, 99, 101, 1_234].map(rounded), [1, 9, 10, 11, 99, 110, 1_300]);
        assert_eq!(
            [0.0, 0.000_01, 0.012_3, 0.5].map(percent),
            ["0 %", "less than 0.01 %", "1.23 %", "50.0 %"]
        );
        assert_eq!(
            [0.25, 1.0, 1.5, 30.0, 60.0, 7_200.0].map(span),
            ["250 ms", "one second", "1.5 s", "30 seconds", "one minute", "2 hours"]
        );
    }
}
