//! Tests of several workers that follow a source: one polls, and all activate the document. The
//! server, the polling worker or the shared data may fail.

use super::*;

#[test]
fn one_worker_polls_and_all_activate_the_document() {
    let mut workers = Workers::new(3);
    assert_eq!(workers.look(), [0, 0, 0]);
    assert_eq!(workers.polls(), [(0, None)]);
    assert_eq!(workers.polls(), [], "a poll is pending");
    assert_eq!(workers.serve(0, "good 1"), PollResult::NewDocument(1));
    assert_eq!(workers.look(), [1, 1, 1]);
    let (poller, ms) = workers.until_poll();
    assert_eq!((poller, ms), (0, 6_000), "three quarters of the interval");
    assert_eq!(workers.reply(poller, Ok(ServerReply::Unchanged), "good 1"), PollResult::Unchanged(false));
    let (poller, _) = workers.until_poll();
    assert_eq!(
        workers.serve(poller, "good 1"),
        PollResult::Unchanged(false),
        "though the server ignores validators"
    );
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 2"), PollResult::NewDocument(2));
    assert_eq!(workers.look(), [2, 2, 2]);
}

#[test]
fn a_bad_document_is_logged_once_and_changes_nothing() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    for logged in [Some("bad".to_owned()), None, None] {
        let (poller, _) = workers.until_poll();
        assert_eq!(workers.serve(poller, "mistakes"), PollResult::Refused(logged));
        assert_eq!(workers.look(), [1, 1]);
    }
    // A refused document counts as contact, for longer than `max_stale`.
    for _ in 0..20 {
        let (poller, _) = workers.until_poll();
        assert_eq!(workers.reply(poller, Ok(ServerReply::Unchanged), "mistakes"), PollResult::Refused(None));
    }
    let (poller, _) = workers.until_poll();
    assert_eq!(
        workers.reply(poller, Err(FetchError::TooLarge), ""),
        PollResult::Refused(Some("more than 1 MiB".into()))
    );
    assert_eq!(workers.look(), [1, 1]);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "good 1"), PollResult::Withdrawn, "back to the active document");
    assert_eq!(workers.look(), [1, 1]);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.serve(poller, "mistakes"), PollResult::Refused(Some("bad".into())), "a second time");
}

#[test]
fn after_max_stale_without_contact_the_local_configuration_is_active() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    let start = workers.now;
    let mut logged = 0;
    while workers.now.since(start) < Span::from_secs(60) {
        let (poller, _) = workers.until_poll();
        if workers.now.since(start) > Span::from_secs(60) {
            break;
        }
        assert_eq!(workers.look(), [1, 1], "{}", workers.now.since(start));
        match workers.reply(poller, Err(FetchError::None), "") {
            PollResult::Failed(why) => logged += usize::from(why.is_some()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(logged, 1);
    workers.now = start.after(Span::from_ms(60_000));
    assert_eq!(workers.look(), [1, 1]);
    workers.pass(1);
    assert_eq!(workers.look(), [0, 0]);
    workers.pass(100_000);
    let (poller, _) = workers.until_poll();
    assert_eq!(workers.reply(poller, Ok(ServerReply::Unchanged), "good 1"), PollResult::Unchanged(true));
    assert_eq!(workers.look(), [1, 1], "back by itself");
}

#[test]
fn failed_polls_are_retried_with_a_bounded_backoff() {
    let mut workers = Workers::new(1);
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let (poller, ms) = workers.until_poll();
        pauses.push(ms);
        workers.reply(poller, Err(FetchError::Status(500)), "");
    }
    assert_eq!(pauses, [0, 6_000, 12_000, 24_000, 24_000]);
}

#[test]
fn if_the_polling_worker_is_gone_another_one_polls() {
    let mut workers = Workers::new(3);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    let gone = workers.followers.remove(poller);
    let (poller, ms) = workers.until_poll();
    assert!(ms > 6_000 && ms < 16_000, "{ms}");
    assert_eq!(workers.serve(poller, "good 2"), PollResult::NewDocument(2));
    assert_eq!(workers.look(), [2, 2]);
    // The worker was only held up, and returns with an old reply.
    workers.followers.push(gone);
    assert_eq!(workers.serve(2, "good 1"), PollResult::Late);
    assert_eq!(workers.look(), [2, 2, 2]);
}

#[test]
fn a_poll_without_a_reply_is_repeated() {
    let mut workers = Workers::new(2);
    assert_eq!(workers.until_poll().0, 0);
    let (poller, ms) = workers.until_poll();
    assert_eq!(poller, 0);
    assert!((1_000..2_000).contains(&ms), "{ms}");
}

#[test]
fn a_document_is_activated_whole_or_not_at_all() {
    let mut workers = Workers::new(2);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    _ = workers.followers[0].follow(&workers.store, workers.now);
    let keys = head::Keys::of(&options());
    // A worker has begun to write another document, and is gone.
    assert!(keys.put_document(&workers.store, 1, b"good and not yet named"));
    assert_eq!(workers.look(), [0, 0]);
    let (poller, _) = workers.until_poll();
    assert_eq!(poller, 0);
    assert_eq!(workers.serve(poller, "good 1"), PollResult::NewDocument(1), "the body is written again");
    assert_eq!(workers.look(), [1, 1]);
}

/// The poll for a lost document has no validators, which would say that the document is known.
#[test]
fn a_lost_document_is_polled_without_validators() {
    let mut workers = Workers::new(1);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good 1");
    head::Keys::of(&options()).put_document(&workers.store, 1, b"");
    workers.look();
    workers.pass(60_000);
    assert_eq!(workers.polls(), [(0, None)]);
}

#[test]
fn a_document_that_is_invalid_in_one_worker_is_not_activated_again() {
    let mut workers = Workers::new(1);
    let (poller, _) = workers.until_poll();
    workers.serve(poller, "good elsewhere");
    assert_eq!(workers.look(), [0]);
    assert_eq!(workers.followers[0].follow(&workers.store, workers.now), None);
}

/// Gateways that start together do not go on polling together.
#[test]
fn polls_vary_by_an_eighth_of_the_interval() {
    for (random, ms) in [(0, 6_000), (u32::MAX / 2, 5_500), (u32::MAX, 5_000)] {
        let mut workers = Workers::new(1);
        workers.until_poll();
        let reply = Ok(ServerReply::Document(b"good".into()));
        let result = workers.followers[0].answered(
            &workers.store,
            workers.now,
            reply,
            Validators::default(),
            random,
            |_| Ok(()),
        );
        assert_eq!(result, PollResult::NewDocument(1));
        assert!(workers.until_poll().1.abs_diff(ms) <= 1, "{random}");
    }
}

#[test]
fn each_reason_for_no_contact_is_logged_once_until_contact() {
    let mut workers = Workers::new(1);
    let mut answers = |reply: Result<ServerReply, FetchError>| {
        workers.until_poll();
        let result = workers.reply(0, reply, "");
        (result, workers.followers[0].is_back())
    };
    for _ in 0..2 {
        for (status, is_new) in [(500, true), (500, false), (401, true), (500, false), (401, false)] {
            let error = FetchError::Status(status);
            assert_eq!(answers(Err(error)), (PollResult::Failed(is_new.then_some(error)), false));
        }
        assert!(
            matches!(answers(Err(FetchError::TooLarge)), (PollResult::Refused(_), true)),
            "contact is back"
        );
        assert!(matches!(answers(Err(FetchError::TooLarge)), (PollResult::Refused(None), false)));
    }
}
