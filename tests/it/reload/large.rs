//! Windows get larger and smaller quotas, beyond 32 bits and back: no count is lost.

use super::changes::{DAY, left, next, rule};
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

const LARGEST: u64 = 999_999_999_999_999;

/// A window of a day whose requests cost so much.
fn window(algo: &str, rpu: &str, cost: &str) -> String {
    let rest = format!(r#", "algo": "{algo}", "unit": "day", "cost": "{cost}""#);
    format!(
        r#"[{{"url": "/", "rules": [{}]}}]"#,
        rule(1, &rest).replace(r#""rpu": 1"#, &format!(r#""rpu": {rpu}"#))
    )
}

#[test]
fn a_large_count_survives_a_small_quota() {
    for algo in ["W", "SW"] {
        let host = Simulated::new(CasSemantics::Lenient);
        let (large, small) = (window(algo, r#""10G""#, "3G"), window(algo, r#""1k""#, "1k"));
        let gateway = next(&host, &large);
        assert_eq!([left(&gateway, 0), left(&gateway, 0)], [[7_000_000_000], [4_000_000_000]], "{algo}");
        assert_eq!([left(&next(&host, &small), 0), left(&next(&host, &small), 1)], [[0], [0]], "{algo}");
        assert_eq!(left(&next(&host, &large), 2), [1_000_000_000], "{algo}");
        let largest = window(algo, &LARGEST.to_string(), "1T");
        assert_eq!(left(&next(&host, &largest), 3), [LARGEST - 9_000_000_000 - 1_000_000_000_000], "{algo}");
    }
}

#[test]
fn a_small_count_is_that_of_a_large_quota() {
    for algo in ["W", "SW"] {
        let host = Simulated::new(CasSemantics::Lenient);
        let (small, large) = (window(algo, "9", "1k").replace("\"1k\"", "4"), window(algo, r#""10G""#, "3G"));
        assert_eq!([left(&next(&host, &small), 0), left(&next(&host, &small), 0)], [[5], [1]], "{algo}");
        assert_eq!(left(&next(&host, &large), 0), [6_999_999_992], "{algo}");
    }
}

/// A worker of a small quota clamps a sliding window, whose high bits it does not know.
#[test]
fn a_clock_that_steps_back_under_a_small_quota_loses_no_large_count() {
    let host = Simulated::new(CasSemantics::Lenient);
    let (large, small) = (window("SW", r#""100G""#, "7G"), window("SW", r#""1k""#, "1k"));
    let slice = DAY / 10;
    for (passed, expected) in [(20, 93), (21, 86), (21, 79), (23, 72)] {
        assert_eq!(left(&next(&host, &large), passed * slice), [expected * 1_000_000_000]);
    }
    assert_eq!(left(&next(&host, &small), 12 * slice), [0], "the clock has stepped back by eleven slices");
    // Four slices count now: the first has 7G, the second 14G and the last 7G.
    for (passed, expected) in [(12, 65), (18, 58), (19, 58), (20, 65), (21, 58)] {
        assert_eq!(left(&next(&host, &large), passed * slice), [expected * 1_000_000_000], "{passed}");
    }
}
