//! A change of documents during traffic.

use super::clients::Traffic;
use super::{PATIENCE, Remote, VMS, quota};
use gateway::wait_until;
use serde_json::json;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(1);
const QUOTAS: [u64; 5] = [500_000, 400_000, 300_000, 200_000, 5];

/// The last document refuses all requests. A busy machine may be late once.
#[test]
fn a_change_is_enforced_by_every_worker_within_an_interval_and_no_request_is_lost() {
    let remote = Remote::start(json!({"interval": "1s", "timeout": "1s"}));
    let traffic = Traffic::default();
    let mut late = Vec::new();
    let clients = remote.connect();
    // Each VM has begun without a document, and so has the VM in which Envoy validates a
    // configuration.
    let begun = remote.counted("config.switches");
    traffic.during(clients, || {
        for (number, to) in (1..).zip(QUOTAS) {
            let at = Instant::now();
            remote.documents.put(quota(to).to_string());
            wait_until("all to count by it", PATIENCE, || traffic.is_by(to).then_some(()))
                .unwrap_or_else(|error| panic!("{error}\n{}", remote.gateway.logs()));
            let span = traffic.last_of_others(at, to).map_or(Duration::ZERO, |last| last - at);
            late.push(span);
            assert!(span <= 2 * INTERVAL, "{late:?}");
            remote.wait("all to switch", || remote.counted("config.switches") == begun + VMS * number);
            assert_eq!(remote.counted("config.generation"), number);
        }
    });
    println!(
        "{late:?} after a change the last request was decided by what was there before, of {INTERVAL:?}"
    );
    let in_time = late.iter().filter(|late| **late <= INTERVAL).count();
    assert!(in_time > QUOTAS.len() / 2, "{late:?}");
    let shots = traffic.shots();
    let tight = |status: u16| shots.iter().filter(|shot| (shot.quota, shot.status) == (5, status)).count();
    assert!(tight(200) <= 5 && tight(429) > 0, "{} passed, {} were refused", tight(200), tight(429));
    assert!(shots.iter().all(|shot| shot.status == 200 || shot.quota == 5), "only the last is so tight");
    assert_eq!((remote.polls("fresh"), remote.polls("refused")), (5, 0));
    assert_eq!(remote.lines("remote configuration of cluster config taken").len(), 5);
}
