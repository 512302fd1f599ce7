//! Tests of candidates, which are compared first, and of promoted documents, which are watched.

use super::*;
use crate::tests::options;
use crate::tests::workers::Workers;
use crate::{FetchError, Follower, PollResult, RemoteOptions, ServerReply, Snapshot, Task, head};
use diana_base::time::Span;
use diana_limiter::policy::Sample;

fn canary_options() -> RemoteOptions {
    let canary = CanaryOptions { sample: Sample(10), hold: Span::from_secs(30), max_refused: 5 };
    RemoteOptions { canary: Some(canary), ..options() }
}

/// Two workers with an active document and a candidate.
fn with_candidate() -> Workers {
    let mut workers = Workers::of(2, &canary_options());
    let (poller, _) = workers.until_poll();
    assert_eq!(
        workers.serve(poller, "good 1"),
        PollResult::NewDocument(1),
        "the first document has nothing to compare with"
    );
    assert_eq!(workers.look(), [1, 1]);
    assert_eq!(workers.record(100, 100), [], "nothing is compared");
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 2"), PollResult::Candidate);
    assert_eq!(workers.record(1_000, 1_000), [], "counts of another comparison");
    assert_eq!(workers.tasks(), compare_candidate(poller, "good 2"));
    assert_eq!(workers.tasks(), [None, None]);
    workers
}

/// The tasks of two workers that compare the candidate with the active document.
fn compare_candidate(poller: usize, document: &str) -> Vec<Option<Task>> {
    both(poller, document, false)
}

/// The tasks of two workers that watch: they compare the previous document with the active one.
fn compare_previous(poller: usize, before: &str) -> Vec<Option<Task>> {
    both(poller, before, true)
}

fn both(poller: usize, document: &str, is_previous: bool) -> Vec<Option<Task>> {
    let task = |at| Some(Task::Compare { document: document.into(), is_previous, logs: at == poller });
    vec![task(0), task(1)]
}

fn activate(generation: u64, document: &[u8]) -> Vec<Option<Task>> {
    vec![Some(Task::Activate(Snapshot { generation, document: document.into() })); 2]
}

/// Time passes, with contact to the server.
fn hold(workers: &mut Workers, ms: u64) {
    let end = workers.now.after(Span::from_ms(ms));
    while workers.now < end {
        workers.pass(500);
        if let [(poller, _)] = *workers.polls() {
            workers.reply(poller, Ok(ServerReply::Unchanged), "good 2");
        }
    }
}

/// Two workers that watch the second document against the first.
fn during_watch() -> Workers {
    let mut workers = with_candidate();
    hold(&mut workers, 30_000);
    assert_eq!(workers.record(10, 0), [CanaryVerdict::Promoted(CanaryStats { seen: 20, refused: 0 })]);
    assert_eq!(workers.tasks(), activate(2, b"good 2"));
    assert_eq!(workers.record(1_000, 1_000), [], "counts of another comparison");
    assert_eq!(workers.tasks(), compare_previous(0, "good 1"));
    assert_eq!(workers.tasks(), [None, None]);
    workers
}

#[test]
fn a_candidate_that_would_refuse_no_more_is_promoted() {
    let mut workers = with_candidate();
    hold(&mut workers, 29_000);
    assert_eq!(workers.record(50, 2), []);
    assert_eq!(workers.record(49, 3), []);
    hold(&mut workers, 1_000);
    assert_eq!(workers.record(1, 0), [CanaryVerdict::Promoted(CanaryStats { seen: 200, refused: 10 })]);
    assert_eq!(workers.tasks(), activate(2, b"good 2"));
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 2"), PollResult::Unchanged(false));
    // The watched document does well.
    assert_eq!(workers.tasks(), compare_previous(poller, "good 1"));
    assert_eq!(workers.record(100, 5), []);
    hold(&mut workers, 31_000);
    assert_eq!(workers.record(100, 5), [CanaryVerdict::Kept(CanaryStats { seen: 400, refused: 20 })]);
    assert_eq!(workers.tasks(), [Some(Task::StopComparing), Some(Task::StopComparing)]);
    assert_eq!(workers.record(100, 100), [], "the watch is over");
    assert_eq!(workers.tasks(), [None, None]);
}

