//! Tests of what a source is asked, what its answers hold, and how several workers follow it.

use super::follow::Outcome;
use super::*;
use crate::request::Lines;
use crate::request::pairs::Pairs;
use crate::store::{Portable, Rules, Simulated};
use crate::time::Time;
use proptest::prelude::*;

fn options() -> Options {
    Options {
        cluster: "config".into(),
        authority: "config.example".into(),
        path: "/diana.json".into(),
        headers: vec![("authorization".into(), "Bearer t".into())],
        body: None,
        interval: Span::from_secs(8),
        timeout: Span::from_secs(1),
        max_stale: Span::from_secs(60),
        pointer: Vec::new(),
        is_base64: false,
    }
}

fn marks(etag: &str) -> Marks {
    Marks::of(Some(etag.into()), None)
}

fn header(request: &[u8], name: &str) -> Option<String> {
    let value = Lines::Named(Pairs::of(request), name.as_bytes()).next()?;
    Some(String::from_utf8(value.into()).unwrap())
}

#[test]
fn a_request_brings_the_marks_of_the_last_answer() {
    let plain = options().request(&Marks::default());
    for (name, value) in [
        (":method", "GET"),
        (":path", "/diana.json"),
        (":authority", "config.example"),
        ("authorization", "Bearer t"),
    ] {
        assert_eq!(header(&plain, name).as_deref(), Some(value));
    }
    assert_eq!((header(&plain, "if-none-match"), header(&plain, "content-type")), (None, None));
    let marks = Marks::of(Some(b"W/\"1\"".into()), Some(b"Sun, 06 Nov 1994 08:49:37 GMT".into()));
    let again = Options { body: Some("{}".into()), ..options() }.request(&marks);
    assert_eq!(header(&again, "if-none-match").as_deref(), Some("W/\"1\""));
    assert_eq!(header(&again, "if-modified-since").as_deref(), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(header(&again, ":method").as_deref(), Some("POST"));
    assert_eq!(header(&again, "content-type").as_deref(), Some("application/json"));
}

#[test]
fn marks_that_could_not_be_sent_back_are_none() {
    for odd in [&b"a\nb: c"[..], &[b'x'; 257], b"\xff", b"\0"] {
        assert_eq!(Marks::of(Some(odd.into()), Some(odd.into())), Marks::default());
    }
}

#[test]
fn an_answer_is_a_document_or_why_it_is_none() {
    let document = |body: &[u8]| Ok(Answer::Document(body.into()));
    assert_eq!(options().read(200, b"any"), document(b"any"));
    assert_eq!(options().read(304, b""), Ok(Answer::Unchanged));
    for status in [0, 204, 301, 404, 500] {
        let failure = options().read(status, b"{}").unwrap_err();
        assert!(!failure.is_contact());
        assert!(status == 0 || failure.words().contains(&status.to_string()));
    }
    let longest = vec![b' '; MOST_BYTES];
    assert_eq!(options().read(200, &longest), document(&longest));
    assert_eq!(options().read(200, &[&longest[..], b" "].concat()), Err(Failure::TooLarge));

    let read = |text: &str, is_base64: bool, body: &[u8]| {
        Options { pointer: pointer(text).unwrap(), is_base64, ..options() }.read(200, body)
    };
    // etcd's, Consul's without `?raw`, Nacos'.
    assert_eq!(read("/kvs/0/value", true, br#"{"kvs": [{"value": "e30="}]}"#), document(b"{}"));
    assert_eq!(read("/0/Value", true, br#"[{"Value": "e30"}]"#), document(b"{}"));
    assert_eq!(read("/data", false, br#"{"code": 0, "data": "{ }"}"#), document(b"{ }"));
    assert_eq!(read("/a", false, br#"{"a": {"b": [1]}}"#), document(br#"{"b":[1]}"#));
    assert_eq!(read("/a~1b/~01", false, br#"{"a/b": {"~1": []}}"#), document(b"[]"));
    assert_eq!(read("", true, b" e30=\n"), document(b"{}"));
    for (body, why) in [
        (&b"<html>"[..], Failure::NotJson),
        (br#"{"kvs": []}"#, Failure::Nowhere),
        (br#"{"count": "0"}"#, Failure::Nowhere),
        (br#"{"kvs": [{"value": 1}]}"#, Failure::Nowhere),
        (br#"{"kvs": [{"value": "a", "value": "b"}]}"#, Failure::Nowhere),
        (br#"{"kvs": [{"value": "?"}]}"#, Failure::NotBase64),
    ] {
        assert_eq!(read("/kvs/0/value", true, body), Err(why));
        assert!(why.is_contact());
    }
    assert_eq!(read("/00", false, br#"["{}"]"#), Err(Failure::Nowhere), "RFC 6901: no leading zeros");
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

/// A gateway whose workers follow one source.
struct Workers {
    store: Portable<Simulated>,
    followers: Vec<Follower>,
    now: Time,
}

impl Workers {
    fn new(count: u64) -> Workers {
        let followers = (1..=count).map(|id| Follower::new(options(), id)).collect();
        let store = Portable::probe(Simulated::new(Rules::Lenient)).unwrap();
        Workers { store, followers, now: Time::ZERO.after(Span::from_secs(1_000)) }
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.after(Span::from_ms(ms));
    }

    /// Who asks now, and what the request says of what is known.
    fn asks(&mut self) -> Vec<(usize, Option<String>)> {
        let ask = |(at, follower): (usize, &mut Follower)| {
            Some((at, header(&follower.asks(&self.store, self.now)?, "if-none-match")))
        };
        self.followers.iter_mut().enumerate().filter_map(ask).collect()
    }

    /// Time passes until somebody asks.
    fn until_asked(&mut self) -> (usize, u64) {
        for ms in 0..100_000 {
            if let [(asker, _), rest @ ..] = &*self.asks() {
                assert!(rest.is_empty(), "one at a time");
                return (*asker, ms);
            }
            self.pass(1);
        }
        panic!("nobody asks");
    }

    fn answer(&mut self, asker: usize, answer: Result<Answer, Failure>, mark: &str) -> Outcome {
        let takes = |document: &[u8]| match document.starts_with(b"good") {
            true => Ok(()),
            false => Err("bad".into()),
        };
        self.followers[asker].answered(&self.store, self.now, answer, marks(mark), 0, takes)
    }

    fn serve(&mut self, asker: usize, document: &str) -> Outcome {
        self.answer(asker, Ok(Answer::Document(document.into())), document)
    }

    /// What each serves after a look.
    fn look(&mut self) -> Vec<u64> {
        for follower in &mut self.followers {
            match follower.follow(&self.store, self.now) {
                Some(Task::Take(stock)) => {
                    follower.took(stock.generation, stock.document != b"good elsewhere")
                }
                Some(Task::Local { .. }) | None => {}
            }
        }
        self.followers.iter().map(Follower::serves).collect()
    }
}

#[test]
fn one_worker_asks_and_all_take_what_it_was_told() {
    let mut workers = Workers::new(3);
    assert_eq!(workers.look(), [0, 0, 0]);
    assert_eq!(workers.asks(), [(0, None)]);
    assert_eq!(workers.asks(), [], "it is being asked");
    assert_eq!(workers.serve(0, "good 1"), Outcome::Fresh);
    assert_eq!(workers.look(), [1, 1, 1]);
    let (asker, ms) = workers.until_asked();
    assert_eq!((asker, ms), (0, 6_000), "three quarters of the interval");
    assert_eq!(workers.answer(asker, Ok(Answer::Unchanged), "good 1"), Outcome::Unchanged(false));
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), Outcome::Unchanged(false), "though the server knows no marks");
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Fresh);
    assert_eq!(workers.look(), [2, 2, 2]);
}

#[test]
fn a_bad_document_is_told_once_and_changes_nothing() {
    let mut workers = Workers::new(2);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    for told in [Some("bad".to_owned()), None, None] {
        let (asker, _) = workers.until_asked();
        assert_eq!(workers.serve(asker, "mistakes"), Outcome::Refused(told));
        assert_eq!(workers.look(), [1, 1]);
    }
    // It is still contact, for longer than `max_stale`.
    for _ in 0..20 {
        let (asker, _) = workers.until_asked();
        assert_eq!(workers.answer(asker, Ok(Answer::Unchanged), "mistakes"), Outcome::Unchanged(false));
    }
    let (asker, _) = workers.until_asked();
    assert_eq!(
        workers.answer(asker, Err(Failure::TooLarge), ""),
        Outcome::Refused(Some("more than 1 MiB".into()))
    );
    assert_eq!(workers.look(), [1, 1]);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "good 1"), Outcome::Unchanged(true), "it is as it was");
    assert_eq!(workers.look(), [1, 1]);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.serve(asker, "mistakes"), Outcome::Refused(Some("bad".into())), "a second time");
}

#[test]
fn without_contact_for_too_long_the_local_configuration_serves() {
    let mut workers = Workers::new(2);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    assert_eq!(workers.look(), [1, 1]);
    let start = workers.now;
    let mut told = 0;
    while workers.now.since(start) < Span::from_secs(60) {
        let (asker, _) = workers.until_asked();
        if workers.now.since(start) > Span::from_secs(60) {
            break;
        }
        assert_eq!(workers.look(), [1, 1], "{}", workers.now.since(start));
        match workers.answer(asker, Err(Failure::None), "") {
            Outcome::Failed(why) => told += usize::from(why.is_some()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, 1);
    workers.now = start.after(Span::from_ms(60_000));
    assert_eq!(workers.look(), [1, 1]);
    workers.pass(1);
    assert_eq!(workers.look(), [0, 0]);
    workers.pass(100_000);
    let (asker, _) = workers.until_asked();
    assert_eq!(workers.answer(asker, Ok(Answer::Unchanged), "good 1"), Outcome::Unchanged(true));
    assert_eq!(workers.look(), [1, 1], "back by itself");
}

#[test]
fn failures_in_a_row_are_asked_about_later_and_later_up_to_a_bound() {
    let mut workers = Workers::new(1);
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let (asker, ms) = workers.until_asked();
        pauses.push(ms);
        workers.answer(asker, Err(Failure::Status(500)), "");
    }
    assert_eq!(pauses, [0, 6_000, 12_000, 24_000, 24_000]);
}

#[test]
fn when_the_asker_is_gone_another_one_asks() {
    let mut workers = Workers::new(3);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    let gone = workers.followers.remove(asker);
    let (asker, ms) = workers.until_asked();
    assert!(ms > 6_000 && ms < 16_000, "{ms}");
    assert_eq!(workers.serve(asker, "good 2"), Outcome::Fresh);
    assert_eq!(workers.look(), [2, 2]);
    // It was only held up, and comes back with an old answer.
    workers.followers.push(gone);
    assert_eq!(workers.serve(2, "good 1"), Outcome::Late);
    assert_eq!(workers.look(), [2, 2, 2]);
}

#[test]
fn a_call_that_is_never_answered_is_made_again() {
    let mut workers = Workers::new(2);
    assert_eq!(workers.until_asked().0, 0);
    let (asker, ms) = workers.until_asked();
    assert_eq!(asker, 0);
    assert!((1_000..2_000).contains(&ms), "{ms}");
}

#[test]
fn a_document_is_taken_whole_or_not_at_all() {
    let mut workers = Workers::new(2);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    workers.followers[0].follow(&workers.store, workers.now);
    let keys = head::Keys::of(&options());
    // Somebody has begun to write another, and is gone.
    assert!(keys.put_document(&workers.store, b"good and not yet named"));
    assert_eq!(workers.look(), [0, 0]);
    let (asker, _) = workers.until_asked();
    assert_eq!(asker, 0);
    assert_eq!(workers.serve(asker, "good 1"), Outcome::Fresh, "it is written anew");
    assert_eq!(workers.look(), [1, 1]);
}

/// What is lost is asked for without the marks that say that it is known.
#[test]
fn a_lost_document_is_asked_for_as_if_nothing_was_known() {
    let mut workers = Workers::new(1);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good 1");
    head::Keys::of(&options()).put_document(&workers.store, b"");
    workers.look();
    workers.pass(60_000);
    assert_eq!(workers.asks(), [(0, None)]);
}

#[test]
fn a_document_that_one_worker_cannot_take_is_not_tried_again() {
    let mut workers = Workers::new(1);
    let (asker, _) = workers.until_asked();
    workers.serve(asker, "good elsewhere");
    assert_eq!(workers.look(), [0]);
    assert_eq!(workers.followers[0].follow(&workers.store, workers.now), None);
}

proptest! {
    #[test]
    fn any_answer_is_one(status in prop::sample::select(vec![0u32, 200, 200, 200, 304, 503]), body: Vec<u8>, is_base64: bool) {
        let options = Options { pointer: vec!["a".into()], is_base64, ..options() };
        _ = options.read(status, &body);
    }

    /// Whatever stands in the shared data, followers go on.
    #[test]
    fn any_bytes_in_the_shared_data_are_no_head(bytes: Vec<u8>) {
        let mut workers = Workers::new(1);
        let key = format!("diana/c{}", options().id().to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        use crate::store::Store;
        workers.store.swap(key.as_bytes(), &bytes, None).unwrap();
        prop_assert_eq!(workers.look(), [0]);
        prop_assert_eq!(workers.asks(), [(0, None)]);
        prop_assert_eq!(workers.serve(0, "good 1"), Outcome::Fresh);
        prop_assert_eq!(workers.look(), [1]);
    }
}
