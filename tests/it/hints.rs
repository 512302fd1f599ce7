//! The engine's proposals of keys and urls are applied, and the document is then accepted. The hints
//! of `diana check` have tests beside them.

use diana_config::compile;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The mistakes in a document.
fn mistakes(document: &Value) -> Vec<String> {
    match compile(document.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// The text in backticks after `mark`.
fn hinted<'a>(mistake: &'a str, mark: &str) -> Option<&'a str> {
    mistake.split_once(&format!("{mark}`"))?.1.split('`').next()
}

#[test]
fn a_misspelt_key_has_the_hint_that_makes_it_right() {
    let right = json!({
        "limits": [{
            "url": "/", "methods": "GET", "hosts": "a.example", "headers": {"x-plan": "free"}, "exclusive": true,
            "priority": "high",
            "rules": [{
                "name": "a", "actor": "user", "missing": "share", "rpu": 5, "unit": "minute", "burst": 7,
                "headroom": 1, "penalty": {"after": 5, "for": "1m"}, "overrides": {"b": {"rpu": 9}}}],
        }],
        "actors": {"user": {"header": "x-user"}},
        "ip": {"trusted_hops": 1, "v4_prefix": 24},
        "access_log": {"requests": "all"},
        "near_limit": "10%",
    });
    let text = right.to_string();
    assert_eq!(mistakes(&right), [""; 0]);
    let keys = [
        "url",
        "methods",
        "hosts",
        "exclusive",
        "priority",
        "name",
        "missing",
        "rpu",
        "unit",
        "burst",
        "headroom",
        "penalty",
        "after",
        "overrides",
        "actors",
        "trusted_hops",
        "v4_prefix",
        "access_log",
        "requests",
        "near_limit",
    ];
    for key in keys {
        // Without a letter, with one more, and with two swapped.
        let mut swapped: Vec<char> = key.chars().collect();
        swapped.swap(1, 2);
        for wrong in [key[1..].to_owned(), format!("{key}s"), swapped.into_iter().collect()] {
            if wrong == key {
                continue;
            }
            let misspelt = text.replacen(&format!("\"{key}\":"), &format!("\"{wrong}\":"), 1);
            let found = mistakes(&serde_json::from_str(&misspelt).unwrap());
            let meant = found.iter().find_map(|mistake| hinted(mistake, "did you mean "));
            let meant = meant.unwrap_or_else(|| panic!("{wrong}: {found:?}"));
            let applied = misspelt.replacen(&format!("\"{wrong}\":"), &format!("\"{meant}\":"), 1);
            assert_eq!(applied, text, "{wrong}: {found:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_url_has_a_hint_that_is_accepted(url in "=?[/a-z0-9*{}%.: ~^$-]{0,12}") {
        let document = |url: &str| json!({"url": url, "rules": [{"rpu": 5, "unit": "day"}]});
        for mistake in mistakes(&document(&url)) {
            if let Some(meant) = hinted(&mistake, "did you mean ") {
                prop_assert_eq!(mistakes(&document(meant)), [""; 0], "{}", mistake);
            }
        }
    }
}
