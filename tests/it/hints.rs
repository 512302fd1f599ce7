//! The edits that the engine's hints propose are applied: each hint in the corpus, and hints about
//! misspelt keys, types and urls. The mistake is then gone, no other one is there, and a limit
//! matches what it was meant for. The hints of `diana check` have tests beside them.

mod edits;

use super::corpus;
use super::harness::{Gateway, at, get, store};
use diana_config::{compile, compile_over};
use diana_document::Error;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::Outcome;
use diana_limiter::request::{Part, Values};
use diana_testing::shared_data::Simulated;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;

/// Mistakes that another one in the same document hides until it is corrected.
const HIDDEN: [&str; 5] = [
    "a limit needs `rules`",
    "`localhost` is not an address",
    "`secret` is missing",
    "with `warm_up` the cost changes",
    "with an empty list nobody may ask",
];

/// The most hints one after the other until the document has no new mistake.
const MAX_HINTS: usize = 3;

#[test]
fn the_hints_of_the_corpus_lead_to_documents_without_the_mistake() {
    let mut report = String::new();
    for (path, read) in corpus::documents("refuse") {
        let bytes = fs::read(&path).unwrap();
        let document = Document::of(&bytes);
        let found = document.mistakes(read);
        for (index, error) in found.iter().enumerate() {
            let mut others = found.clone();
            others.remove(index);
            if let Err(why) = document.follow(error, &others, read, MAX_HINTS) {
                writeln!(report, "{}: {error}\n{why}", corpus::name(&path)).unwrap();
            }
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// A document of the corpus: JSON, or a text that is none.
enum Document {
    Json(Value),
    Text(String),
}

impl Document {
    fn of(bytes: &[u8]) -> Document {
        let json = serde_json::from_slice(bytes).map(Document::Json);
        json.unwrap_or_else(|_| Document::Text(String::from_utf8_lossy(bytes).into()))
    }

    fn mistakes(&self, read: corpus::Read) -> Vec<Error> {
        let text = match self {
            Document::Json(json) => &json.to_string(),
            Document::Text(text) => text,
        };
        read(text.as_bytes()).err().unwrap_or_default()
    }

    /// The documents that the hints of a mistake lead to.
    fn edited(&self, error: &Error) -> Vec<Value> {
        match self {
            Document::Json(json) => edits::apply(json, error),
            Document::Text(text) => edits::apply(&json!(text), error),
        }
    }

    /// Applies each alternative of a hint, and the hints of the mistakes that appear then. `others`
    /// are the mistakes that have nothing to do with it.
    fn follow(
        &self,
        error: &Error,
        others: &[Error],
        read: corpus::Read,
        hints: usize,
    ) -> Result<(), String> {
        let edited = self.edited(error);
        if edits::proposes(&error.why) && edited.is_empty() {
            return Err("  proposes an edit that is not known here".into());
        }
        let read = if error.why.ends_with(IN_LOCAL) { over_a_store } else { read };
        for edited in edited {
            let edited = Document::Json(edited);
            let left = edited.mistakes(read);
            if error.why.ends_with("quotes") {
                // Only the type was wrong for certain.
                let is_type = |left: &&Error| left.path == error.path && left.why.ends_with("quotes");
                assert_eq!(left.iter().find(is_type), None);
                continue;
            }
            let mut known: Vec<&str> = others.iter().map(|error| about(&error.why)).chain(HIDDEN).collect();
            for new in &left {
                let place = known.iter().position(|why| about(&new.why).starts_with(why));
                if let Some(place) = place {
                    known.remove(place);
                    continue;
                }
                let place = left.iter().position(|error| error == new).unwrap();
                let mut rest = left.clone();
                rest.remove(place);
                if hints == 1 || !edits::proposes(&new.why) {
                    return Err(format!("  leads to: {new}"));
                }
                edited.follow(new, &rest, read, hints - 1)?;
            }
        }
        Ok(())
    }
}

/// The end of a hint about the other document.
const IN_LOCAL: &str = ": add `store` to the local document";

/// Reads a document over the local one of the corpus with a store in it.
fn over_a_store(bytes: &[u8]) -> Result<(), Vec<Error>> {
    let mut local: Value = serde_json::from_slice(include_bytes!("../corpus/over/local.json")).unwrap();
    local["store"] = edits::store();
    compile_over(local.to_string().as_bytes(), bytes).map(drop)
}

/// A message without the words that are allowed, to which an edit may add one.
fn about(why: &str) -> &str {
    why.split_once(", expected").map_or(why, |(about, _)| about)
}

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

#[test]
fn a_value_of_the_wrong_type_has_the_hint_that_makes_it_right() {
    fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                object
                    .iter()
                    .for_each(|(key, value)| leaves(value, &format!("{at}/{}", pointer(key)), found));
            }
            Value::Array(items) => {
                (0..).zip(items).for_each(|(index, item)| leaves(item, &format!("{at}/{index}"), found));
            }
            _ => found.push(at.into()),
        }
    }
    fn pointer(key: &str) -> String {
        key.replace('~', "~0").replace('/', "~1")
    }
    let mut hints = 0;
    let documents = corpus::documents("accept").into_iter();
    for (path, read) in documents.filter(|(path, _)| path.metadata().unwrap().len() < 8_000) {
        let Document::Json(document) = Document::of(&fs::read(&path).unwrap()) else { continue };
        let mut found = Vec::new();
        leaves(&document, "", &mut found);
        for place in found {
            let mut wrong = document.clone();
            let value = wrong.pointer_mut(&place).unwrap();
            *value = match &*value {
                Value::String(text) => match serde_json::from_str(text) {
                    Ok(number @ Value::Number(_)) => number,
                    _ => continue,
                },
                value => json!(value.to_string()),
            };
            let errors = Document::Json(wrong.clone()).mistakes(read);
            for error in errors.iter().filter(|error| error.why.ends_with("quotes")) {
                let [edited] = &edits::apply(&wrong, error)[..] else { panic!("{error}") };
                assert_eq!(*edited, document, "{}: {error}", corpus::name(&path));
                hints += 1;
            }
        }
    }
    assert!(hints > 100, "{hints}");
}

