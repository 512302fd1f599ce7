//! Tests of followers whose shared data fails or contains foreign values.

use super::*;
use diana_limiter::cells::store::{Fault, Loaded, Swap, Version};

/// Shared data in which writes fail under one prefix of keys, or all calls fail.
struct Broken<'s>(&'s Memory, Option<&'static [u8]>);

impl Store for Broken<'_> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        if self.1.is_none() { Err(Fault(10)) } else { self.0.load(key) }
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let fails = self.1.is_none_or(|kind| key.starts_with(kind));
        if fails { Err(Fault(10)) } else { self.0.swap(key, value, expected) }
    }
}

/// A worker compiles a document while the claim for its poll expires, so another worker polls and
/// gets the same document. Returns the results of both.
fn judged_beside(workers: &mut Workers, verdict: Result<(), String>) -> [PollResult; 2] {
    let (poller, _) = workers.until_poll();
    assert_eq!(poller, 0);
    let reply = || Ok(ServerReply::Document(b"new".into()));
    let Workers { store, followers, now } = workers;
    let [first, second] = &mut followers[..] else { panic!("two workers") };
    let mut beside = None;
    let judged = first.answered(store, *now, reply(), validators("new"), 0, |_| {
        let later = now.after(Span::from_secs(8));
        assert!(second.claim_poll(store, later, false).is_some());
        let compiles = |_: &[u8]| panic!("it is being judged");
        beside = Some(second.answered(store, later, reply(), validators("new"), 0, compiles));
        verdict
    });
    [judged, beside.unwrap()]
}

#[test]
fn a_document_that_is_slow_to_refuse_is_compiled_once_and_logged() {
    let mut workers = Workers::new(2);
    let refused = |why: Option<&str>| PollResult::Refused(why.map(str::to_owned));
    let results = judged_beside(&mut workers, Err("bad".into()));
    assert_eq!(results, [refused(Some("bad")), refused(None)]);
    assert_eq!(workers.look(), [0, 0]);
    workers.pass(60_000);
    let polls = workers.polls();
    let [(poller, _)] = polls[..] else { panic!("{polls:?}") };
    let follower = &mut workers.followers[poller];
    let reply = Ok(ServerReply::Document(b"new".into()));
    let compiles = |_: &[u8]| panic!("it has been refused");
    let again = follower.answered(&workers.store, workers.now, reply, validators("new"), 0, compiles);
    assert_eq!(again, refused(None));
}

/// The worker that compiles it ends, and its verdict is lost.
#[test]
fn a_document_that_nobody_judged_is_compiled_by_another_worker() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    let reply = || Ok(ServerReply::Document(b"good".into()));
    let Workers { store, followers, now } = &mut workers;
    let ends = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        followers[poller].answered(&*store, *now, reply(), validators("good"), 0, |_| panic!("it ends"))
    }));
    assert!(ends.is_err());
    workers.followers.remove(poller);
    workers.pass(9_000);
    assert_eq!(workers.polls(), [(0, None)]);
    assert_eq!(workers.serve(0, "good"), PollResult::Refused(None));
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good"), PollResult::NewDocument(1));
}

#[test]
fn a_document_that_is_slow_to_accept_is_compiled_once_and_serves() {
    let mut workers = Workers::new(2);
    let results = judged_beside(&mut workers, Ok(()));
    assert_eq!(results, [PollResult::NewDocument(1), PollResult::Refused(None)]);
    workers.pass(20_000);
    assert_eq!(workers.look(), [1, 1]);
}

/// If the validators were kept, the server would reply for ever that nothing is new.
#[test]
fn a_document_that_could_not_be_written_is_polled_again() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    let (poller, _) = workers.until_poll();
    let store = Broken(&workers.store, Some(b"diana/d"));
    let reply = Ok(ServerReply::Document(b"good 2".into()));
    let result =
        workers.followers[poller].answered(&store, workers.now, reply, validators("good 2"), 0, |_| Ok(()));
    assert_eq!(result, PollResult::Late);
    for _ in 0..10_000 {
        workers.pass(1);
        if let [(poller, etag)] = &*workers.polls() {
            assert_eq!((*poller, etag.as_deref()), (0, Some("good 1")));
            return;
        }
    }
    panic!("nobody polls");
}

