//! Tests of the requests to a source, of its replies, and of several workers that follow it.

mod following;
mod mishaps;
pub(crate) mod workers;

use super::*;
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{Memory, Store};
use diana_limiter::request::HeaderLines;
use diana_limiter::request::pairs::Pairs;
use proptest::prelude::*;
use workers::Workers;

pub(crate) fn options() -> RemoteOptions {
    RemoteOptions {
        authority: "config.example".into(),
        headers: vec![("authorization".into(), "Bearer t".into())],
        interval: Span::from_secs(8),
        max_stale: Span::from_secs(60),
        ..RemoteOptions::new("config", "/diana.json")
    }
}

fn validators(etag: &str) -> Validators {
    Validators::of(Some(etag.into()), None, None)
}

fn header(request: &[u8], name: &str) -> Option<String> {
    let value = HeaderLines::Named(Pairs::of(request), name.as_bytes()).next()?;
    Some(String::from_utf8(value.into()).unwrap())
}

#[test]
fn a_request_sends_the_validators_of_the_last_answer() {
    let plain = options().request(&Validators::default());
    for (name, value) in [
        (":method", "GET"),
        (":path", "/diana.json"),
        (":authority", "config.example"),
        ("authorization", "Bearer t"),
    ] {
        assert_eq!(header(&plain, name).as_deref(), Some(value));
    }
    assert_eq!((header(&plain, "if-none-match"), header(&plain, "content-type")), (None, None));
    let validators =
        Validators::of(Some(b"W/\"1\"".into()), Some(b"Sun, 06 Nov 1994 08:49:37 GMT".into()), None);
    let again = RemoteOptions { body: Some("{}".into()), ..options() }.request(&validators);
    assert_eq!(header(&again, "if-none-match").as_deref(), Some("W/\"1\""));
    assert_eq!(header(&again, "if-modified-since").as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(header(&again, ":method").as_deref(), Some("POST"));
    assert_eq!(header(&again, "content-type").as_deref(), Some("application/json"));
}

#[test]
fn validators_that_could_not_be_sent_back_are_dropped() {
    for odd in [&b"a\nb: c"[..], &[b'x'; 257], b"\xff", b"\0"] {
        assert_eq!(Validators::of(Some(odd.into()), Some(odd.into()), None), Validators::default());
    }
}

#[test]
fn a_document_that_has_just_changed_has_no_validators() {
    let of = |date: &[u8]| Validators::of(Some(b"\"1\"".into()), Some(b"at 37".into()), Some(date.into()));
    for one in [&b"at 37"[..], b"at 37,at 37", b"at 37,at 38", b"at 38, at 37"] {
        assert_eq!(of(one), Validators::default());
    }
    for other in [&b"at 38"[..], b"at 38,at 39", b"now", b""] {
        assert_eq!(of(other).etag, "\"1\"");
    }
    assert_eq!(Validators::of(Some(b"\"1\"".into()), None, None), validators("\"1\""));
}

#[test]
fn a_reply_is_a_document_or_the_reason_for_none() {
    let document = |body: &[u8]| Ok(ServerReply::Document(body.into()));
    assert_eq!(options().read(200, b"any"), document(b"any"));
    assert_eq!(options().read(304, b""), Ok(ServerReply::Unchanged));
    for status in [0, 204, 301, 404, 500] {
        let error = options().read(status, b"{}").unwrap_err();
        assert!(!error.is_contact());
        assert!(status == 0 || error.words().contains(&status.to_string()));
    }
    let longest = vec![b' '; MAX_REPLY_BYTES];
    assert_eq!(options().read(200, &longest), document(&longest));
    assert_eq!(options().read(200, &[&longest[..], b" "].concat()), Err(FetchError::TooLarge));

    let read = |text: &str, is_base64: bool, body: &[u8]| {
        RemoteOptions { pointer: pointer(text).unwrap(), is_base64, ..options() }.read(200, body)
    };
    // etcd's, Consul's without `?raw`, Nacos'.
    assert_eq!(read("/kvs/0/value", true, br#"{"kvs": [{"value": "e30="}]}"#), document(b"{}"));
    assert_eq!(read("/0/Value", true, br#"[{"Value": "e30"}]"#), document(b"{}"));
    assert_eq!(read("/data", false, br#"{"code": 0, "data": "{ }"}"#), document(b"{ }"));
    assert_eq!(read("/a", false, br#"{"a": {"b": [1]}}"#), document(br#"{"b":[1]}"#));
    assert_eq!(read("/a~1b/~01", false, br#"{"a/b": {"~1": []}}"#), document(b"[]"));
    assert_eq!(read("", true, b" e30=\n"), document(b"{}"));
    for (body, why) in [
        (&b"<html>"[..], FetchError::NotJson),
        (br#"{"kvs": []}"#, FetchError::Nowhere),
        (br#"{"count": "0"}"#, FetchError::Nowhere),
        (br#"{"kvs": [{"value": 1}]}"#, FetchError::Nowhere),
        (br#"{"kvs": [{"value": "a", "value": "b"}]}"#, FetchError::Nowhere),
        (br#"{"kvs": [{"value": "?"}]}"#, FetchError::NotBase64),
    ] {
        assert_eq!(read("/kvs/0/value", true, body), Err(why));
        assert!(why.is_contact());
    }
    assert_eq!(read("/00", false, br#"["{}"]"#), Err(FetchError::Nowhere), "RFC 6901: no leading zeros");
}

#[test]
fn a_pointer_is_read_as_the_rfc_has_it() {
    // RFC 6901 §5.
    for (text, names) in [
        ("", vec![]),
        ("/foo/0", vec!["foo", "0"]),
        ("/", vec![""]),
        ("/a~1b", vec!["a/b"]),
        ("/c%d", vec!["c%d"]),
        ("/m~0n", vec!["m~n"]),
        ("/~01", vec!["~1"]),
    ] {
        assert_eq!(pointer(text), Some(names.into_iter().map(str::to_owned).collect()), "{text}");
    }
    for text in ["foo", "/~", "/~2", "/a/~x"] {
        assert_eq!(pointer(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn any_reply_is_read_without_harm(status in prop::sample::select(vec![0u32, 200, 200, 200, 304, 503]), body: Vec<u8>, is_base64: bool) {
        let options = RemoteOptions { pointer: vec!["a".into()], is_base64, ..options() };
        _ = options.read(status, &body);
    }

    /// Whatever the shared data contains, followers go on.
    #[test]
    fn any_bytes_in_the_shared_data_are_no_head(bytes: Vec<u8>) {
        let mut workers = Workers::new(1);
        let key = format!("diana/c{}", options().id().to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        workers.store.swap(key.as_bytes(), &bytes, None).unwrap();
        prop_assert_eq!(workers.look(), [0]);
        prop_assert_eq!(workers.polls(), [(0, None)]);
        prop_assert_eq!(workers.serve(0, "good 1"), PollResult::NewDocument(1));
        prop_assert_eq!(workers.look(), [1]);
    }
}
