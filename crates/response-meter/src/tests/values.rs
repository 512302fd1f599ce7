//! `JsonValues`: several values of one document.

use super::generate::{malformed, sizes, with_pointer};
use super::values_model::values_in;
use super::{cases, chunks, for_every_cut};
use crate::{JsonValue, JsonValues, Pointers};
use proptest::prelude::*;

type Values = Option<Vec<super::values_model::Value>>;

fn read(document: &[u8], pointers: &[&str], sizes: &[usize]) -> Values {
    let pointers = Pointers::parse(pointers.iter().copied()).unwrap();
    let mut values = JsonValues::new(&pointers);
    chunks(document, sizes).into_iter().for_each(|chunk| values.push(chunk));
    let is_failed = values.is_failed();
    let value = |value| match value {
        JsonValue::Absent | JsonValue::Null => Ok(None),
        JsonValue::Text(text) | JsonValue::Literal(text) => Ok(Some(text.into_vec())),
        JsonValue::Unreadable => Err(()),
    };
    let found = values.finish();
    assert!(!is_failed || found.is_none());
    found.map(|values| values.into_iter().map(value).collect())
}

/// The value at `/a/b`, in one chunk; `None` if the document is unreadable.
fn one(document: &str) -> Option<Result<Option<String>, ()>> {
    let found = read(document.as_bytes(), &["/a/b"], &[usize::MAX])?.remove(0);
    Some(found.map(|value| value.map(|text| String::from_utf8(text).unwrap())))
}

fn is(document: &str, expected: &str) {
    assert_eq!(one(document), Some(Ok(Some(expected.into()))), "{document}");
}

