//! The laws of every gateway: how many requests may be in flight, may pass, and may wait. Some
//! faults make a gateway break some of them.

use super::faults::FaultKind;
use super::gateway::{Fate, Gateway};
use super::play::in_flight;
use diana_limiter::cells::store::CasSemantics;

/// No more requests are in flight than there are permits.
pub fn permits_hold(gateway: &Gateway) {
    assert!(in_flight(gateway, "/permits") <= 2);
    assert!(in_flight(gateway, "/all") <= 3);
}

/// No more requests pass than each user's daily quota, or the turns of a queue, allow.
pub fn quotas_hold(gateway: &Gateway) {
    let records = gateway.world.records.borrow();
    for (path, most) in [("/quota", 5), ("/all", 9), ("/held", 1)] {
        for user in ["ann", "bob"] {
            let own = |user: &str| path == "/held" || user == "ann" || user == "bob";
            let of =
                records.iter().filter(|record| record.path == path && record.went.is_some() && own(user));
            let count = of.filter(|record| path == "/held" || record.user == user).count();
            assert!(count <= most, "{count} of {user} at {path}");
        }
    }
    for (path, gap_ms) in [("/queue", 100), ("/all", 50)] {
        let first = records.iter().filter(|record| record.path == path).map(|record| record.came).min();
        let of = records.iter().filter(|record| record.path == path && !record.hurried);
        let mut went: Vec<u64> = of.filter_map(|record| record.went).collect();
        went.sort_unstable();
        for (turn, went) in went.iter().enumerate() {
            // nginx' clock has whole milliseconds.
            let due = first.unwrap() / 1_000_000 + gap_ms * turn as u64;
            assert!(
                went / 1_000_000 >= due,
                "turn {turn} at {path} came {} ms early",
                due - went / 1_000_000
            );
        }
    }
}

/// No request waits for ever once faults have ceased.
pub fn no_request_waits_for_ever(gateway: &Gateway) {
    gateway.fail(FaultKind::Nothing);
    gateway.settle();
    gateway.no_crash();
}

/// After all requests have ended, all permits and turns are refunded.
pub fn everything_is_refunded(gateway: &Gateway) {
    gateway.end_all();
    gateway.pass(10_000);
    let ask = |path: &str| {
        let request = gateway.request(0, path, "carol");
        gateway.fate(request)
    };
    let fates: Vec<Fate> = (0..3).map(|_| ask("/permits")).collect();
    assert_eq!(fates, [Fate::Upstream, Fate::Upstream, Fate::Answered(429)]);
    assert_eq!(ask("/queue"), Fate::Upstream, "the queue is empty");
    let waits = if gateway.world.rules == CasSemantics::Lenient { Fate::Paused } else { Fate::Answered(429) };
    assert_eq!(ask("/queue"), waits);
    gateway.settle();
    nothing_is_left(gateway);
}

pub fn nothing_is_left(gateway: &Gateway) {
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
}
