//! Tests of documents that are tried first, and watched when they serve.
//!
//! It does not know: how requests are compared.

use super::*;

fn trying() -> RemoteOptions {
    let canary = Canary { sample: Sample(10), hold: Span::from_secs(30), max_refused: 5 };
    RemoteOptions { canary: Some(canary), ..options() }
}

/// Two workers that serve one document, and have been told another.
fn tried() -> Workers {
    let mut workers = Workers::of(2, &trying());
    let (asker, _) = workers.until_asked();
    assert_eq!(
        workers.serve(asker, "good 1"),
        PollResult::NewDocument(1),
        "the first one is tried beside nothing"
    );
    assert_eq!(workers.look(), [1, 1]);
    assert_eq!(workers.fared(100, 100), [], "nothing is tried");
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), PollResult::Candidate);
    assert_eq!(workers.fared(1_000, 1_000), [], "this was not of it");
    assert_eq!(workers.tasks(), tries(asker, "good 2"));
    assert_eq!(workers.tasks(), [None, None]);
    workers
}

/// The document is tried beside the one that serves.
fn tries(asker: usize, document: &str) -> Vec<Option<Task>> {
    both(asker, document, false)
}

/// The document that served before is tried beside the one that serves.
fn watches(asker: usize, before: &str) -> Vec<Option<Task>> {
    both(asker, before, true)
}

fn both(asker: usize, document: &str, is_before: bool) -> Vec<Option<Task>> {
    let task = |at| Some(Task::Try { document: document.into(), is_before, tells: at == asker });
    vec![task(0), task(1)]
}

fn taken(generation: u64, document: &[u8]) -> Vec<Option<Task>> {
    vec![Some(Task::Take(Snapshot { generation, document: document.into() })); 2]
}

/// Time passes, with contact to the server.
fn hold(workers: &mut Workers, ms: u64) {
    let end = workers.now.after(Span::from_ms(ms));
    while workers.now < end {
        workers.pass(500);
        if let [(asker, _)] = *workers.asks() {
            workers.answer(asker, Ok(ServerReply::Unchanged), "good 2");
        }
    }
}

/// Two workers that serve the second document, with the first one beside it.
fn watched() -> Workers {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    assert_eq!(workers.fared(10, 0), [CanaryVerdict::Promoted(CanaryStats { seen: 20, refused: 0 })]);
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
    assert_eq!(workers.fared(1_000, 1_000), [], "this was not of it");
    assert_eq!(workers.tasks(), watches(0, "good 1"));
    assert_eq!(workers.tasks(), [None, None]);
    workers
}

#[test]
fn a_document_that_is_tried_serves_when_it_would_not_refuse_more() {
    let mut workers = tried();
    hold(&mut workers, 29_000);
    assert_eq!(workers.fared(50, 2), []);
    assert_eq!(workers.fared(49, 3), []);
    hold(&mut workers, 1_000);
    assert_eq!(workers.fared(1, 0), [CanaryVerdict::Promoted(CanaryStats { seen: 200, refused: 10 })]);
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), PollResult::Unchanged(false));
    // It is watched, and does well.
    assert_eq!(workers.tasks(), watches(asker, "good 1"));
    assert_eq!(workers.fared(100, 5), []);
    hold(&mut workers, 31_000);
    assert_eq!(workers.fared(100, 5), [CanaryVerdict::Kept(CanaryStats { seen: 400, refused: 20 })]);
    assert_eq!(workers.tasks(), [Some(Task::Drop), Some(Task::Drop)]);
    assert_eq!(workers.fared(100, 100), [], "it is watched no more");
    assert_eq!(workers.tasks(), [None, None]);
}

#[test]
fn a_document_that_is_tried_is_refused_when_it_would_refuse_more() {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    let judgements = workers.fared(2, 1);
    assert_eq!(judgements, [CanaryVerdict::Rejected(CanaryStats { seen: 4, refused: 2 })], "of however few");
    assert_eq!(workers.tasks(), [Some(Task::Drop), Some(Task::Drop)]);
    assert_eq!(workers.look(), [1, 1]);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), PollResult::Refused(None), "it has been told");
    let (asker, _) = workers.until_asked();
    assert_eq!(
        workers.answer(asker, Ok(ServerReply::Unchanged), "good 2"),
        PollResult::Refused(None),
        "it stands"
    );
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 3"), PollResult::Candidate);
    assert_eq!(workers.tasks(), tries(asker, "good 3"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), PollResult::Withdrawn, "to what serves");
    assert_eq!(workers.tasks(), [Some(Task::Drop), Some(Task::Drop)]);
}