/// A limit that refuses all requests that it matches.
fn limit(url: &str) -> Value {
    json!({"url": url, "rules": [{"rpu": 0, "unit": "day"}]})
}

/// Whether the document refuses a request.
fn refuses(document: &Value, request: &Values) -> bool {
    let host = Simulated::new(CasSemantics::Strict);
    let mut gateway = Gateway::new(&document.to_string(), store(&host));
    matches!(gateway.ask(0, request, at(0)).outcome, Outcome::Reject(_))
}

/// A request for `path` of the host `a.example`.
fn request(path: &str) -> Values {
    let property = ["request", "url_path"].map(Into::into).into();
    get(path, "ann").with(Part::Host, "a.example").with(Part::Property(property), path)
}

/// The documents of all hints about the only mistake of a document. They are accepted.
fn hinted_documents(document: &Value) -> Vec<Value> {
    let errors = compile(document.to_string().as_bytes()).err().unwrap_or_default();
    let [error] = &errors[..] else { panic!("{document}: {errors:?}") };
    let edited = edits::apply(document, error);
    for edited in &edited {
        assert_eq!(mistakes(edited), [""; 0], "{error}\n{edited}");
    }
    assert!(!edited.is_empty(), "{error}");
    edited
}

#[test]
fn a_condition_that_is_left_out_matches_every_request() {
    for (key, value) in [
        ("methods", json!([])),
        ("methods", json!("*")),
        ("hosts", json!([])),
        ("hosts", json!("*")),
        ("headers", json!({})),
        ("headers", json!({"x-user-id": {"prefix": ""}})),
        ("headers", json!({"x-user-id": {"prefix": " "}})),
        ("query", json!({})),
        ("property", json!({})),
        ("property", json!({"request.url_path": {"prefix": ""}})),
        ("jwt", json!({})),
        ("body_size", json!({"min": 0})),
    ] {
        let mut document = limit("/");
        document[key] = value;
        for edited in hinted_documents(&document) {
            assert!(refuses(&edited, &request("/a")), "{edited}");
        }
    }
}