/// The polling worker has the document, so the server would never send it again.
#[test]
fn a_lost_document_is_fetched_again_for_new_workers() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    head::Keys::of(&options()).put_document(&workers.store, 1, b"");
    workers.pass(6_000);
    assert_eq!(workers.polls(), [(0, None)]);
    assert_eq!(workers.serve(0, "good 1"), PollResult::NewDocument(1));
    workers.followers.push(Follower::new(options(), 9));
    assert_eq!(workers.look(), [1, 1, 1]);
}

/// Generations restart at one, so the number alone does not identify a document.
#[test]
fn a_lost_head_keeps_no_worker_on_an_old_document() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    let key = head::Keys::of(&options()).head;
    let version = workers.store.load(&key).unwrap().map(|loaded| loaded.version);
    workers.store.swap(&key, b"another's", version).unwrap();
    assert_eq!(workers.look(), [1, 1], "contact was recent");
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 2"), PollResult::NewDocument(1));
    for follower in &mut workers.followers {
        let task = follower.follow(&workers.store, workers.now);
        assert_eq!(task, Some(Task::Activate(Snapshot { generation: 1, document: b"good 2".into() })));
    }
}

#[test]
fn without_shared_data_the_last_document_stays_active_for_max_stale() {
    let mut workers = Workers::new(1);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    assert_eq!(workers.look(), [1]);
    let (broken, follower) = (Broken(&workers.store, None), &mut workers.followers[0]);
    let at = |ms| workers.now.after(Span::from_ms(ms));
    assert_eq!(follower.follow(&broken, at(60_000)), None);
    assert_eq!(follower.follow(&broken, at(60_001)), Some(Task::Local { logs: false }));
    assert_eq!(follower.follow(&broken, at(60_002)), Some(Task::Local { logs: false }), "the task repeats");
    follower.set_active(0);
    assert_eq!(follower.follow(&broken, at(60_003)), None);
}

/// The time was written by a worker with another clock.
#[test]
fn a_poll_time_too_far_in_the_future_is_ignored() {
    let mut workers = Workers::new(1);
    let (poller, _) = workers.until_poll();
    let now = workers.now;
    workers.now = Time::from_ns(1 << 62);
    workers.serve(poller, "good 1");
    workers.now = now;
    let (_, ms) = workers.until_poll();
    assert!(ms < 8_000, "{ms}");
    assert_eq!(workers.look(), [1]);
}

/// The previous plugin drains, and its local document differs. A document that it refused may be
/// valid over the new local document, even if the server has nothing new.
#[test]
fn a_refused_document_is_validated_again_over_another_local_document() {
    let mut workers = Workers::new(1);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    workers.look();
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "a mistake there"), PollResult::Refused(Some("bad".into())));
    let mut same = Follower::new(options(), 2);
    workers.followers = vec![Follower::new(options(), 3).over(7)];
    workers.pass(20_000);
    assert_eq!(workers.polls(), [(0, None)]);
    let reply = Ok(ServerReply::Document(b"a mistake there".into()));
    let follower = &mut workers.followers[0];
    let result = follower.answered(&workers.store, workers.now, reply, validators("2"), 0, |_| Ok(()));
    assert_eq!(result, PollResult::NewDocument(2));
    assert_eq!(workers.look(), [2]);
    assert!(matches!(same.follow(&workers.store, workers.now), Some(Task::Activate(_))));
}

/// A worker with the same local document does not log the refusal again, and polls without
/// validators only once.
#[test]
fn a_refused_document_is_not_logged_again_by_the_next_polling_worker() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "a mistake"), PollResult::Refused(Some("bad".into())));
    workers.followers.remove(poller);
    let etag = |workers: &mut Workers| {
        let (poller, etag) = loop {
            if let Some(polls) = workers.polls().pop() {
                break polls;
            }
            workers.pass(1);
        };
        assert_eq!(poller, 0);
        etag
    };
    assert_eq!(etag(&mut workers), None);
    assert_eq!(workers.serve(0, "a mistake"), PollResult::Refused(None));
    assert_eq!(etag(&mut workers).as_deref(), Some("a mistake"));
}