#[test]
fn a_document_that_refuses_more_than_it_may_is_taken_back() {
    let mut workers = watched();
    assert_eq!(workers.fared(9, 9), [], "they are too few");
    assert_eq!(workers.fared(1, 0), [CanaryVerdict::RolledBack(CanaryStats { seen: 20, refused: 18 })]);
    assert_eq!(workers.tasks(), taken(3, b"good 1"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), PollResult::Refused(None));
    assert_eq!(workers.look(), [3, 3]);
    assert_eq!(workers.tasks(), [None, None], "it is tried beside nothing");
}

/// Looked at again and again, chance alone would exceed it one time or other.
#[test]
fn before_the_end_only_what_is_clearly_too_much_is_taken_back() {
    let mut workers = watched();
    assert_eq!(workers.fared(100, 6), []);
    hold(&mut workers, 29_000);
    assert_eq!(workers.fared(0, 0), []);
    hold(&mut workers, 1_000);
    assert_eq!(workers.fared(0, 0), [CanaryVerdict::RolledBack(CanaryStats { seen: 200, refused: 12 })]);
}

#[test]
fn without_a_canary_any_more_nothing_is_watched() {
    let mut workers = watched();
    workers.followers = (8..10).map(|id| Follower::new(options(), id)).collect();
    assert_eq!(workers.look(), [2, 2]);
    let (asker, _) = workers.until_asked();
    workers.answer(asker, Ok(ServerReply::Unchanged), "good 2");
    workers.followers = (18..20).map(|id| Follower::new(trying(), id)).collect();
    assert_eq!(workers.look(), [2, 2]);
    assert_eq!(workers.tasks(), [None, None]);
}

#[test]
fn nothing_is_gone_back_to_that_is_lost() {
    let mut workers = watched();
    let keys = head::Keys::of(&trying());
    let (head, _) = keys.head(&workers.store).unwrap();
    keys.put_document(&workers.store, head.other(), b"");
    assert_eq!(workers.fared(20, 20), []);
    assert_eq!(workers.look(), [2, 2]);
    assert_eq!(workers.tasks(), [None, None]);
}

#[test]
fn another_document_ends_what_was_tried_or_watched() {
    let mut workers = watched();
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 3"), PollResult::Candidate);
    assert_eq!(workers.tasks(), tries(asker, "good 3"));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 4"), PollResult::Candidate);
    assert_eq!(workers.fared(100, 100), [], "this was not of it");
    assert_eq!(workers.tasks(), tries(asker, "good 4"));
    hold(&mut workers, 30_000);
    assert_eq!(workers.fared(0, 0), [CanaryVerdict::Promoted(CanaryStats::default())], "nobody has come");
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
    assert_eq!(workers.serve(asker, "good 2"), PollResult::Candidate);
    workers.followers.push(Follower::new(trying(), 9));
    workers.look();
    let late = Task::Try { document: b"good 2".into(), is_before: false, tells: false };
    assert_eq!(workers.tasks().pop(), Some(Some(late)));
}

#[test]
fn a_server_that_goes_back_to_what_served_before_is_followed_at_once() {
    let mut workers = watched();
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), PollResult::NewDocument(3));
    assert_eq!(workers.tasks(), taken(3, b"good 1"));
    assert_eq!(workers.fared(100, 100), [], "it is not watched");
    assert_eq!(workers.tasks(), [None, None]);
}

/// What was told of the first time is not of the second.
#[test]
fn a_document_that_is_tried_again_begins_anew() {
    let mut workers = tried();
    assert_eq!(workers.fared(100, 100), []);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), PollResult::Withdrawn);
    workers.tasks();
    workers.fared(5, 5);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), PollResult::Candidate);
    workers.tasks();
    hold(&mut workers, 30_000);
    assert_eq!(workers.fared(1, 0), [CanaryVerdict::Promoted(CanaryStats { seen: 2, refused: 0 })]);
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
    assert_eq!(workers.serve(asker, "good 2"), PollResult::NewDocument(2));
    assert_eq!(workers.tasks(), taken(2, b"good 2"));
}

/// Beside the local document of the worker that asks by now it has mistakes.
#[test]
fn what_cannot_be_tried_where_the_server_is_asked_never_serves() {
    for asks in [true, false] {
        let mut workers = tried();
        let (asker, _) = workers.until_asked();
        workers.answer(asker, Ok(ServerReply::Unchanged), "good 2");
        let at = if asks { asker } else { 1 - asker };
        workers.followers[at].cannot_try();
        let judgements = workers.fared(0, 0);
        assert_eq!(judgements, [CanaryVerdict::Invalid; 1][..usize::from(asks)]);
        hold(&mut workers, 30_000);
        workers.fared(0, 0);
        assert_eq!(workers.look(), if asks { [1, 1] } else { [2, 2] });
    }
}