#[test]
fn a_host_or_a_network_has_the_hint_that_makes_it_match() {
    for host in ["https://a.example", "http://a.example/x", "a.example/x", "a.example:443"] {
        let mut document = limit("/");
        document["hosts"] = json!([host]);
        for edited in hinted_documents(&document) {
            assert!(refuses(&edited, &request("/a")), "{edited}");
        }
    }
    for network in ["10.0.0.1/8", "10.0.0.1/31", "::ffff:10.0.0.1/104"] {
        for edited in hinted_documents(&json!({"limits": [], "deny": [network]})) {
            assert!(refuses(&edited, &request("/a")), "{edited}");
        }
    }
    let rule = json!({"actor": "net", "rpu": 9, "unit": "day", "overrides": {"10.0.0.1/24": {"rpu": 0}}});
    let limits = json!([{"url": "/", "rules": [rule]}]);
    for edited in hinted_documents(&json!({"limits": limits, "actors": {"net": {"ip": {"v4_prefix": 24}}}})) {
        assert!(refuses(&edited, &request("/a")), "{edited}");
    }
}

/// A url that has a hint, and a path that it is meant to match. `path` begins with `/`.
fn wrong_urls(path: &str) -> Vec<(String, String)> {
    let (above, last) = path.rsplit_once('/').unwrap();
    let below = &path[1..];
    [
        (below.into(), path.into()),
        (format!("={below}"), path.into()),
        (format!(" {path}"), path.into()),
        (format!("https://a.example{path}"), path.into()),
        (format!("=HTTP://a.example:8080{path}"), path.into()),
        ("https://a.example".into(), path.into()),
        (format!("{path}?a={last}"), path.into()),
        (format!("={path}#{last}"), path.into()),
        (format!("{above}/{last}x/../{last}"), path.into()),
        (format!("={above}/{last}/%2E."), format!("{above}/")),
        (format!("{above}/:id"), path.into()),
        (format!("={above}/:{last}/x"), format!("{path}/x")),
        (format!("={path}/**"), path.into()),
        ("=/**".into(), "/".into()),
        (format!("{path}*"), format!("{path}s")),
        (format!("{above}/*{last}/x"), format!("{above}/x{last}/x")),
        (format!("{above}/{{id}}.{last}"), format!("{above}/7.{last}")),
    ]
    .into()
}

proptest! {
    #[test]
    fn a_url_has_the_hint_that_makes_it_match(path in "(/[a-z][a-z0-9_-]{0,4}){1,3}") {
        for (url, meant) in wrong_urls(&path) {
            for edited in hinted_documents(&limit(&url)) {
                // The character `:` itself may have been meant.
                let of_character = edited["url"].as_str().unwrap().contains("%3A");
                let asked = if of_character { url.trim_start_matches('=') } else { &meant };
                prop_assert!(refuses(&edited, &request(asked)), "{url}: {edited}");
            }
        }
    }

    #[test]
    fn any_url_has_a_hint_that_is_accepted(url in "=?[/a-z0-9*{}%.: ~^?$-]{0,12}|/?[a-z]{60,70}(/:id|[?]a)?") {
        let document = limit(&url);
        prop_assert!(leads_to_no_mistake(&document, 4), "{:?}", mistakes(&document));
    }
}

/// Whether each way of following the hints, at most so many in a row, leads to an accepted document.
fn leads_to_no_mistake(document: &Value, most: usize) -> bool {
    let errors = compile(document.to_string().as_bytes()).err().unwrap_or_default();
    let leads =
        |error| edits::apply(document, error).iter().all(|edited| leads_to_no_mistake(edited, most - 1));
    errors.is_empty() || most > 0 && errors.iter().all(leads)
}
