//! Documents, streams, pointers and chunks, as they come from servers and as they may come.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;
use std::ops::Range;

const KEYS: [&str; 9] = ["usage", "total_tokens", "a", "b", "", "é", "a/~b", "0", "😀\"\\"];

/// A document as text: valid JSON, with repeated keys, escapes and white space.
pub fn document() -> impl Strategy<Value = String> {
    leaf().prop_recursive(5, 48, 5, |value| {
        let space = || select(vec!["", "", "", " ", "\r\n\t", "\n", "\r"]);
        let list = vec((space(), value.clone(), space()), 0..5).prop_map(|items| {
            joined("[", items.into_iter().map(|(a, value, b)| [a, &value, b].concat()), "]")
        });
        let entry = (space(), text(select(KEYS.to_vec())), space(), space(), value, space())
            .prop_map(|(a, key, b, c, value, d)| [a, &key, b, ":", c, &value, d].concat());
        let object = vec(entry, 0..6).prop_map(|entries| joined("{", entries.into_iter(), "}"));
        prop_oneof![1 => list, 2 => object]
    })
}

fn joined(open: &str, parts: impl Iterator<Item = String>, close: &str) -> String {
    [open, &parts.collect::<Vec<_>>().join(","), close].concat()
}

fn leaf() -> BoxedStrategy<String> {
    prop_oneof![
        4 => number(),
        1 => select(vec!["null", "true", "false", "[]", "{}"]).prop_map(String::from),
        1 => text(".{0,8}|[\"\\\\\\x00-\\x1f]{0,4}"),
    ]
    .boxed()
}

/// The text of a number, with or without a value.
pub fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..1_000_u64).prop_map(|number| number.to_string()),
        ((1_u64 << 53) - 2..(1 << 53) + 2).prop_map(|number| number.to_string()),
        "(0|[1-9][0-9]{0,25})\\.0{0,25}[0-9]{1,3}",
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?",
    ]
}

/// A string with some of its letters escaped.
fn text(letters: impl Strategy<Value = impl Into<String>>) -> impl Strategy<Value = String> {
    (letters, any::<u16>()).prop_map(|(letters, escaped)| {
        let mut text = String::from("\"");
        for (at, letter) in letters.into().chars().enumerate() {
            if escaped >> (at % 16) & 3 == 3 {
                letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
            } else {
                let quoted = serde_json::to_string(&letter).unwrap();
                text += &quoted[1..quoted.len() - 1];
            }
        }
        text + "\""
    })
}

/// A document with a pointer, which mostly leads to a value of the document.
pub fn with_pointer() -> impl Strategy<Value = (String, String)> {
    with_pointers(1..2).prop_map(|(document, mut pointers)| (document, pointers.remove(0)))
}

/// A document with several pointers, which mostly lead to values of the document.
pub fn with_pointers(count: Range<usize>) -> impl Strategy<Value = (String, Vec<String>)> {
    let names = vec(select([&KEYS[..], &["1", "2", "00", "-"]].concat()), 0..4);
    let any_pointer = names.prop_map(|names| names.iter().map(|name| step(name)).collect::<String>());
    let choice = (select(vec![true, false, false, false]), any_pointer, any::<Index>());
    (document(), vec(choice, count)).prop_map(|(document, choices)| {
        let mut pointers = Vec::new();
        if let Ok(value) = serde_json::from_str(&document) {
            list_pointers(&value, String::new(), &mut pointers);
        }
        let choose = |(is_any, any_pointer, index): (bool, String, Index)| {
            if is_any || pointers.is_empty() { any_pointer } else { index.get(&pointers).clone() }
        };
        let chosen = choices.into_iter().map(choose).collect();
        (document, chosen)
    })
}

fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn list_pointers(value: &Value, to_here: String, out: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| list_pointers(value, to_here.clone() + &step(key), out))
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(at, value)| list_pointers(value, format!("{to_here}/{at}"), out))
        }
        Value::Number(_) => out.extend(vec![to_here.clone(); 4]),
        _ => {}
    }
    out.push(to_here);
}

/// A valid document with one mistake: a byte that is replaced, added or missing.
pub fn malformed() -> impl Strategy<Value = (Vec<u8>, String)> {
    let bytes = b"{}[],:\"\\u0-.1eE+ \n\0\xff".to_vec();
    (with_pointer(), any::<Index>(), 0..2_usize, proptest::option::of(select(bytes))).prop_map(
        |((document, pointer), at, removed, added)| {
            let mut document = document.into_bytes();
            let at = at.index(document.len());
            document.splice(at..at + removed, added);
            (document, pointer)
        },
    )
}

/// An event stream with a pointer into its documents.
pub fn stream() -> impl Strategy<Value = (Vec<u8>, String)> {
    (stream_with_pointers(), any::<Index>())
        .prop_map(|((stream, pointers), index)| (stream, index.get(&pointers).clone()))
}

/// An event stream with pointers into its documents.
pub fn stream_with_pointers() -> impl Strategy<Value = (Vec<u8>, Vec<String>)> {
    let fixed = select(vec![
        "data: [DONE]",
        ": ping",
        ":",
        "",
        "",
        "data",
        "data:",
        "event: usage",
        "event",
        "id: 7",
        "retry: 100",
        "datum: {}",
        "data : {\"a\":1}",
        " data: {\"a\":1}",
        "\u{feff}data: 1",
        "data: {\"a\":3",
        "data:  12",
        "data: {\"id\":\"é\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":21}}",
        "data: {\"type\":\"message_delta\",\"usage\":{\"total_tokens\":15},\"a\":{\"b\":4}}",
    ]);
    let event = with_pointer().prop_map(|(document, pointer)| (as_data(&document), pointer));
    let lines = prop_oneof![
        2 => fixed.prop_map(|line| (vec![line.to_owned()], "/usage/total_tokens".to_owned())),
        1 => event,
    ];
    let end = select(vec!["\n", "\r\n", "\r"]);
    (vec((lines, end, 0..3_usize), 1..8), any::<bool>()).prop_map(|(parts, has_mark)| {
        let mut stream = String::from(if has_mark { "\u{feff}" } else { "" });
        for ((lines, _), end, empty) in &parts {
            lines.iter().for_each(|line| stream = [stream.as_str(), line, end].concat());
            stream += &end.repeat(*empty);
        }
        (stream.into_bytes(), parts.into_iter().map(|((_, pointer), ..)| pointer).collect())
    })
}

/// Lines of data with this document. White space before a line's text has to be kept.
fn as_data(document: &str) -> Vec<String> {
    document.replace("\r\n", "\n").split(['\r', '\n']).map(|line| format!("data: {line}")).collect()
}

/// Sizes of chunks. Some are empty.
pub fn sizes() -> impl Strategy<Value = Vec<usize>> {
    (vec(0..20_usize, 0..6), 1..20_usize).prop_map(|(mut sizes, last)| {
        sizes.push(last);
        sizes
    })
}
