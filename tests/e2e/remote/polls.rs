//! Which worker polls, how often, and with which validators.

use super::{INTERVAL, PATIENCE, Remote, VMS, local, quota};
use gateway::config::cluster;
use gateway::{Config, Gateway, Reply, Upstream, wait_until};
use serde_json::json;
use servers::{Documents, Seen};
use std::sync::{Arc, Mutex};

/// The number of polls to observe.
const POLLS: usize = 20;

/// The polls from the last earlier one until there are `POLLS` more.
fn watch(remote: &Remote) -> Vec<Seen> {
    let before = remote.documents.requests();
    remote.wait("polls", || remote.documents.requests() >= before + POLLS);
    remote.documents.seen().split_off(before - 1)
}

/// One worker polls each 5/8 to 6/8 of an interval; all workers would poll three times as often.
#[test]
fn one_worker_polls_with_the_known_tag() {
    let remote = Remote::start(json!({"timeout": "1s", "headers": {"authorization": "Bearer a-token"}}));
    remote.documents.put(quota(200_000).to_string());
    remote.wait_for(&mut remote.connect(), 200_000);
    remote.wait_polls("unchanged", 1);
    let seen = watch(&remote);
    let span = seen[POLLS].at - seen[0].at;
    println!("{VMS} VMs, {POLLS} requests in {span:?}, at an interval of {INTERVAL:?}");
    assert!(span >= INTERVAL * POLLS as u32 * 5 / 8 * 9 / 10, "{span:?}");
    for request in &seen {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/diana.json"));
        assert_eq!((request.status, request.header("if-none-match")), (Some(304), Some("\"v1\"")));
        assert_eq!(
            (request.header("authorization"), request.header("host")),
            (Some("Bearer a-token"), Some("config"))
        );
    }
    assert_eq!(remote.polls("fresh"), 1);
    assert!(!remote.gateway.log_contains("a-token"));
    let first = &remote.documents.seen()[0];
    assert_eq!((first.header("if-none-match"), first.header("if-modified-since")), (None, None));
}

/// Envoy joins the lines. Both shells send them back as they came; servers ignore two dates. If one
/// line of `date` is the second of the change, neither shell sends a validator.
#[test]
fn validators_in_two_lines_are_the_same_in_both_shells() {
    const TAGS: [&str; 2] = ["\"one\"", "\"two\""];
    const DATES: [&str; 3] =
        ["Sun, 22 Nov 2026 10:00:00 GMT", "Mon, 23 Nov 2026 10:00:00 GMT", "Tue, 24 Nov 2026 10:00:00 GMT"];
    let [sunday, monday, tuesday] = DATES;
    let tags = Some(TAGS.join(","));
    for (modified, dates, expected) in [
        (&DATES[..2], [tuesday, tuesday], [tags.clone(), Some(DATES[..2].join(","))]),
        (&DATES[..1], ["today", "now"], [tags, Some(sunday.into())]),
        (&DATES[..1], [sunday, sunday], [None, None]),
        (&DATES[..1], [monday, sunday], [None, None]),
    ] {
        let polls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&polls);
        let server = Upstream::start(move |request| {
            let sent =
                ["if-none-match", "if-modified-since"].map(|name| request.header(name).map(str::to_owned));
            seen.lock().unwrap().push(sent);
            let lines = TAGS.map(|tag| ("etag", tag)).into_iter();
            let lines = lines.chain(modified.iter().map(|date| ("last-modified", *date)));
            let document = Reply::new(200, quota(200_000).to_string());
            lines
                .chain(dates.map(|date| ("date", date)))
                .fold(document, |reply, (name, value)| reply.header(name, value))
        })
        .unwrap();
        let mut config = Config::new(local(&json!({})));
        config.clusters.push(cluster("config", server.address(), false));
        let gateway = Gateway::start(config).unwrap();
        let polled = |result: &str| gateway.counted(&format!("config.result.{result}.polls")).unwrap();
        wait_until("three polls", PATIENCE, || (polled("unchanged") >= 2).then_some(())).unwrap();
        assert_eq!(["fresh", "refused", "failed"].map(polled), [1, 0, 0], "{dates:?}");
        assert_eq!(polls.lock().unwrap()[1..3], [expected.clone(), expected], "{modified:?}, {dates:?}");
    }
}

#[test]
fn a_date_is_used_without_a_tag() {
    let remote = Remote::start(json!({"authority": "files.example.com"}));
    remote.documents.drop_etag();
    remote.documents.put(quota(200_000).to_string());
    let mut clients = remote.connect();
    remote.wait_for(&mut clients, 200_000);
    remote.wait_polls("unchanged", 3);
    remote.documents.put(quota(300_000).to_string());
    remote.wait_for(&mut clients, 300_000);
    let seen = remote.documents.seen();
    let known = seen.iter().filter(|request| request.status == Some(304));
    assert!(known.clone().count() >= 3);
    for request in known {
        assert!(request.header("if-modified-since").is_some() && request.header("if-none-match").is_none());
        assert_eq!(request.header("host"), Some("files.example.com"));
    }
}

/// Like a file server with modification times in seconds: two changes within a second look the
/// same.
#[test]
fn a_change_in_the_same_second_is_seen() {
    let remote = Remote::start(json!({}));
    remote.documents.stop_clock();
    let mut clients = remote.connect();
    for quota_now in [2_000_000, 3_000_000, 4_000_000] {
        remote.documents.put(quota(quota_now).to_string());
        remote.wait_for(&mut clients, quota_now);
        remote.wait_polls("unchanged", 2);
    }
    assert!(remote.documents.seen().iter().all(|request| request.status != Some(304)));
}

/// Polls carry the validators of the last reply, not of the last document.
#[test]
fn a_server_without_a_document_is_polled_until_it_has_one() {
    let remote = Remote::start(json!({}));
    remote.wait_polls("failed", 3);
    let mut clients = remote.connect();
    assert_eq!(clients.quotas(), [super::LOCAL; 4]);
    assert_eq!(remote.lines("cannot be fetched: status 404").len(), 1, "{}", remote.gateway.logs());
    remote.documents.put(quota(200_000).to_string());
    remote.wait_for(&mut clients, 200_000);
    assert!(remote.documents.seen().iter().all(|request| request.path == format!("/{}", Documents::NAME)));
}
