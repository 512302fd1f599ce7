//! Calls to a Redis by the module's upstream bridge, through Envoy's functions.

use crate::envoy::bridges::{Call, Cluster, Outcome};
use crate::envoy::{self, check, hooks};
use diana_envoy_module::guard::take_panics;
use diana_global_redis::Redis;
use std::ptr::{null, null_mut};

/// A call as the filter makes it.
fn body() -> Vec<u8> {
    Redis::new("diana".into(), Vec::new()).call("redis", &[], false, 8)
}

const REPLY: &[u8] = b"*1\r\n:8\r\n";
const LOGIN: &[u8] = b"*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n";

/// Runs `work` with a cluster of this configuration.
fn with_cluster(document: &str, work: impl FnOnce(&Cluster)) {
    envoy::load();
    envoy::run(|| {
        let cluster = Cluster::new("redis", document).unwrap();
        work(&cluster);
        drop(cluster);
        check("a bridge");
    });
}

fn pieces(bytes: &[u8], size: usize) -> Vec<&[u8]> {
    bytes.chunks(size).collect()
}

/// Sends the whole request in one event of chunks of this size.
fn send(call: &Call, size: usize) {
    call.headers(false);
    call.request(&pieces(&body(), size), true);
}

#[test]
fn pieces_make_a_call_and_an_answer() {
    for (document, login, ok) in [("", &b""[..], &b""[..]), (r#"{"password": "pw"}"#, LOGIN, b"+OK\r\n")] {
        with_cluster(document, |cluster| {
            let sent = [login, &body()].concat();
            let whole = Outcome { sent, answer: Some((200, REPLY.to_vec())), hangs_up: false };
            for size in [1, 2, 7, 1_000] {
                // Chunks of one event, and events of one chunk.
                let call = cluster.call();
                call.ends_with_answer();
                send(&call, size);
                call.reply(&pieces(&[ok, REPLY].concat(), size), false);
                assert_eq!(call.outcome(), whole, "{size}");
                let call = cluster.call();
                call.headers(false);
                pieces(&body(), size).iter().for_each(|piece| call.request(&[piece], false));
                assert_eq!(call.outcome(), Outcome::default(), "before the request's end");
                call.trailers();
                pieces(&[ok, REPLY].concat(), size).iter().for_each(|piece| call.reply(&[piece], false));
                assert_eq!(call.outcome(), whole, "{size}");
            }
        });
    }
}

#[test]
fn empty_events_do_nothing() {
    with_cluster("", |cluster| {
        let call = cluster.call();
        call.headers(false);
        call.request(&[], false);
        call.request(&[b"", &body(), b""], true);
        call.reply(&[], false);
        call.reply(&[b""], false);
        assert_eq!(call.outcome(), Outcome { sent: body(), ..Outcome::default() });
    });
}

#[test]
fn what_is_left_over_or_cut_closes_the_connection() {
    with_cluster("", |cluster| {
        let rest: [(&[&[u8]], bool); 4] =
            [(&[REPLY, b"\n"], false), (&[b"*1\r\n"], true), (&[REPLY], true), (&[b"=15\r\n"], false)];
        for (chunks, ends) in rest {
            let call = cluster.call();
            send(&call, 100);
            call.reply(chunks, ends);
            let closed = Outcome { sent: body(), answer: None, hangs_up: true };
            assert_eq!(call.outcome(), closed, "{chunks:?}");
            call.reply(&[REPLY], false);
            assert_eq!(call.outcome(), closed, "{chunks:?}");
        }
        let call = cluster.call();
        send(&call, 100);
        call.reply(&[REPLY], false);
        call.reply(&[REPLY], false);
        let outcome = call.outcome();
        assert!(outcome.answer.is_some() && outcome.hangs_up, "bytes after the answer");
        // Left over by another call.
        let call = cluster.call();
        call.reply(&[REPLY], false);
        send(&call, 100);
        assert_eq!(call.outcome(), Outcome { hangs_up: true, ..Outcome::default() });
    });
}

#[test]
fn a_call_that_ends_in_the_middle_leaves_nothing() {
    with_cluster("", |cluster| {
        drop(cluster.call());
        let call = cluster.call();
        call.headers(false);
        call.request(&[b"*"], false);
        drop(call);
        let call = cluster.call();
        send(&call, 3);
        call.reply(&[b"*1"], false);
    });
}

/// A count of chunks for which there is no memory makes the module panic.
#[test]
fn a_panic_fails_the_call_alone() {
    with_cluster("", |cluster| {
        let failed = Outcome { hangs_up: true, ..Outcome::default() };
        let call = cluster.call();
        call.headers(false);
        call.set_unreadable(true);
        call.request(&[b"lost"], false);
        assert_eq!(call.outcome(), failed);
        // The bridge must not send what follows the lost bytes, even if it is a whole command.
        call.set_unreadable(false);
        call.request(&[&body()], true);
        assert_eq!(call.outcome(), failed);
        let call = cluster.call();
        send(&call, 100);
        call.set_unreadable(true);
        call.reply(&[b"lost"], false);
        call.set_unreadable(false);
        call.reply(&[REPLY], false);
        assert_eq!(call.outcome(), Outcome { sent: body(), ..failed });
        let call = cluster.call();
        send(&call, 100);
        call.reply(&[REPLY], false);
        assert_eq!(call.outcome().answer, Some((200, REPLY.to_vec())), "another call");
        // In other tests, a panic that is counted is a mistake of the module.
        assert_eq!(take_panics(), 2);
    });
}

/// Envoy passes what `…_new` has returned, also null.
#[test]
fn null_pointers_do_nothing() {
    with_cluster("", |_| {
        // SAFETY: the module does not follow null pointers.
        unsafe {
            assert!(hooks::bridge_new(null(), null_mut()).is_null());
            hooks::bridge_headers(null_mut(), null(), true);
            hooks::bridge_data(null_mut(), null(), true);
            hooks::bridge_trailers(null_mut(), null());
            hooks::bridge_reply(null_mut(), null(), true);
            hooks::bridge_destroy(null());
            hooks::bridge_config_destroy(null());
        }
    });
}

#[test]
fn wrong_configurations_are_refused() {
    envoy::load();
    envoy::run(|| {
        for (name, document) in
            [("redis", "{"), ("redis", r#"{"user": "x"}"#), ("other", ""), ("", ""), ("redis", "[]")]
        {
            assert!(Cluster::new(name, document).is_none(), "{name}, {document}");
        }
        check("a refusal");
    });
}
