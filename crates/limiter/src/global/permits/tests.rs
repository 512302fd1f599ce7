//! Tests of a worker's levels.

use super::*;

#[test]
fn short_lived_actors_leave_no_checks_behind() {
    let mut permits = Permits::default();
    let parameters = Parameters { kind: 7, numbers: [9, 1_000_000, 0, 0, 0, 0] };
    let mut stays = Vec::new();
    permits.mention(CountKey::default(), parameters, 1, Time::ZERO, &mut stays).take(1);
    for actor in 1..1_000u64 {
        let mut key = CountKey::default();
        key.iter_mut().zip(actor.to_le_bytes()).for_each(|(to, byte)| *to = byte);
        let mut reported = Vec::new();
        permits.mention(key, parameters, actor, Time::ZERO, &mut reported);
        permits.over(reported, true);
    }
    assert!(permits.checks.len() <= 2 + SPARE_CHECKS + 1, "{}", permits.checks.len());
    assert!(permits.checks.iter().any(|(_, key)| *key == CountKey::default()));
    assert_eq!(permits.wake(), Some(Time::ZERO.after(CHECK_EVERY)));
}
