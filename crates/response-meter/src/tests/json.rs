//! `JsonNumbers`: one document.

use super::generate::{malformed, sizes, with_pointer};
use super::model::number_in;
use super::{cases, chunks, for_every_cut, one, read_json};
use crate::{JsonNumbers, Pointer};
use proptest::prelude::*;
use serde_json::Value;
use std::cell::Cell;

/// Answers of servers, and other documents with a number.
const DOCUMENTS: [(&str, &str, Option<u64>); 23] = [
    (
        r#"{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a \"b\" \u00e9 {\"usage\":{\"total_tokens\":1}}"}}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":0}}}"#,
        "/usage/total_tokens",
        Some(21),
    ),
    (
        r#"{"type":"message","content":[{"type":"text","text":"Hi"}],"usage":{"input_tokens":2095,"output_tokens":503}}"#,
        "/usage/output_tokens",
        Some(503),
    ),
    (
        r#"{"data":[{"embedding":[-0.0069,1.5e-3,0.0]}],"usage":{"total_tokens":8}}"#,
        "/usage/total_tokens",
        Some(8),
    ),
    (r#"[{"a":1}, {"a":2}, {"a":3}]"#, "/1/a", Some(2)),
    (r#"[[1,2],[3,[4,5],6],7]"#, "/1/1/1", Some(5)),
    (r#"[[1,2],[3,[4,5],6],7]"#, "/2", Some(7)),
    (r#"[[[[9]]],1]"#, "/1", Some(1)),
    (r#"[0,[5],[6]]"#, "/1/0", Some(5)),
    (r#"{"a":[],"b":{"a":[1]},"a":[[],8]}"#, "/a/1", Some(8)),
    (r#"{"a":1,"a":2}"#, "/a", Some(2)),
    (r#"{"a":{"b":1},"a":{"c":2}}"#, "/a/b", None),
    (r#"{"a":1,"\u0061":"x"}"#, "/a", None),
    (r#"{"b":{"a":1},"a":{"b":2},"c":{"a":{"b":3}}}"#, "/a/b", Some(2)),
    (r#"{"\ud83d\ude00\n\/\u00e9":4,"\ud83d":5}"#, "/😀\n~1é", Some(4)),
    (r#"{"a\ud83d":1}"#, "/a", None),
    (r#"{"\ud83da":1}"#, "/a", None),
    (r#"{"total":1,"total_tokens":2,"total_tokens_":3}"#, "/total_tokens", Some(2)),
    (r#"{"":{"":6}}"#, "//", Some(6)),
    (r#"{"0":7,"1":[1]}"#, "/0", Some(7)),
    (r#"[5]"#, "/00", None),
    (r#" {"a" : 1 } {"a":2}"#, "/a", Some(1)),
    ("12", "", Some(12)),
    (r#"{"a":1}"#, "", None),
];

#[test]
fn documents_have_their_numbers_whatever_the_chunks() {
    for (document, pointer, expected) in DOCUMENTS {
        assert_eq!(read_json(document.as_bytes(), pointer, &[usize::MAX]), expected, "{document}");
        for_every_cut(document.as_bytes(), |prefix, sizes| {
            let whole = if prefix.len() == document.len() { expected } else { number_in(prefix, pointer) };
            let text = String::from_utf8_lossy(prefix);
            assert_eq!(read_json(prefix, pointer, sizes), whole, "`{pointer}` in {text} by {sizes:?}");
        });
    }
}

#[test]
fn a_document_that_is_cut_keeps_what_was_complete() {
    for (document, expected) in [
        (r#"{"a":12}"#, Some(12)),
        (r#"{"a":12,"b"#, Some(12)),
        (r#"{"a":12 "#, Some(12)),
        (r#"{"a":12"#, None),
        (r#"{"a":12x"#, None),
        (r#"{"a":12,}"#, Some(12)),
        (r#"{"a":12]"#, Some(12)),
        (r#"{"a":12,"a""#, None),
        (r#"{"b":tru,"a":12}"#, None),
        (r#"{"b":truee,"a":12}"#, None),
        (r#"{"b":01,"a":12}"#, None),
        (r#"{"b":"\x","a":12}"#, None),
        (r#"{"b":"\u12g4","a":12}"#, None),
        ("{\"b\":\"\n\",\"a\":12}", None),
        (r#"{"b":[1 2],"a":12}"#, None),
        (r#"{"b":[1,],"a":12}"#, None),
        (r#"{"b":[}],"a":12}"#, None),
        (r#"{"b" 1,"a":12}"#, None),
        (r#"{,"a":12}"#, None),
        (r#"["a":12}"#, None),
        ("[DONE]", None),
        ("", None),
    ] {
        assert_eq!(read_json(document.as_bytes(), "/a", &[1]), expected, "{document}");
        assert_eq!(number_in(document.as_bytes(), "/a"), expected, "the model of {document}");
    }
}

#[test]
fn sixty_four_levels_are_read() {
    let nested = |depth: usize| {
        let (open, close) = (r#"{"b":["#.repeat(depth / 2), "]}".repeat(depth / 2));
        format!(r#"{{"b":{open}{close},"a":5}}"#)
    };
    for (depth, expected) in [(62, Some(5)), (64, None), (10_000, None)] {
        assert_eq!(read_json(nested(depth).as_bytes(), "/a", &[7]), expected, "{depth}");
    }
    let (lists, pointer) = (format!("{}3{}", "[".repeat(64), "]".repeat(64)), "/0".repeat(64));
    assert_eq!(read_json(lists.as_bytes(), &pointer, &[7]), Some(3));
    assert_eq!(Pointer::parse(&format!("{pointer}/0")).unwrap_err(), "a JSON pointer has at most 64 names");
}

#[test]
fn pointers_are_those_of_the_rfc() {
    // RFC 6901 §5.
    let document = r#"{"foo":[10,20],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#;
    let numbers = ["/", "/a~1b", "/c%d", "/e^f", "/g|h", r"/i\j", "/k\"l", "/ ", "/m~0n"];
    for (expected, pointer) in numbers.into_iter().enumerate() {
        assert_eq!(read_json(document.as_bytes(), pointer, &[3]), Some(expected as u64), "{pointer}");
    }
    let others = ["", "/foo", "/foo/2", "/foo/-", "/foo/01", "/foo/+1", "/foo/4294967295", "/foo/", "/m~01n"];
    for pointer in others {
        assert_eq!(read_json(document.as_bytes(), pointer, &[3]), None, "{pointer}");
    }
    assert_eq!(read_json(document.as_bytes(), "/foo/1", &[3]), Some(20));
    for wrong in ["foo", "#/foo", " ", "/~", "/a~", "/~2", "/~~01"] {
        assert!(Pointer::parse(wrong).is_err(), "{wrong}");
    }
}

/// What serde_json reads at the pointer, as a range: it reads fractions as binary ones.
fn by_serde(document: &Value, pointer: &str) -> Option<(u64, u64)> {
    let number = document.pointer(pointer)?.as_number()?;
    if let Some(whole) = number.as_u64() {
        return (whole <= 1 << 53).then_some((whole, whole));
    }
    let float = number.as_f64().filter(|float| float.is_sign_positive() && *float < 9.1e15)?;
    Some((float.ceil() as u64 - u64::from(float > 0.0), float.ceil() as u64 + 1))
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_document_has_the_number_of_the_model_and_of_serde(
        (document, pointer) in with_pointer(), sizes in sizes(),
    ) {
        let value = read_json(document.as_bytes(), &pointer, &sizes);
        prop_assert_eq!(value, number_in(document.as_bytes(), &pointer), "the model");
        // A number beyond the range of `f64` is an error to serde.
        if let Ok(tree) = serde_json::from_str::<Value>(&document) {
            let range = by_serde(&tree, &pointer);
            let is_near_largest = range.is_some_and(|(_, most)| most > 1 << 53);
            match (value, range) {
                (Some(value), Some((least, most))) => prop_assert!((least..=most).contains(&value)),
                (None, Some(_)) => prop_assert!(is_near_largest, "{range:?}"),
                (value, None) => prop_assert_eq!(value, None),
            }
        }
    }

    #[test]
    fn a_malformed_document_has_the_number_of_the_model(
        (document, pointer) in malformed(), end: prop::sample::Index, sizes in sizes(),
    ) {
        let cut = &document[..end.index(document.len() + 1)];
        for document in [&document, cut] {
            prop_assert_eq!(read_json(document, &pointer, &sizes), number_in(document, &pointer));
        }
    }

    #[test]
    fn any_bytes_have_the_number_of_the_model(
        bytes in "[{}\\[\\],:\"a\\\\u0-2.eE+\\- \\n\u{7f}-\u{101}]{0,24}", sizes in sizes(),
    ) {
        for pointer in ["", "/a", "/0", "/a/0"] {
            let bytes = bytes.as_bytes();
            prop_assert_eq!(read_json(bytes, pointer, &sizes), number_in(bytes, pointer));
        }
    }
}

/// What the pointer leads to; `None` if it leads nowhere.
fn at_pointer<'v>(tree: &'v Value, pointer: &str) -> Option<&'v Value> {
    // Elements of lists have no names, and `serde_json` accepts `/00`.
    pointer.split('/').skip(1).try_fold(tree, |tree, name| {
        let name = name.replace("~1", "/").replace("~0", "~");
        match tree {
            Value::Object(entries) => entries.get(&name),
            Value::Array(items) => items.get(name.parse::<usize>().ok().filter(|at| at.to_string() == name)?),
            _ => None,
        }
    })
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// A document has a number, has none, or has something that is no number. A part of a document
    /// may have anything.
    #[test]
    fn only_a_whole_document_has_no_number(
        (document, pointer) in with_pointer(), end: prop::sample::Index, sizes in sizes(),
    ) {
        let read = |bytes: &[u8]| {
            let mut json = JsonNumbers::new(&one(&pointer));
            chunks(bytes, &sizes).into_iter().for_each(|chunk| json.push(chunk));
            (json.value(0), json.is_final(0, false), json.is_final(0, true))
        };
        if let Ok(tree) = serde_json::from_str::<Value>(&document) {
            let (value, _, is_final) = read(document.as_bytes());
            let has_none = at_pointer(&tree, &pointer).is_none_or(Value::is_null);
            prop_assert_eq!(is_final, value.is_some() || has_none);
            let rest = document.trim_ascii().len();
            let cut = &document.as_bytes()[..end.index(rest)];
            let (value, early, is_final) = read(cut);
            // A part of a number is a number.
            prop_assert!(is_final == value.is_some() || tree.is_number());
            prop_assert!(!early || value.is_some());
            let more = [document.as_bytes(), b"{}"].concat();
            let (value, _, is_final) = read(&more);
            prop_assert_eq!(is_final, value.is_some(), "another document follows");
        }
    }
}

/// Documents without a number at the pointer would test little.
#[test]
fn a_quarter_of_the_generated_documents_have_a_number() {
    let (all, found) = (Cell::new(0), Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let checked = runner.run(&with_pointer(), |(document, pointer)| {
        all.set(all.get() + 1);
        found.set(found.get() + u32::from(number_in(document.as_bytes(), &pointer).is_some()));
        Ok(())
    });
    checked.unwrap();
    assert!(found.get() * 4 > all.get(), "{} of {}", found.get(), all.get());
}