#[test]
fn a_candidate_that_would_refuse_more_is_rejected() {
    let mut workers = with_candidate();
    hold(&mut workers, 30_000);
    let verdicts = workers.record(2, 1);
    assert_eq!(
        verdicts,
        [CanaryVerdict::Rejected(CanaryStats { seen: 4, refused: 2 })],
        "however few requests"
    );
    assert_eq!(workers.tasks(), [Some(Task::StopComparing), Some(Task::StopComparing)]);
    assert_eq!(workers.look(), [1, 1]);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 2"), PollResult::Refused(None), "it has been logged");
    let (poller, _) = workers.until_poll();
    assert_eq!(
        workers.reply(poller, Ok(ServerReply::Unchanged), "good 2"),
        PollResult::Refused(None),
        "the refusal stands"
    );
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 3"), PollResult::Candidate);
    assert_eq!(workers.tasks(), compare_candidate(poller, "good 3"));
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 1"), PollResult::Withdrawn, "back to the active document");
    assert_eq!(workers.tasks(), [Some(Task::StopComparing), Some(Task::StopComparing)]);
}

#[test]
fn a_document_that_refuses_more_than_allowed_is_rolled_back() {
    let mut workers = during_watch();
    assert_eq!(workers.record(9, 9), [], "too few requests");
    assert_eq!(workers.record(1, 0), [CanaryVerdict::RolledBack(CanaryStats { seen: 20, refused: 18 })]);
    assert_eq!(workers.tasks(), activate(3, b"good 1"));
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 2"), PollResult::Refused(None));
    assert_eq!(workers.look(), [3, 3]);
    assert_eq!(workers.tasks(), [None, None], "nothing is compared");
}

/// The watch looks many times, so chance alone would exceed the share at some look.
#[test]
fn before_the_end_only_a_clear_excess_is_rolled_back() {
    let mut workers = during_watch();
    assert_eq!(workers.record(100, 6), []);
    hold(&mut workers, 29_000);
    assert_eq!(workers.record(0, 0), []);
    hold(&mut workers, 1_000);
    assert_eq!(workers.record(0, 0), [CanaryVerdict::RolledBack(CanaryStats { seen: 200, refused: 12 })]);
}

#[test]
fn a_removed_canary_watches_nothing() {
    let mut workers = during_watch();
    workers.followers = (8..10).map(|id| Follower::new(options(), id)).collect();
    assert_eq!(workers.look(), [2, 2]);
    let (poller, _) = workers.until_poll();
    workers.reply(poller, Ok(ServerReply::Unchanged), "good 2");
    workers.followers = (18..20).map(|id| Follower::new(canary_options(), id)).collect();
    assert_eq!(workers.look(), [2, 2]);
    assert_eq!(workers.tasks(), [None, None]);
}

#[test]
fn a_lost_document_is_not_rolled_back_to() {
    let mut workers = during_watch();
    let keys = head::Keys::of(&canary_options());
    let (head, _) = keys.head(&workers.store).unwrap();
    keys.put_document(&workers.store, head.other(), b"");
    assert_eq!(workers.record(20, 20), []);
    assert_eq!(workers.look(), [2, 2]);
    assert_eq!(workers.tasks(), [None, None]);
}

#[test]
fn another_document_ends_the_comparison_or_the_watch() {
    let mut workers = during_watch();
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 3"), PollResult::Candidate);
    assert_eq!(workers.tasks(), compare_candidate(poller, "good 3"));
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 4"), PollResult::Candidate);
    assert_eq!(workers.record(100, 100), [], "counts of another comparison");
    assert_eq!(workers.tasks(), compare_candidate(poller, "good 4"));
    hold(&mut workers, 30_000);
    assert_eq!(workers.record(0, 0), [CanaryVerdict::Promoted(CanaryStats::default())], "no requests");
    assert_eq!(workers.tasks(), activate(3, b"good 4"));
}

