//! Tests of followers whose shared data fails, or holds what somebody else has written.
//!
//! It does not know: any host.

use super::*;
use crate::store::{Fault, Loaded, Swap, Version};

/// As a shared data of which writes under one key fail, or all calls do.
struct Broken<'s>(&'s Portable<Simulated>, Option<&'static [u8]>);

impl Store for Broken<'_> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        if self.1.is_none() { Err(Fault(10)) } else { self.0.load(key) }
    }

    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        let fails = self.1.is_none_or(|kind| key.starts_with(kind));
        if fails { Err(Fault(10)) } else { self.0.swap(key, value, expected) }
    }
}

/// Its marks would have the server say for ever that nothing is new.
#[test]
fn a_document_that_could_not_be_written_is_asked_for_again() {
    let mut workers = Workers::new(2);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    let (asker, _) = workers.until_asked();
    let store = Broken(&workers.store, Some(b"diana/d"));
    let answer = Ok(ServerReply::Document(b"good 2".into()));
    let outcome =
        workers.followers[asker].answered(&store, workers.now, answer, marks("good 2"), 0, |_| Ok(()));
    assert_eq!(outcome, PollResult::Late);
    for _ in 0..10_000 {
        workers.pass(1);
        if let [(asker, mark)] = &*workers.asks() {
            assert_eq!((*asker, mark.as_deref()), (0, Some("good 1")));
            return;
        }
    }
    panic!("nobody asks");
}

/// The one that asks has it, and would never be told of it again.
#[test]
fn a_document_that_is_lost_is_had_again_for_those_who_come() {
    let mut workers = Workers::new(2);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    head::Keys::of(&options()).put_document(&workers.store, 1, b"");
    workers.pass(6_000);
    assert_eq!(workers.asks(), [(0, None)]);
    assert_eq!(workers.serve(0, "good 1"), PollResult::NewDocument(1));
    workers.followers.push(Follower::new(options(), 9));
    assert_eq!(workers.look(), [1, 1, 1]);
}

/// Its documents are counted from one again: the number alone says nothing.
#[test]
fn a_head_that_is_lost_keeps_nobody_on_an_old_document() {
    let mut workers = Workers::new(2);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    let key = head::Keys::of(&options()).head;
    let version = workers.store.load(&key).unwrap().map(|loaded| loaded.version);
    workers.store.swap(&key, b"another's", version).unwrap();
    assert_eq!(workers.look(), [1, 1], "there was contact a moment ago");
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), PollResult::NewDocument(1));
    for follower in &mut workers.followers {
        let task = follower.follow(&workers.store, workers.now);
        assert_eq!(task, Some(Task::Take(Snapshot { generation: 1, document: b"good 2".into() })));
    }
}

#[test]
fn without_shared_data_the_last_document_serves_no_longer_than_without_contact() {
    let mut workers = Workers::new(1);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    assert_eq!(workers.look(), [1]);
    let (broken, follower) = (Broken(&workers.store, None), &mut workers.followers[0]);
    let at = |ms| workers.now.after(Span::from_ms(ms));
    assert_eq!(follower.follow(&broken, at(60_000)), None);
    assert_eq!(follower.follow(&broken, at(60_001)), Some(Task::Local { tells: false }));
    assert_eq!(follower.follow(&broken, at(60_002)), Some(Task::Local { tells: false }), "until it is done");
    follower.took(0);
    assert_eq!(follower.follow(&broken, at(60_003)), None);
}

/// It was written by somebody whose clock was another.
#[test]
fn a_turn_that_is_too_far_away_is_none() {
    let mut workers = Workers::new(1);
    let (asker, _) = workers.until_asked();
    let now = workers.now;
    workers.now = Time::from_ns(1 << 62);
    workers.serve(asker, "good 1");
    workers.now = now;
    let (_, ms) = workers.until_asked();
    assert!(ms < 8_000, "{ms}");
    assert_eq!(workers.look(), [1]);
}

/// The plugin of before is drained, and its local document lacks what the new one has: what it refused may be good beside
/// another, though the server has nothing new to tell of it.
#[test]
fn a_document_that_was_refused_is_tried_beside_another_local_one() {
    let mut workers = Workers::new(1);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    workers.look();
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "a mistake there"), PollResult::Refused(Some("bad".into())));
    let mut same = Follower::new(options(), 2);
    workers.followers = vec![Follower::new(options(), 3).over(7)];
    workers.pass(20_000);
    assert_eq!(workers.asks(), [(0, None)]);
    let answer = Ok(ServerReply::Document(b"a mistake there".into()));
    let follower = &mut workers.followers[0];
    let outcome = follower.answered(&workers.store, workers.now, answer, marks("2"), 0, |_| Ok(()));
    assert_eq!(outcome, PollResult::NewDocument(2));
    assert_eq!(workers.look(), [2]);
    assert!(matches!(same.follow(&workers.store, workers.now), Some(Task::Take(_))));
}

/// One that has the same local document tells nothing anew, and asks in full no more than once.
#[test]
fn a_document_that_was_refused_is_not_told_again_by_the_next_who_asks() {
    let mut workers = Workers::new(2);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "a mistake"), PollResult::Refused(Some("bad".into())));
    workers.followers.remove(asker);
    let mark = |workers: &mut Workers| {
        let (asker, mark) = loop {
            if let Some(asks) = workers.asks().pop() {
                break asks;
            }
            workers.pass(1);
        };
        assert_eq!(asker, 0);
        mark
    };
    assert_eq!(mark(&mut workers), None);
    assert_eq!(workers.serve(0, "a mistake"), PollResult::Refused(None));
    assert_eq!(mark(&mut workers).as_deref(), Some("a mistake"));
}
