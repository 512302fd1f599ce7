//! The mistakes for which Diana refuses a document, and the warnings that Diana logs, each at its
//! place.

use super::code::{self, Code};
use super::finding::Findings;
use super::hints;
use super::place::{Places, head};
use crate::source::content::SyntaxError;
use crate::source::documents::{Body, Document, Host};
use crate::source::value::{Kind, Value};
use diana_config::{Configuration, Secret, SecretSource, Source, check_route, compile_route};
use diana_document::{Error, fold};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// What Diana makes of a document.
pub enum Compiled {
    /// A configuration.
    Whole(Box<Configuration>),
    /// A route's document, which needs the listener's document.
    Route,
    /// No configuration, because the document has these mistakes; none if the document cannot be
    /// read.
    Wrong(Vec<Error>),
}

/// Compiles a document, and adds all mistakes. `listener` is the document that a route's document
/// overlays, if the file has one. If keys are misspelt, also returns the document with the right
/// keys, which is the one that was compiled. `line` is the line of a range of the document.
pub fn compile(
    document: &Document,
    listener: Option<&[u8]>,
    line: &Line,
    findings: &mut Findings,
) -> (Compiled, Option<Value>) {
    let value = match &document.body {
        Body::Absent(range, why) => {
            let (message, hint) = split(why);
            findings.add(code::NO_CONFIGURATION, range, message, hint);
            return (Compiled::Wrong(Vec::new()), None);
        }
        Body::Text(_, Err(SyntaxError { at, why })) => {
            let (message, hint) = split(why);
            findings.add(code::SYNTAX, &(*at..at.saturating_add(1)), message, hint);
            return (Compiled::Wrong(Vec::new()), None);
        }
        Body::Text(_, Ok(value)) => value,
        Body::Structure(value) => value,
    };
    let errors = match compiled(document.host, &document.json(), listener) {
        Ok(compiled) => return (compiled, None),
        Err(errors) => errors,
    };
    if is_foreign(document, value, &errors) {
        let message = "no Diana document: none of the keys is one of Diana's";
        findings.add(code::NO_CONFIGURATION, &head(value), message, Some(NO_DOCUMENT));
        return (Compiled::Wrong(errors), None);
    }
    let adds = |error: &Error, places: &Places, findings: &mut Findings| {
        add(error, document, places, line, findings);
    };
    as_if_spelt_right(document, value, errors, listener, &adds, findings)
}

/// The line of a range.
type Line<'a> = dyn Fn(&Range<usize>) -> usize + 'a;

/// Adds all mistakes. What a misspelt key holds is compiled as if the key were spelt right, so that
/// its own mistakes are found in the same run.
fn as_if_spelt_right(
    document: &Document,
    value: &Value,
    mut errors: Vec<Error>,
    listener: Option<&[u8]>,
    add: &dyn Fn(&Error, &Places, &mut Findings),
    findings: &mut Findings,
) -> (Compiled, Option<Value>) {
    let (mut keys, mut spelt) = (Keys::new(), None);
    loop {
        let value = spelt.as_ref().unwrap_or(value);
        let places = Places::new(value, takes_first(document));
        let known = keys.len();
        errors.retain(|error| {
            let is_misspelt = misspelt(error, &places, &mut keys);
            if is_misspelt {
                add(error, &places, findings);
            }
            !is_misspelt
        });
        if keys.len() == known {
            errors.iter().for_each(|error| add(error, &places, findings));
            return (Compiled::Wrong(errors), spelt);
        }
        let mut right = value.clone();
        rename(&mut right, &keys);
        match compiled(document.host, &json(document, &right, &keys), listener) {
            Ok(compiled) => return (compiled, Some(right)),
            Err(others) => (errors, spelt) = (others, Some(right)),
        }
    }
}

/// Adds a finding about a mistake.
fn add(error: &Error, document: &Document, places: &Places, line: &Line, findings: &mut Findings) {
    let (message, hint) = split(&error.why);
    let at = places.at(&error.path).0;
    let is_bare = !takes_first(document) && at.quote.is_none();
    let parent = error.path.rfind(['.', '[']).and_then(|end| error.path.get(..end)).unwrap_or_default();
    let advice = hints::advice(error, at, places.at(parent).0, is_bare);
    let (better, advice) = advice.map_or((None, None), |advice| (advice.message, Some(advice.hint)));
    let hint = advice.or_else(|| synonym(error, at, hint)).or_else(|| hint.map(Into::into));
    let message = match better {
        Some(better) => better,
        None if message.starts_with(NAME_TAKEN)
            && let Some(first) = first_of_name(places, at.text()) =>
        {
            let rest = message.strip_prefix(NAME_TAKEN).unwrap_or_default();
            format!("the rule in line {} has{rest}", line(&first))
        }
        None => message.into(),
    };
    findings.add(code_of(error), &places.of(error), message, hint.as_deref());
}

