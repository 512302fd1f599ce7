//! Tests of patterns.

use super::*;
use diana_document::{Errors, Value};

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let (value, errors) = (Value::Text((*text).into()), Errors::default());
        let found = Pattern::parse(Node::root(&value, &errors));
        let mistakes: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(found.is_none(), !mistakes.is_empty());
        let found = found.map_or(mistakes.join("\n"), |pattern| {
            assert_eq!(pattern.to_string().parse(), Ok(pattern.clone()), "{text} is read back");
            pattern.to_string()
        });
        assert_eq!(found, *expected, "{text}");
    }
}

#[test]
fn a_pattern_is_normalised_as_a_path_is() {
    check(&[
        ("/", "/"),
        ("=/", "=/"),
        ("/api/", "/api"),
        ("=/api//v1/.", "=/api/v1"),
        ("/api/**", "/api"),
        ("/api/**/", "/api"),
        ("/**", "/"),
        ("/*/**", "/*"),
        ("/users/*/orders", "/users/*/orders"),
        ("/a%3ab", "/a:b"),
        ("/a%2fb;c", "/a%2Fb;c"),
        ("/%2A/a%2a", "/%2A/a%2A"),
        ("/café", "/caf%C3%A9"),
        ("/%7Eme/%zz", "/~me/%25zz"),
        ("/...", "/..."),
        ("/%7Bid%7D/x%7Bid%7D", "/%7Bid%7D/x%7Bid%7D"),
        ("/users/{id}/orders", "/users/*/orders"),
        ("=/{A-1_}/*/{b}/", "=/*/*/*"),
        ("/{a}/**", "/*"),
        ("/%3Aid/:/m:run", "/%3Aid/%3A/m:run"),
    ]);
    assert_eq!("/a%3ab".parse::<Pattern>(), "/a%3Ab".parse());
}

#[test]
fn a_mistake_in_a_pattern_says_what_to_write() {
    check(&[
        ("", "a pattern begins with `/` or `=/`, found ``; `/` matches every request"),
        ("*", "a pattern begins with `/` or `=/`, found `*`; `/` matches every request"),
        ("api", "a pattern begins with `/` or `=/`, found `api`, did you mean `/api`?"),
        ("=api", "a pattern begins with `/` or `=/`, found `=api`, did you mean `=/api`?"),
        (" /api", "a pattern begins with `/` or `=/`, found ` /api`, did you mean `/api`?"),
        (
            "https://example.com:8080/api",
            "a pattern is a path, not a full url: write `/api` here and `example.com:8080` in `hosts`",
        ),
        (
            "http://example.com",
            "a pattern is a path, not a full url: write `/` here and `example.com` in `hosts`",
        ),
        ("=/api?x=1", "the query is not part of a pattern, leave it out: `=/api` instead of `=/api?x=1`"),
        ("/a#b", "the query is not part of a pattern, leave it out: `/a` instead of `/a#b`"),
        ("/x/a*b", "`*` stands for a whole segment, not for a part of `a*b`; write `%2A` for the character"),
        (
            "/users/x{id}",
            "`{name}` stands for a whole segment, not for a part of `x{id}`; write `%7B` and `%7D` for the characters",
        ),
        (
            "/{id",
            "`{name}` stands for a whole segment, not for a part of `{id`; write `%7B` and `%7D` for the characters",
        ),
        (
            "=/users/:id",
            "`:id` names a segment in other routers: write `{name}` or `*` for any one segment, `%3A` for the character",
        ),
        (
            "/{}",
            "`{}` does not name a segment, expected 1 to 64 of A to Z, a to z, 0 to 9, `_` and `-` between the braces",
        ),
        (
            "/{a.b}",
            "`{a.b}` does not name a segment, expected 1 to 64 of A to Z, a to z, 0 to 9, `_` and `-` between the braces",
        ),
        ("/{a}/x/{a}", "`{a}` is in the pattern already, names are unique"),
        ("/**/a", "`**` is allowed as the last segment only, `*` stands for one segment"),
        ("/a/../b", "`..` is not allowed in a pattern, write the path it leads to"),
        ("/a/.%2E", "`.%2E` is not allowed in a pattern, write the path it leads to"),
        (
            "=/a/**",
            "`=` asks for the path alone and `/**` for all below it, leave out one of them in `=/a/**`",
        ),
    ]);
    check(&[
        (&"/a".repeat(64), &"/a".repeat(64)),
        (&"/a".repeat(65), "a pattern has at most 64 segments"),
        (&format!("/{{{}}}", "a".repeat(64)), "/*"),
    ]);
}

