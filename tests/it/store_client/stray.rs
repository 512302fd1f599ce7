//! Stray replies: a call gets the reply to another call.

use super::*;

fn strays(client: &mut StoreClient) -> (u32, u32, Option<(bool, String)>) {
    let (_, stats) = client.call_stats().next().unwrap();
    (stats.stray, stats.failed, stats.changed)
}

/// The proxy's replies have shifted by one: each call gets the reply to the previous call.
#[test]
fn a_reply_to_another_call_decides_nothing_and_opens_the_breaker_at_once() {
    let mut client = client(2);
    (1..4).for_each(|number| ask(&mut client, number));
    let one = client.next(at(0)).unwrap();
    ask(&mut client, 4);
    let two = client.next(at(0)).unwrap();
    assert_ne!(number(&one), number(&two));
    ask(&mut client, 5);
    let waiters = |completions: Vec<Completion>| {
        assert!(completions.iter().all(|completion| completion.replies.is_none()), "{completions:?}");
        completions.into_iter().map(|completion| completion.waiter).collect::<Vec<_>>()
    };
    // All queries of the call, and those queued for the next one.
    let waiters = waiters(answered(&mut client, one.id, http(&reply(&two, &[ADMITTED; 3].concat())), 1));
    assert_eq!(waiters, [1, 2, 3, 5].map(Waiter::Request));
    assert!(!client.is_available(0));
    let opened = Some((false, "a reply to another call".to_owned()));
    assert_eq!(strays(&mut client), (1, 1, opened));
    // A pending call still gets its own reply, and nothing else.
    assert_eq!(answered(&mut client, two.id, http(&reply(&two, &ADMITTED)), 2).len(), 1);
    assert!(client.next(at(180)).is_none(), "the connection gets a pause");
    let probe = client.next(at(260)).unwrap();
    answered(&mut client, probe.id, http(&reply(&two, &[])), 261);
    assert_eq!(
        (strays(&mut client), client.is_available(0)),
        ((1, 1, None), false),
        "a probe's reply has a number, too"
    );
    let probe = client.next(at(800)).unwrap();
    answered(&mut client, probe.id, http(&reply(&probe, &[])), 801);
    assert!(client.is_available(0));
}

/// The reply says nothing about the charges of the call, but shows that replies have shifted.
#[test]
fn a_late_reply_to_another_call_refunds_nothing() {
    let mut client = client(1);
    ask(&mut client, 1);
    let call = client.next(at(0)).unwrap();
    client.tick(at(100), &mut Vec::new());
    ask(&mut client, 2);
    let next = client.next(at(100)).unwrap();
    ask(&mut client, 3);
    let completions = answered(&mut client, call.id, http(&reply(&next, &ADMITTED)), 101);
    assert_eq!(
        completions,
        [Completion { waiter: Waiter::Request(3), shard: 0, replies: None }],
        "the queue ends with the breaker"
    );
    assert_eq!((strays(&mut client).0, client.is_available(0)), (1, false));
    let completions = answered(&mut client, next.id, http(&reply(&next, &ADMITTED)), 102);
    assert_eq!((completions[0].waiter, completions[0].replies.is_some()), (Waiter::Request(2), true));
    let probe = client.next(at(500)).unwrap();
    assert!(body(&probe).contains(":probe/"), "nothing was refunded: {}", body(&probe));
}

/// An error carries no number. A query that met `NOSCRIPT` is sent once more, with the script, and
/// not again.
#[test]
fn a_stray_missing_script_error_does_not_loop() {
    let mut client = client(2);
    ask(&mut client, 1);
    let one = client.next(at(0)).unwrap();
    ask(&mut client, 2);
    let two = client.next(at(0)).unwrap();
    assert_eq!(answered(&mut client, one.id, http(NO_SCRIPT), 1), []);
    let with_script = client.next(at(1)).unwrap();
    assert!(body(&with_script).starts_with("EVAL/"));
    assert_eq!(answered(&mut client, two.id, http(NO_SCRIPT), 1), []);
    // The script is there, as far as the client knows. The other query still brings the script.
    assert_eq!(answered(&mut client, with_script.id, http(&reply(&with_script, &ADMITTED)), 2).len(), 1);
    let again = client.next(at(2)).unwrap();
    assert!(body(&again).starts_with("EVAL/"), "{}", body(&again));
    let completions = answered(&mut client, again.id, http(NO_SCRIPT), 3);
    assert_eq!(completions, [Completion { waiter: Waiter::Request(2), shard: 0, replies: None }]);
    assert!(client.next(at(3)).is_none());
}
