//! Tests of documents that are tried first, and watched when they serve.
//!
//! It does not know: how requests are compared.

use super::*;

fn trying() -> Options {
    let canary = Canary { sample: Sample(10), hold: Span::from_secs(30), max_refused: 5 };
    Options { canary: Some(canary), ..options() }
}

/// Two workers that serve one document, and have been told another.
fn tried() -> Workers {
    let mut workers = Workers::of(2, &trying());
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), Outcome::Fresh, "the first one is tried beside nothing");
    assert_eq!(workers.look(), [1, 1]);
    assert_eq!(workers.fared(100, 100), [], "nothing is tried");
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Tried);
    assert_eq!(workers.tasks(), vec![Some(Task::Try(b"good 2".into())); 2]);
    assert_eq!(workers.tasks(), [None, None]);
    // What they tell first was not of this.
    assert_eq!(workers.fared(1_000, 1_000), []);
    workers
}

fn taken(generation: u64, document: &[u8]) -> Vec<Option<Task>> {
    vec![Some(Task::Take(Stock { generation, document: document.into() })); 2]
}

/// Time passes, with contact to the server.
fn hold(workers: &mut Workers, ms: u64) {
    let end = workers.now.after(Span::from_ms(ms));
    while workers.now < end {
        workers.pass(500);
        if let [(asker, _)] = *workers.asks() {
            workers.answer(asker, Ok(Answer::Unchanged), "good 2");
        }
    }
}

#[test]
fn a_document_that_is_tried_serves_when_it_would_not_refuse_more() {
    let mut workers = tried();
    hold(&mut workers, 29_000);
    assert_eq!(workers.fared(50, 2), []);
    hold(&mut workers, 1_000);
    assert_eq!(workers.fared(50, 3), [Judgement::Promoted(Tally { seen: 150, refused: 7 })]);
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Unchanged(false));
    // It is watched, and does well.
    assert_eq!(workers.fared(100, 5), []);
    hold(&mut workers, 31_000);
    assert_eq!(workers.fared(100, 5), []);
    assert_eq!(workers.fared(100, 100), [], "it is watched no more");
    assert_eq!(workers.tasks(), [None, None]);
}

#[test]
fn a_document_that_is_tried_is_refused_when_it_would_refuse_more() {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    let judgements = workers.fared(2, 1);
    assert_eq!(judgements, [Judgement::Rejected(Tally { seen: 2, refused: 1 })], "of however few");
    assert_eq!(workers.tasks(), [Some(Task::Drop), Some(Task::Drop)]);
    assert_eq!(workers.look(), [1, 1]);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Refused(None), "it has been told");
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 3"), Outcome::Tried);
    assert_eq!(workers.tasks(), vec![Some(Task::Try(b"good 3".into())); 2]);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), Outcome::Unchanged(true), "the server is back to what serves");
    assert_eq!(workers.tasks(), [Some(Task::Drop), Some(Task::Drop)]);
}

#[test]
fn a_document_that_refuses_more_than_it_may_is_taken_back() {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    assert_eq!(workers.fared(10, 0).len(), 1);
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
    assert_eq!(workers.fared(9, 9), [], "they are too few");
    assert_eq!(workers.fared(1, 0), [Judgement::RolledBack(Tally { seen: 20, refused: 18 })][..0]);
    assert_eq!(workers.fared(0, 0), [Judgement::RolledBack(Tally { seen: 20, refused: 18 })]);
    assert_eq!(workers.tasks(), taken(3, b"good 1"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Refused(None));
    assert_eq!(workers.look(), [3, 3]);
}

#[test]
fn another_document_ends_what_was_tried_or_watched() {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    workers.fared(10, 0);
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 3"), Outcome::Tried);
    assert_eq!(workers.tasks(), vec![Some(Task::Try(b"good 3".into())); 2]);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 4"), Outcome::Tried);
    assert_eq!(workers.tasks(), vec![Some(Task::Try(b"good 4".into())); 2]);
    hold(&mut workers, 30_000);
    assert_eq!(workers.fared(0, 0), [Judgement::Promoted(Tally::default())], "nobody has come");
    assert_eq!(workers.tasks(), taken(3, b"good 4"));
}

/// The workers that come later would never try it, and be told to serve it.
#[test]
fn a_tried_document_that_is_lost_is_had_again() {
    let mut workers = tried();
    head::Keys::of(&trying()).put_document(&workers.store, 0, b"");
    let (asker, mark) = loop {
        workers.pass(1);
        if let Some(asks) = workers.asks().pop() {
            break asks;
        }
    };
    assert_eq!(mark, None);
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Tried);
    workers.followers.push(Follower::new(trying(), 9));
    workers.look();
    assert_eq!(workers.tasks().pop(), Some(Some(Task::Try(b"good 2".into()))));
}

#[test]
fn a_server_that_goes_back_to_what_served_before_is_followed_at_once() {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    workers.fared(10, 0);
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), Outcome::Fresh);
    assert_eq!(workers.tasks(), taken(3, b"good 1"));
    assert_eq!(workers.fared(100, 100), [], "it is not watched");
}

/// What was told of the first time is not of the second.
#[test]
fn a_document_that_is_tried_again_begins_anew() {
    let mut workers = tried();
    assert_eq!(workers.fared(100, 100), []);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), Outcome::Unchanged(true));
    workers.tasks();
    workers.fared(5, 5);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Tried);
    workers.tasks();
    workers.fared(5, 5);
    hold(&mut workers, 30_000);
    assert_eq!(workers.fared(1, 0), [Judgement::Promoted(Tally { seen: 1, refused: 0 })]);
}

#[test]
fn without_a_canary_any_more_the_document_serves_that_was_tried() {
    let mut workers = tried();
    workers.followers = (8..10).map(|id| Follower::new(options(), id)).collect();
    assert_eq!(workers.look(), [1, 1]);
    assert_eq!(workers.tasks(), [None, None], "nothing is tried");
    let (asker, mark) = loop {
        workers.pass(1);
        if let Some(asks) = workers.asks().pop() {
            break asks;
        }
    };
    assert_eq!(mark, None);
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Fresh);
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
}
