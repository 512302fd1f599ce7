//! A document server that is down: its last document stays active for a while, then the local one,
//! and then the server's again.

use super::clients::Traffic;
use super::{LOCAL, PATIENCE, Remote, VMS, local, quota};
use gateway::{Config, Gateway, wait_until};
use serde_json::json;
use servers::Fault;
use std::time::Duration;

/// A quota higher than the load.
const REMOTE: u64 = 2_000_000;
const MAX_STALE: Duration = Duration::from_millis(1_500);

#[test]
fn a_server_goes_down_and_comes_back() {
    let mut remote = Remote::start(json!({"max_stale": "1500ms"}));
    let traffic = Traffic::default();
    let mut clients = remote.connect();
    let begun = remote.counted("config.switches");
    let all_switch = |remote: &Remote, times| {
        remote.wait("the main thread as well", || remote.counted("config.switches") == begun + times * VMS);
    };
    remote.documents.put(quota(REMOTE).to_string());
    remote.wait_for(&mut clients, REMOTE);
    all_switch(&remote, 1);
    let all_by = |what: &str, quota| {
        wait_until(what, PATIENCE, || traffic.is_by(quota).then_some(()))
            .unwrap_or_else(|error| panic!("{error}"));
    };
    // The server may have been polled before it had a document.
    let missed = remote.lines("cannot be fetched: ").len();
    traffic.during(clients, || {
        remote.wait_polls("unchanged", 1);
        remote.documents.kill();
        // The last poll may have been cut off before its reply.
        let contact = remote.documents.seen().iter().rev().nth(1).unwrap().at;
        all_by("the local document to serve", LOCAL);
        let shots = traffic.shots();
        let first = shots.iter().filter(|shot| shot.quota == LOCAL).map(|shot| shot.received).min().unwrap();
        println!(
            "the local document became active {:?} after the last contact, of {MAX_STALE:?}",
            first - contact
        );
        assert!(first - contact >= MAX_STALE);
        assert!(remote.polls("failed") >= 2);
        all_switch(&remote, 2);
        assert_eq!(remote.counted("config.generation"), 0);
        remote.documents.restart().unwrap();
        all_by("the remote document to become active again", REMOTE);
        all_switch(&remote, 3);
        assert_eq!(remote.counted("config.generation"), 1, "the document is the same");
    });
    let shots = traffic.shots();
    assert!(shots.iter().all(|shot| shot.status == 200 && [REMOTE, LOCAL].contains(&shot.quota)));
    for (line, times) in
        [("cannot be fetched: ", missed + 1), ("no contact for `max_stale`", 1), ("is in contact again", 1)]
    {
        assert_eq!(remote.lines(line).len(), times, "{line}\n{}", remote.gateway.logs());
    }
}

#[test]
fn a_server_that_replies_late_counts_as_down() {
    let remote = Remote::start(json!({"timeout": "500ms"}));
    remote.documents.put(quota(200_000).to_string());
    let mut clients = remote.connect();
    remote.wait_for(&mut clients, 200_000);
    for (number, fault) in (3..).zip([Fault::Silence, Fault::Late(Duration::from_secs(5)), Fault::HangUp]) {
        remote.documents.fail(fault.clone());
        let failures = remote.lines("cannot be fetched: ").len();
        remote.documents.put(quota(number * 100_000).to_string());
        remote.wait_polls("failed", 2);
        assert_eq!(clients.quotas(), [(number - 1) * 100_000; 4], "{fault:?}");
        assert_eq!(remote.lines("cannot be fetched: ").len(), failures + 1, "{fault:?}");
        remote.documents.fail(Fault::None);
        remote.wait_for(&mut clients, number * 100_000);
    }
    println!("{:#?}", remote.lines("cannot be fetched: "));
}

/// The mistake shows only at run time.
#[test]
fn a_cluster_that_the_gateway_does_not_know() {
    let document = local(&json!({"cluster": "nobody"}));
    let gateway = Gateway::start(Config { balanced: true, ..Config::new(document) }).unwrap();
    let documents = servers::Documents::start().unwrap();
    let remote = Remote { gateway, documents };
    remote.wait_polls("failed", 2);
    assert_eq!(remote.connect().quotas(), [LOCAL; 4]);
    let line = "cluster nobody cannot be fetched: the gateway has no such cluster, or none of its hosts";
    assert_eq!(remote.lines(line).len(), 1, "{}", remote.gateway.logs());
    assert_eq!((remote.counted("config.generation"), remote.documents.requests()), (0, 0));
}