#[test]
fn texts_whole_numbers_and_flags_have_values() {
    for (value, expected) in [
        (r#""small""#, "small"),
        (r#""\u0073m\u00e4ll\n\ud83d\ude00\/\\\"""#, "smäll\n😀/\\\""),
        (r#""""#, ""),
        ("12", "12"),
        ("-12", "-12"),
        ("-0", "0"),
        ("0.0e9", "0"),
        ("12.0", "12"),
        ("1.2E1", "12"),
        ("1200e-2", "12"),
        ("9007199254740992", "9007199254740992"),
        ("-9007199254740992", "-9007199254740992"),
        ("true", "true"),
        ("false", "false"),
    ] {
        is(&format!(r#"{{"a":{{"b":{value}}}}}"#), expected);
        is(
            &format!(" {{\"x\":[{{\"b\":0}}],\"\\u0061\" : {{\r\n\t\"b\" :{value} , \"c\":1}} }}\n"),
            expected,
        );
    }
}

#[test]
fn anything_else_has_none() {
    for value in [
        "1.5",
        "1e-1",
        "9007199254740993",
        "1e400",
        "{}",
        "[]",
        r#"["b"]"#,
        r#"{"b":1}"#,
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800x""#,
        r#""a\u0000""#,
    ] {
        assert_eq!(one(&format!(r#"{{"a":{{"b":{value}}}}}"#)), Some(Err(())), "{value}");
    }
    let long = |length: usize| format!(r#"{{"a":{{"b":"{}"}}}}"#, "x".repeat(length));
    assert_eq!(one(&long(1_025)), Some(Err(())));
    is(&long(1_024), &"x".repeat(1_024));
    for document in ["{}", "null", r#"{"a":null}"#, r#"{"a":{"b":null}}"#, r#"{"b":{"a":1}}"#] {
        assert_eq!(one(document), Some(Ok(None)), "{document}");
    }
}

#[test]
fn a_list_or_a_scalar_on_the_way_is_unreadable() {
    for document in [
        "[]",
        "12",
        "true",
        r#""a""#,
        r#"[{"a":{"b":1}}]"#,
        r#"{"a":["b"]}"#,
        r#"{"a":[]}"#,
        r#"{"a":"b"}"#,
        r#"{"a":""}"#,
        r#"{"a":1}"#,
        r#"{"a":false}"#,
    ] {
        assert_eq!(one(document), Some(Err(())), "{document}");
    }
    let pointers = ["/0/a", "/2", "/00", "/-", "/4294967295"];
    let expected = vec![Ok(Some(b"1".to_vec())), Ok(None), Err(()), Err(()), Err(())];
    assert_eq!(read(br#"[{"a":1},2]"#, &pointers, &[1]), Some(expected));
}

#[test]
fn a_document_in_doubt_is_unreadable() {
    for document in [
        // Parsers take the first or the last of equal keys, and some ignore case.
        r#"{"a":{"b":1,"b":1}}"#,
        r#"{"a":{"b":1},"a":{}}"#,
        r#"{"a":{"b":1},"\u0061":2}"#,
        r#"{"a":{"b":1,"B":2}}"#,
        r#"{"A":{"b":1}}"#,
        r#"{"a":{"b":1,"b":null}}"#,
        // Parsers in C end a key at NUL, and others drop half of a pair.
        r#"{"a\u0000":1,"a":{"b":1}}"#,
        r#"{"x":{"\ud800a":1}}"#,
        r#"{"x\udc00":1}"#,
        // What follows may be read in its place.
        r#"{"a":{"b":1}} {}"#,
        r#"{"a":{"b":1}},"#,
        r#"{"a":{"b":1}"#,
        "",
        " ",
        // Relaxed parsers read on.
        r#"{"a":{"b":1},}"#,
        r#"{"a":{"b":1},/**/"c":2}"#,
        r#"{'a':{"b":1}}"#,
        r#"{a:{"b":1}}"#,
        r#"{"a":{"b":01}}"#,
        r#"{"a":{"b":+1}}"#,
        r#"{"a":{"b":NaN}}"#,
        "{\"a\":{\"b\":\"\n\"}}",
        "\u{feff}{\"a\":{\"b\":1}}",
    ] {
        assert_eq!(one(document), None, "{document}");
    }
    let utf_16: Vec<u8> = r#"{"a":{"b":1}}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&utf_16, &["/a/b"], &[1]), None);
    for broken in [&b"\xc1\xa1"[..], b"\xe0\x81\xa1", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xc3"]
    {
        let document = [br#"{"a":{"b":1},""#, broken, br#"":2}"#].concat();
        assert_eq!(read(&document, &["/a/b"], &[usize::MAX]), None, "{broken:?}");
    }
    // Four letters beyond ASCII become ASCII in another case.
    let task = |key: &str| read(format!(r#"{{"{key}":1}}"#).as_bytes(), &["/task_id"], &[1]);
    for key in [
        "ta\u{17f}k_id",
        "tas\u{212a}_id",
        "TASK_ID",
        "tasK_id",
        "\\u0054ask_id",
        "task_\u{130}d",
        "task_\u{131}d",
        "TASK_\\u0130D",
    ] {
        assert_eq!(task(key), None, "{key}");
    }
    for key in ["taśk_id", "task_ïd", "task_i\u{307}d", "task_i", "task_id_"] {
        assert_eq!(task(key), Some(vec![Ok(None)]), "{key}");
    }
}

#[test]
fn doubts_elsewhere_are_harmless() {
    for document in [
        r#"{"x":1,"x":2,"a":{"b":1}}"#,
        r#"{"x":{"b":1,"b":2,"a":0},"a":{"b":1,"c":{"a":1,"A":1}}}"#,
        r#"{"x":"\ud800 \u0000","a":{"b":1}}"#,
        r#"{"x":1e999,"a":{"b":1},"b":[{"a":1,"a":2}]}"#,
    ] {
        is(document, "1");
    }
}

#[test]
fn sixty_four_levels_are_read() {
    let nested =
        |depth: usize| format!(r#"{{"x":{}{},"a":{{"b":1}}}}"#, "[".repeat(depth), "]".repeat(depth));
    is(&nested(63), "1");
    assert_eq!(one(&nested(64)), None);
    assert_eq!(one(&"[".repeat(100_000)), None);
}

#[test]
fn many_pointers_are_found_at_once() {
    let names: Vec<String> = (0..JsonValues::MAX_POINTERS).map(|at| format!("/k/{at}")).collect();
    let pointers: Vec<&str> = names.iter().map(String::as_str).collect();
    let list = (0..64).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
    let expected = (0..64).map(|at| Ok(Some(at.to_string().into_bytes()))).collect::<Vec<_>>();
    assert_eq!(read(format!(r#"{{"k":[{list}]}}"#).as_bytes(), &pointers, &[3]), Some(expected));
    let both = ["/a", "/a/b", "/a", "", "/0/1"];
    let expected = vec![Err(()), Ok(Some(b"x".to_vec())), Err(()), Err(()), Ok(None)];
    assert_eq!(read(br#"{"a":{"b":"x"}}"#, &both, &[1]), Some(expected));
}

#[test]
fn values_are_the_same_whatever_the_chunks() {
    for document in [
        r#"{"a":{"b":"\u0073m\u00e4llü\ud83d\ude00"},"c":[1,{"d":-1.20e1}],"e":"é\ud800"}"#,
        r#"{"a":{"b":1},"\u0061":2}"#,
        r#"{"c":[true,{"d":null}],"x":"\ud800\ud83d\ude00","a":{"c":0}} "#,
    ] {
        let pointers = ["/a/b", "/c/1/d", "/c/0", "/e"];
        for_every_cut(document.as_bytes(), |prefix, sizes| {
            assert_eq!(read(prefix, &pointers, sizes), values_in(prefix, &pointers), "{document}");
        });
    }
}

/// The fingerprint of the value at `/a`, and whether it has one; `None` if the document is
/// unreadable.
fn fingerprint(document: &[u8], sizes: &[usize]) -> Option<JsonValue> {
    let pointers = Pointers::parse(["/a/b", "/a", "/a"]).unwrap();
    let mut values = JsonValues::fingerprinting(&pointers, 0b010);
    chunks(document, sizes).into_iter().for_each(|chunk| values.push(chunk));
    Some(values.finish()?.remove(1))
}

#[test]
fn equal_values_have_equal_fingerprints() {
    let of = |value: &str| fingerprint(format!(r#"{{"x":[1],"a":{value}}}"#).as_bytes(), &[usize::MAX]);
    let mut known = Vec::new();
    for same in [
        &[r#"{"b":"x","c":[1,2,{}]}"#, " { \"b\" :\"\\u0078\",\n\"\\u0063\": [1.0 ,20e-1, { } ] } "][..],
        &[r#"{"c":[1,2,{}],"b":"x"}"#],
        &[r#"{"b":"x","c":[1,2],"d":{}}"#],
        &[r#"{"b":"x","c":["1",2,{}]}"#],
        &[r#"{"b":"x","c":[1,2,{}],"d":null}"#],
        &[r#"{"b":"x","c":1,"c":1}"#],
        &["{}"],
        &["[]"],
        &["[[]]"],
        &["[[],[]]"],
        &["[{},[]]"],
        &[r#""""#],
        &[r#"[""]"#],
        &[r#"["",""]"#],
        &[r#"["\",\""]"#],
        &["true"],
        &[r#""true""#],
        &["[true]"],
        &["[null]"],
        &["false"],
        &["0", "-0", "0.000", "0e9"],
        &["1", "1.0", "10e-1", "0.01E+2"],
        &["-1", "-10.00e-1"],
        &["1.5", "15e-1", "1.50"],
        &["15"],
        &["1e400", "10e399"],
        &["1e401"],
        &["9223372036854775807"],
        &["9223372036854775806"],
        &["[1,2]"],
        &["[12]"],
        &[r#""\ud83d\ude00/""#, r#""😀\/""#],
        &[r#""\ud83d""#, r#""\u0000""#],
    ] {
        let first = of(same[0]);
        assert!(matches!(&first, Some(JsonValue::Text(bytes)) if bytes.len() == 8), "{}", same[0]);
        same.iter().for_each(|other| assert_eq!(of(other), first, "{other}"));
        assert!(!known.contains(&first), "{}", same[0]);
        known.push(first);
    }
    assert_eq!(fingerprint(br#"{"a":null}"#, &[1]), Some(JsonValue::Null));
    assert_eq!(fingerprint(br#"{"a":1,"a":1}"#, &[1]), None);
    assert_eq!(fingerprint(b"{}", &[1]), Some(JsonValue::Absent));
    assert_eq!(fingerprint(b"[{\"a\":1}]", &[1]), Some(JsonValue::Unreadable));
    // Text of any length, and values within values.
    let long = |end: &str| of(&format!(r#""{}{end}""#, "x".repeat(5_000)));
    assert_ne!(long("a"), long("b"));
    let pointers = Pointers::parse(["/a/b", "/a", "/a", "/a/b"]).unwrap();
    let mut values = JsonValues::fingerprinting(&pointers, 0b0101);
    values.push(br#"{"a":{"b":7}}"#);
    let found = values.finish().unwrap();
    assert_eq!(Some(&found[0]), of("7").as_ref());
    assert_eq!(Some(&found[2]), of(r#"{"b":7}"#).as_ref());
    assert_eq!(found[1], JsonValue::Unreadable);
    assert_eq!(found[3], JsonValue::Literal((*b"7").into()));
}

#[test]
fn a_fingerprint_is_the_same_whatever_the_chunks() {
    let document =
        r#"{"a":{"c":"\u0073m\u00e4llü\ud83d\ude00","d":[1,{"d":-1.20e1}],"e":"é\ud800"}}"#.as_bytes();
    let whole = fingerprint(document, &[usize::MAX]);
    for_every_cut(document, |prefix, sizes| {
        let expected = whole.clone().filter(|_| prefix.len() == document.len());
        assert_eq!(fingerprint(prefix, sizes), expected);
    });
}

#[test]
fn the_headers_say_whether_a_body_can_be_read() {
    for (content_type, encoding, expected) in [
        ("application/json", "", true),
        ("Application/JSON ; Charset=\"UTF-8\"", " Identity", true),
        ("application/problem+json;charset=utf-8", "", true),
        ("application/json;q=1; profile=x", "", true),
        ("application/json;charset=utf-8;q=1", "", false),
        ("application/json; charset=us-ascii", "", true),
        ("application/json; charset=utf-7", "", false),
        ("application/json; charset=utf-8; charset=utf-16", "", false),
        ("application/json;a=b,application/x-www-form-urlencoded", "", false),
        ("application/x-www-form-urlencoded,application/a+json", "", false),
        ("application/json; x=1;charset =utf-7", "", false),
        ("application/json", "gzip", false),
        ("application/json,text/plain", "", false),
        ("text/json", "", false),
        ("application/grpc+json", "", false),
        ("application/Connect+json", "", false),
        ("", "", false),
    ] {
        let found = JsonValues::can_read(content_type.as_bytes(), encoding.as_bytes());
        assert_eq!(found, expected, "{content_type} {encoding}");
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    #[test]
    fn a_document_has_the_values_of_the_model(((document, pointer), sizes) in (with_pointer(), sizes())) {
        let pointers = [&*pointer, "/a", "/a/b", "/0", "/1/usage"];
        let document = document.as_bytes();
        prop_assert_eq!(read(document, &pointers, &sizes), values_in(document, &pointers));
    }

    #[test]
    fn a_fingerprint_is_that_of_the_same_value_spelt_anew((document, _) in with_pointer()) {
        let wrapped = format!(r#"{{"x":{document}}}"#);
        let pointers = Pointers::parse(["/x"]).unwrap();
        let of = |document: &str| {
            let mut values = JsonValues::fingerprinting(&pointers, 1);
            values.push(document.as_bytes());
            values.finish()
        };
        let spaced: String = wrapped.replace(r#"":"#, "\" \n:\t ");
        if serde_json::from_str::<serde_json::Value>(&wrapped).ok() == serde_json::from_str(&spaced).ok() {
            prop_assert_eq!(of(&wrapped), of(&spaced));
        }
    }

    #[test]
    fn a_malformed_document_has_the_values_of_the_model(((document, pointer), sizes) in (malformed(), sizes())) {
        let pointers = [&*pointer, "/a"];
        prop_assert_eq!(read(&document, &pointers, &sizes), values_in(&document, &pointers));
    }
}