/// It may have been promoted elsewhere, and compared with itself it does well.
#[test]
fn who_serves_another_document_tries_none() {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    workers.fared(10, 0);
    let [one, other] = &mut workers.followers[..] else { panic!() };
    for (follower, is_fit) in [(one, true), (other, false)] {
        assert!(matches!(follower.follow(&workers.store, workers.now), Some(Task::Take(_))));
        if is_fit { follower.took(2) } else { assert!(follower.cannot_take(2)) }
    }
    assert_eq!(workers.tasks(), [watches(0, "good 1")[0].clone(), Some(Task::Drop)]);
}

/// Meanwhile the local configuration has served: nothing was compared.
#[test]
fn a_trial_begins_anew_after_the_server_was_gone() {
    let mut workers = tried();
    workers.fared(10, 10);
    workers.pass(61_000);
    assert_eq!(workers.look(), [0, 0]);
    assert_eq!(workers.fared(100, 100), [], "nothing is judged");
    assert_eq!(workers.tasks(), [None, None]);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.answer(asker, Ok(ServerReply::Unchanged), "good 2"), PollResult::Unchanged(false));
    assert_eq!(workers.look(), [1, 1]);
    assert_eq!(workers.tasks(), tries(asker, "good 2"));
    assert_eq!(workers.fared(0, 0), [], "it is not over");
    hold(&mut workers, 30_000);
    assert_eq!(workers.fared(0, 0), [CanaryVerdict::Promoted(CanaryStats::default())]);
}

/// It has been taken from the server, or was replaced by one with mistakes: nobody wants it any more.
#[test]
fn what_the_server_has_replaced_by_mistakes_is_not_promoted() {
    let mut workers = tried();
    let end = workers.now.after(Span::from_secs(31));
    while workers.now < end {
        workers.pass(500);
        if let [(asker, _)] = *workers.asks() {
            workers.serve(asker, "mistakes");
        }
    }
    assert_eq!(workers.fared(10, 0), []);
}

#[test]
fn what_was_taken_from_the_server_is_not_promoted() {
    let mut workers = tried();
    let end = workers.now.after(Span::from_secs(31));
    while workers.now < end {
        workers.pass(500);
        if let [(asker, _)] = *workers.asks() {
            workers.answer(asker, Err(FetchError::Status(404)), "");
        }
    }
    assert_eq!(workers.fared(10, 0), []);
}

/// It was tried over another local document: that says nothing of it over this one.
#[test]
fn a_trial_begins_anew_over_another_local_document() {
    let mut workers = tried();
    workers.fared(100, 0);
    hold(&mut workers, 29_000);
    workers.followers = (8..10).map(|id| Follower::new(trying(), id).over(77)).collect();
    workers.look();
    workers.tasks();
    hold(&mut workers, 3_000);
    assert_eq!(workers.fared(0, 0), [], "tried for three seconds over this local document");
}

/// Nobody who comes could serve it.
#[test]
fn what_is_lost_is_not_promoted() {
    let mut workers = tried();
    hold(&mut workers, 30_000);
    head::Keys::of(&trying()).put_document(&workers.store, 0, b"");
    assert_eq!(workers.fared(10, 0), [], "its body is lost");
}

/// Two that were refused one after the other are both told once as long as the server swaps between them.
#[test]
fn what_was_refused_is_named_once_though_another_one_is_refused_in_between() {
    let mut workers = Workers::new(1);
    workers.until_asked();
    workers.serve(0, "good 1");
    let mut told = 0;
    for round in 0..20 {
        workers.until_asked();
        let outcome = workers.serve(0, if round % 2 == 0 { "bad 1" } else { "bad 2" });
        told += usize::from(matches!(outcome, PollResult::Refused(Some(_))));
    }
    assert_eq!(told, 2);
}

/// Review: the server is back to what serves, whose body was lost: nobody wants the other one any more.
#[test]
fn what_the_server_has_left_is_not_promoted_though_what_serves_was_lost() {
    let mut workers = tried();
    let keys = head::Keys::of(&trying());
    let (head, _) = keys.head(&workers.store).unwrap();
    keys.put_document(&workers.store, head.slot, b"");
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), PollResult::NewDocument(1));
    let end = workers.now.after(Span::from_secs(31));
    while workers.now < end {
        workers.pass(500);
        if let [(asker, _)] = *workers.asks() {
            workers.answer(asker, Ok(ServerReply::Unchanged), "good 1");
        }
    }
    assert_eq!(workers.fared(10, 0), []);
}
