//! What a new configuration keeps of a count if the headroom changes.

use super::changes::{left, limit, next, rule};
use crate::harness::{Gateway, store};
use diana_limiter::cells::store::CasSemantics;
use diana_testing::shared_data::Simulated;

/// Cells do not depend on the headroom, and a new `headroom` holds at once.
#[test]
fn a_changed_headroom_keeps_the_count() {
    for keys in [r#", "unit": "day""#, r#", "algo": "W", "unit": "day""#, r#", "algo": "C""#] {
        let with = |priority: &str| limit(&[rule(20, &format!("{keys}{priority}"))]);
        let host = Simulated::new(CasSemantics::Strict);
        let plain = Gateway::new(&with(""), store(&host));
        assert_eq!([left(&plain, 0), left(&plain, 0)], [[19], [18]]);
        let keeps = next(&host, &with(r#", "headroom": 5"#));
        assert_eq!([left(&keeps, 1), left(&keeps, 1)], [[12], [11]]);
        let other = next(&host, &with(r#", "headroom": "50%""#));
        assert_eq!(left(&other, 2), [5]);
        let plain = next(&host, &with(""));
        assert_eq!(left(&plain, 3), [14]);
    }
}

/// The states of rules that differ only in their headroom do not mix with those of other rules.
#[test]
fn neighbours_keep_their_counts_as_well() {
    let host = Simulated::new(CasSemantics::Strict);
    let hour = |headroom: u32| rule(20, &format!(r#", "algo": "W", "unit": "hour", "headroom": {headroom}"#));
    let day = rule(30, r#", "algo": "W", "unit": "day""#);
    let old = Gateway::new(&limit(&[hour(1), hour(2), day.clone()]), store(&host));
    assert_eq!([left(&old, 0), left(&old, 0)], [[18, 17, 29], [17, 16, 28]]);
    let new = next(&host, &limit(&[day, hour(9), hour(2)]));
    assert_eq!(left(&new, 1), [27, 8, 15]);
}