/// How the message about a name that two rules have begins.
const NAME_TAKEN: &str = "another rule has";

/// Where the first rule of this name has it.
fn first_of_name(places: &Places, name: Option<&str>) -> Option<Range<usize>> {
    let root = places.root();
    let limits = root.get("limits").unwrap_or(root);
    let limits = if limits.items().is_empty() { std::slice::from_ref(limits) } else { limits.items() };
    let rules = limits.iter().filter_map(|limit| limit.get("rules")).flat_map(Value::items);
    let mut names = rules.filter_map(|rule| rule.get("name"));
    names.find(|given| given.text() == name).map(|given| given.range.clone())
}

/// Misspelt keys by their places in the text, and the keys that they mean.
type Keys = BTreeMap<usize, (Range<usize>, String)>;

/// Adds the key of a mistake to `keys` if the key certainly misspells another one: that key is
/// near, and the object lacks it.
fn misspelt(error: &Error, places: &Places, keys: &mut Keys) -> bool {
    let (Some(key), Some((_, meant))) = (&error.key, error.why.split_once(", did you mean `")) else {
        return false;
    };
    let meant = meant.trim_end_matches("`?");
    let object = places.at(&error.path).0;
    let means_it = |range: &Range<usize>| keys.get(&range.start).is_some_and(|(_, other)| other == meant);
    let is_free = object.entries().iter().all(|entry| entry.key != meant && !means_it(&entry.key_range));
    let Some(entry) = object.entry(key).filter(|_| is_free) else {
        return false;
    };
    keys.insert(entry.key_range.start, (entry.key_range.clone(), meant.into()));
    true
}

fn rename(value: &mut Value, keys: &Keys) {
    match &mut value.kind {
        Kind::List(items) => items.iter_mut().for_each(|item| rename(item, keys)),
        Kind::Object(entries) => {
            for entry in entries {
                if let Some((_, meant)) = keys.get(&entry.key_range.start) {
                    entry.key = meant.clone();
                }
                rename(&mut entry.value, keys);
            }
        }
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::Plain(_) => {}
    }
}

/// The document with other keys, as Diana would receive it.
fn json(document: &Document, right: &Value, keys: &Keys) -> Vec<u8> {
    if !takes_first(document) {
        return right.to_json().into_bytes();
    }
    // Repeated keys stay repeated.
    let text = document.json();
    let base = if let Body::Structure(value) = &document.body { value.range.start } else { 0 };
    let (mut json, mut done) = (Vec::with_capacity(text.len()), 0usize);
    for (range, meant) in keys.values() {
        let [start, end] = [range.start, range.end].map(|at| at.saturating_sub(base));
        json.extend_from_slice(text.get(done..start).unwrap_or_default());
        json.extend_from_slice(serde_json::Value::from(meant.as_str()).to_string().as_bytes());
        done = end;
    }
    json.extend_from_slice(text.get(done..).unwrap_or_default());
    json
}

/// The hint about a file without a document.
pub const NO_DOCUMENT: &str =
    "write a document with `limits`, an Envoy filter with a document, or `proxy_wasm diana '…'`";

/// Whether a file of its own is of another program: no key is one of Diana's, or resembles one.
fn is_foreign(document: &Document, value: &Value, errors: &[Error]) -> bool {
    let is_foreign = |error: &&Error| {
        error.path.is_empty()
            && error.why.contains(", expected ")
            && synonym(error, value, split(&error.why).1).is_none()
    };
    let foreign: HashSet<&str> =
        errors.iter().filter(is_foreign).filter_map(|error| error.key.as_deref()).collect();
    let entries = value.entries();
    document.host == Host::Any
        && !entries.is_empty()
        && entries.iter().all(|entry| foreign.contains(entry.key.as_str()))
}