#[test]
fn a_pattern_contains_those_below_it() {
    let contains =
        |own: &str, other: &str| own.parse::<Pattern>().unwrap().contains(&other.parse::<Pattern>().unwrap());
    for (own, other) in [
        ("/", "/a"),
        ("/", "=/"),
        ("/a", "=/a"),
        ("/a", "/a/*"),
        ("/*", "/a/b"),
        ("=/*", "=/a"),
        ("=/a", "=/a"),
    ] {
        assert!(contains(own, other), "{own} {other}");
    }
    for (own, other) in
        [("/a", "/"), ("=/a", "/a"), ("=/a", "=/a/b"), ("/a", "/*"), ("/a", "/b"), ("=/*", "=/")]
    {
        assert!(!contains(own, other), "{own} {other}");
    }
}

#[test]
fn the_less_specific_pattern_comes_first() {
    let ascending =
        ["/", "=/", "/*", "=/*", "/a", "=/a", "/*/*", "/*/b", "/a/*", "=/a/*", "/a/b", "=/a/b", "/a/*/c"];
    let order = |text: &str| text.parse::<Pattern>().unwrap().specificity();
    for pair in ascending.windows(2) {
        assert!(order(pair[0]) < order(pair[1]), "{pair:?}");
    }
    assert_eq!(order("/a"), order("/b/**"));
}

#[test]
fn patterns_meet_if_some_path_is_matched_by_both() {
    let overlaps = |own: &str, other: &str| {
        let [own, other] = [own, other].map(|text| text.parse::<Pattern>().unwrap());
        assert_eq!(own.overlaps(&other), other.overlaps(&own));
        own.overlaps(&other)
    };
    for (own, other) in [
        ("/", "/api"),
        ("/api", "/api"),
        ("/api", "=/api/x"),
        ("/*/x", "/api"),
        ("/*/x", "/api/*"),
        ("=/*", "=/api"),
        ("=/", "/"),
    ] {
        assert!(overlaps(own, other), "{own} {other}");
    }
    for (own, other) in [
        ("/api", "/health"),
        ("/*/x", "/api/y"),
        ("=/api", "/api/x"),
        ("=/api", "=/api/x"),
        ("=/", "/api"),
        ("=/*", "=/api/x"),
    ] {
        assert!(!overlaps(own, other), "{own} {other}");
    }
}

#[test]
fn a_name_is_that_of_a_place() {
    let pattern: Pattern = "//tenants/./{tenant}/*/{Order_1-}/**".parse().unwrap();
    assert!(pattern.names().eq(["tenant", "Order_1-"]));
    assert_eq!((pattern.place("tenant"), pattern.place("Order_1-")), (Some(1), Some(3)));
    assert_eq!((pattern.place("order_1-"), pattern.place("*")), (None, None));
    let too_long = format!("/{{{}}}", "a".repeat(65));
    assert!(too_long.parse::<Pattern>().is_err());
}

#[test]
fn patterns_that_differ_in_names_only_are_equal() {
    let [own, other, plain] =
        ["/a/{x}/{y}", "/a/{y}/*", "/a/*/*"].map(|text| text.parse::<Pattern>().unwrap());
    assert_eq!(own, other);
    assert_eq!(own, plain);
    assert_eq!(own.specificity(), plain.specificity());
    assert!(own.contains(&plain) && plain.contains(&own) && own.overlaps(&other));
    assert_ne!(own, "=/a/*/*".parse().unwrap());
}