/// Workers that start later would never compare the candidate, but would have to activate it.
#[test]
fn a_lost_candidate_is_fetched_again() {
    let mut workers = with_candidate();
    head::Keys::of(&canary_options()).put_document(&workers.store, 0, b"");
    let (poller, etag) = loop {
        workers.pass(1);
        if let Some(polls) = workers.polls().pop() {
            break polls;
        }
    };
    assert_eq!(etag, None);
    assert_eq!(workers.serve(poller, "good 2"), PollResult::Candidate);
    workers.followers.push(Follower::new(canary_options(), 9));
    workers.look();
    let late = Task::Compare { document: b"good 2".into(), is_previous: false, logs: false };
    assert_eq!(workers.tasks().pop(), Some(Some(late)));
}

#[test]
fn a_server_that_returns_to_the_previous_document_is_followed_at_once() {
    let mut workers = during_watch();
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 1"), PollResult::NewDocument(3));
    assert_eq!(workers.tasks(), activate(3, b"good 1"));
    assert_eq!(workers.record(100, 100), [], "it is not watched");
    assert_eq!(workers.tasks(), [None, None]);
}

/// The counts of the first comparison do not count for the second.
#[test]
fn a_candidate_that_returns_starts_with_no_counts() {
    let mut workers = with_candidate();
    assert_eq!(workers.record(100, 100), []);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 1"), PollResult::Withdrawn);
    workers.tasks();
    workers.record(5, 5);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 2"), PollResult::Candidate);
    workers.tasks();
    hold(&mut workers, 30_000);
    assert_eq!(workers.record(1, 0), [CanaryVerdict::Promoted(CanaryStats { seen: 2, refused: 0 })]);
}

#[test]
fn after_the_canary_is_removed_the_candidate_becomes_active() {
    let mut workers = with_candidate();
    workers.followers = (8..10).map(|id| Follower::new(options(), id)).collect();
    assert_eq!(workers.look(), [1, 1]);
    assert_eq!(workers.tasks(), [None, None], "nothing is compared");
    let (poller, etag) = loop {
        workers.pass(1);
        if let Some(polls) = workers.polls().pop() {
            break polls;
        }
    };
    assert_eq!(etag, None);
    assert_eq!(workers.serve(poller, "good 2"), PollResult::NewDocument(2));
    assert_eq!(workers.tasks(), activate(2, b"good 2"));
}

/// The candidate has mistakes over the local document of the worker that polls by now.
#[test]
fn a_candidate_that_is_invalid_in_the_polling_worker_never_becomes_active() {
    for polls in [true, false] {
        let mut workers = with_candidate();
        let (poller, _) = workers.until_poll();
        workers.reply(poller, Ok(ServerReply::Unchanged), "good 2");
        let at = if polls { poller } else { 1 - poller };
        workers.followers[at].mark_candidate_invalid();
        let verdicts = workers.record(0, 0);
        assert_eq!(verdicts, [CanaryVerdict::Invalid; 1][..usize::from(polls)]);
        hold(&mut workers, 30_000);
        workers.record(0, 0);
        assert_eq!(workers.look(), if polls { [1, 1] } else { [2, 2] });
    }
}

/// The candidate may be active here already, and would do well against itself.
#[test]
fn a_worker_with_another_active_document_compares_nothing() {
    let mut workers = with_candidate();
    hold(&mut workers, 30_000);
    workers.record(10, 0);
    let [one, other] = &mut workers.followers[..] else { panic!() };
    for (follower, is_valid) in [(one, true), (other, false)] {
        assert!(matches!(follower.follow(&workers.store, workers.now), Some(Task::Activate(_))));
        if is_valid { follower.set_active(2) } else { assert!(follower.mark_invalid(2)) }
    }
    assert_eq!(workers.tasks(), [compare_previous(0, "good 1")[0].clone(), Some(Task::StopComparing)]);
}