/// What Diana makes of a document for this host. The error lists every mistake.
pub fn compiled(host: Host, json: &[u8], listener: Option<&[u8]>) -> Result<Compiled, Vec<Error>> {
    // The secret itself is unknown here: the store counts as down.
    let secret = match SecretSource::of(json) {
        Some(_) if matches!(host, Host::Any | Host::Module) => Secret::Absent,
        _ => Secret::Unsupported,
    };
    match host {
        Host::Route => route(json, listener),
        _ => Source::new(json, &secret).compile().map(|compiled| Compiled::Whole(Box::new(compiled))),
    }
}

fn route(json: &[u8], listener: Option<&[u8]>) -> Result<Compiled, Vec<Error>> {
    let alone = check_route(json)?;
    match (listener, alone) {
        (Some(listener), _) => Ok(Compiled::Whole(Box::new(compile_route(listener, json)?))),
        (None, Some(configuration)) => Ok(Compiled::Whole(Box::new(configuration))),
        (None, None) => Ok(Compiled::Route),
    }
}

/// Whether Diana sees repeated keys, and takes the first.
#[must_use]
pub fn takes_first(document: &Document) -> bool {
    document.part.is_json || matches!(document.body, Body::Text(..))
}

/// The code of a mistake.
#[must_use]
pub fn code_of(error: &Error) -> Code {
    match &error.key {
        Some(_) if error.why.ends_with(TWICE) => code::REPEATED_KEY,
        Some(_) => code::UNKNOWN_KEY,
        None if error.why.ends_with(MISSING) => code::MISSING_KEY,
        None => code::WRONG_VALUE,
    }
}

/// Keys of other programs, each with the key of Diana that means the same.
const SYNONYMS: [(&str, &str); 6] = [
    ("algorithm", "algo"),
    ("interval", "unit"),
    ("path", "url"),
    ("period", "unit"),
    ("requests", "rpu"),
    ("window", "unit"),
];

/// The hint about an unknown key of an object, if the key is too far from any key to be a
/// misspelling.
fn synonym(error: &Error, object: &Value, hint: Option<&str>) -> Option<String> {
    let key = fold(error.key.as_ref()?);
    let (_, meant) = SYNONYMS.iter().find(|(synonym, _)| *synonym == key)?;
    let expected = hint?.strip_prefix("expected ")?;
    let is_expected = expected.split([',', ' ']).any(|word| word == *meant);
    (is_expected && object.get(meant).is_none()).then(|| format!("did you mean `{meant}`?"))
}

const TWICE: &str = "is given twice";
const MISSING: &str = "is missing";

/// The texts at which the hint begins in a message of Diana.
const HINTS: [&str; 10] = [
    ", did you mean ",
    ", expected ",
    ", leave ",
    ", put it in quotes",
    ", it belongs ",
    ", there is nothing ",
    ", write ",
    ": write ",
    ": rename ",
    "; ",
];

/// The mistake and the hint in a message.
#[must_use]
pub fn split(why: &str) -> (&str, Option<&str>) {
    let at = HINTS.iter().filter_map(|hint| why.find(hint)).min();
    match at.and_then(|at| why.split_at_checked(at)) {
        Some((message, hint)) => (message, Some(hint.trim_start_matches([',', ':', ';', ' ']))),
        None => (why, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::json;

    #[test]
    fn a_key_of_another_program_has_a_hint() {
        let hint = |key: &str, object: &str| {
            let error = Error { path: String::new(), why: String::new(), key: Some(key.into()) };
            synonym(&error, &json::value(object).unwrap(), Some("expected rpu, unit or algo"))
        };
        assert_eq!(hint("algorithm", "{}").as_deref(), Some("did you mean `algo`?"));
        assert_eq!(hint("Window", "{}").as_deref(), Some("did you mean `unit`?"));
        assert_eq!(hint("window", r#"{"unit": "day"}"#), None, "the key is there already");
        assert_eq!(hint("path", "{}"), None, "a rule has no `url`");
        assert_eq!(hint("colour", "{}"), None);
    }

    #[test]
    fn a_message_is_split_before_its_hint() {
        assert_eq!(
            split("unknown key `ulr`, did you mean `url`?"),
            ("unknown key `ulr`", Some("did you mean `url`?"))
        );
        assert_eq!(
            split(
                "unknown unit `secnd`, expected second, minute, hour, day, week, month, year or a span such as `30s`"
            ),
            (
                "unknown unit `secnd`",
                Some("expected second, minute, hour, day, week, month, year or a span such as `30s`")
            )
        );
        assert_eq!(split("`url` is missing"), ("`url` is missing", None));
        assert_eq!(split("a `x, expected y`"), ("a `x", Some("expected y`")), "no harm");
    }
}