/// Meanwhile the local configuration was active, and nothing was compared.
#[test]
fn a_comparison_restarts_after_an_outage_of_the_server() {
    let mut workers = with_candidate();
    workers.record(10, 10);
    workers.pass(61_000);
    assert_eq!(workers.look(), [0, 0]);
    assert_eq!(workers.record(100, 100), [], "no verdict");
    assert_eq!(workers.tasks(), [None, None]);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.reply(poller, Ok(ServerReply::Unchanged), "good 2"), PollResult::Unchanged(false));
    assert_eq!(workers.look(), [1, 1]);
    assert_eq!(workers.tasks(), compare_candidate(poller, "good 2"));
    assert_eq!(workers.record(0, 0), [], "the comparison is not over");
    hold(&mut workers, 30_000);
    assert_eq!(workers.record(0, 0), [CanaryVerdict::Promoted(CanaryStats::default())]);
}

/// The server has withdrawn the candidate, or replaced it by a document with mistakes.
#[test]
fn a_candidate_replaced_by_mistakes_is_not_promoted() {
    let mut workers = with_candidate();
    let end = workers.now.after(Span::from_secs(31));
    while workers.now < end {
        workers.pass(500);
        if let [(poller, _)] = *workers.polls() {
            workers.serve(poller, "mistakes");
        }
    }
    assert_eq!(workers.record(10, 0), []);
}

#[test]
fn a_candidate_removed_from_the_server_is_not_promoted() {
    let mut workers = with_candidate();
    let end = workers.now.after(Span::from_secs(31));
    while workers.now < end {
        workers.pass(500);
        if let [(poller, _)] = *workers.polls() {
            workers.reply(poller, Err(FetchError::Status(404)), "");
        }
    }
    assert_eq!(workers.record(10, 0), []);
}

/// A comparison over another local document says nothing about this one.
#[test]
fn a_comparison_restarts_over_another_local_document() {
    let mut workers = with_candidate();
    workers.record(100, 0);
    hold(&mut workers, 29_000);
    workers.followers = (8..10).map(|id| Follower::new(canary_options(), id).over(77)).collect();
    workers.look();
    workers.tasks();
    hold(&mut workers, 3_000);
    assert_eq!(workers.record(0, 0), [], "compared for three seconds over this local document");
}

/// Workers that start later could not activate the document.
#[test]
fn a_lost_candidate_is_not_promoted() {
    let mut workers = with_candidate();
    hold(&mut workers, 30_000);
    head::Keys::of(&canary_options()).put_document(&workers.store, 0, b"");
    assert_eq!(workers.record(10, 0), [], "its body is lost");
}

/// Two documents that are refused in turn are each logged once.
#[test]
fn a_refused_document_is_logged_once_despite_another_in_between() {
    let mut workers = Workers::new(1);
    workers.until_poll();
    workers.serve(0, "good 1");
    let mut logged = 0;
    for round in 0..20 {
        workers.until_poll();
        let result = workers.serve(0, if round % 2 == 0 { "bad 1" } else { "bad 2" });
        logged += usize::from(matches!(result, PollResult::Refused(Some(_))));
    }
    assert_eq!(logged, 2);
}

/// The server is back to the active document, whose body was lost. The candidate is withdrawn.
#[test]
fn a_withdrawn_candidate_is_not_promoted_if_the_active_document_was_lost() {
    let mut workers = with_candidate();
    let keys = head::Keys::of(&canary_options());
    let (head, _) = keys.head(&workers.store).unwrap();
    keys.put_document(&workers.store, head.slot, b"");
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 1"), PollResult::NewDocument(1));
    let end = workers.now.after(Span::from_secs(31));
    while workers.now < end {
        workers.pass(500);
        if let [(poller, _)] = *workers.polls() {
            workers.reply(poller, Ok(ServerReply::Unchanged), "good 1");
        }
    }
    assert_eq!(workers.record(10, 0), []);
}
