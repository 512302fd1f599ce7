//! Findings about a configuration of nginx around its documents.

pub mod includes;
mod phases;

use super::code;
use super::finding::Findings;
use super::mistakes::split;
use super::model::{Model, Rule};
use super::place::head;
use crate::source::files::Around;
use crate::source::nginx::{Directive, Word};
use crate::source::recognize::is_of_diana;
use crate::source::value::{Entry, Value};
use diana_config::Configuration;
use diana_document::{fold, quoted};
use diana_filter::{Exports, HostKind, zone_bytes};
use std::collections::HashSet;
use std::ops::Range;

/// What the documents of a configuration of nginx need together in the zone for the counts.
#[derive(Debug, Default)]
pub struct Zone {
    /// Whether the file has a document for nginx.
    pub has_documents: bool,
    bytes: u64,
    /// The same document in two places counts in the same keys.
    known: HashSet<String>,
}

impl Zone {
    /// Adds a document, and findings about settings that Diana does not support in nginx.
    pub fn add(&mut self, value: &Value, configuration: &mut Configuration, findings: &mut Findings) {
        unsupported(&Model::of(value), configuration, findings);
        if self.known.insert(value.to_json()) {
            self.bytes = self.bytes.saturating_add(zone_bytes(&configuration.policy));
        }
    }
}

fn unsupported(model: &Model, configuration: &mut Configuration, findings: &mut Findings) {
    for why in HostKind::Restricted.refusals(configuration, "nginx") {
        let (message, hint) = split(&why);
        let place = refused(model.root, &why).unwrap_or_else(|| head(model.root));
        findings.add(code::NGINX_LACKS, &place, message, hint);
    }
    if configuration.refuse_to_wait() {
        let mut places: Vec<Range<usize>> = model.enforced().filter_map(|(_, rule)| waits(rule)).collect();
        if places.is_empty() {
            places.push(head(model.root));
        }
        for place in places {
            findings.add(
                code::NGINX_WAITS,
                &place,
                "nginx cannot hold requests: Diana refuses a request that would wait",
                Some("write `queue: 0` for `LB`, and leave `max_wait` and `reject_delay` out"),
            );
        }
    }
}

/// The place of a setting that Diana refuses in nginx. The message begins with keys, as in
/// `charge or cost: …`, or has the words of the document in backticks.
fn refused(root: &Value, why: &str) -> Option<Range<usize>> {
    let quoted = why.split('`').nth(1).filter(|_| why.starts_with("the "));
    let (keys, _) = why.split_once(':').unwrap_or((why, ""));
    let keys: Vec<&str> = keys.split(", ").flat_map(|keys| keys.split(" or ")).collect();
    let is_key = |key: &str| match quoted {
        Some(word) => key.eq_ignore_ascii_case(word),
        None => keys.contains(&key),
    };
    first(root, &is_key, &|text| quoted.is_some_and(|word| text.eq_ignore_ascii_case(word)))
}

/// The first key or text that one of the tests wants.
fn first(value: &Value, key: &dyn Fn(&str) -> bool, text: &dyn Fn(&str) -> bool) -> Option<Range<usize>> {
    if value.text().is_some_and(text) {
        return Some(value.range.clone());
    }
    let mut entries = value.entries().iter();
    let of_entry = |entry: &Entry| match key(&entry.key) {
        true => Some(entry.key_range.clone()),
        false => first(&entry.value, key, text),
    };
    entries.find_map(of_entry).or_else(|| value.items().iter().find_map(|item| first(item, key, text)))
}

/// The place of the key that makes requests wait.
fn waits(rule: &Rule) -> Option<Range<usize>> {
    let entry = |key: &str| rule.value.entry(key);
    let holds = |entry: &&Entry| !is_zero(&entry.value);
    if let Some(entry) = entry("reject_delay").or_else(|| entry("max_wait")).filter(holds) {
        return Some(entry.key_range.clone());
    }
    let algorithm = entry("algo")?;
    let is_leaky = algorithm.value.text().is_some_and(|name| matches!(&*fold(name), "lb" | "leaky bucket"));
    let queues = entry("queue").is_none_or(|queue| holds(&queue));
    (is_leaky && queues).then(|| algorithm.value.range.clone())
}

/// Whether a value is `0`, or a span such as `0s`.
fn is_zero(value: &Value) -> bool {
    let number = value.text().map(|text| text.trim_end_matches(|c: char| c.is_ascii_alphabetic()));
    value.whole() == Some(0) || number.is_some_and(|number| number.trim().parse() == Ok(0))
}

/// Adds an error for each directive behind which a `;` is missing.
pub fn missing_ends(directives: &[Directive], findings: &mut Findings) {
    for directive in directives.iter().filter(|directive| directive.lacks_end) {
        if let (Some(first), Some(last)) = (directive.words.first(), directive.words.last()) {
            findings.add(
                code::SYNTAX,
                &(last.range.end.saturating_sub(1)..last.range.end),
                format!("`;` is missing after the directive {}", quoted(&first.text)),
                Some("write `;` here"),
            );
        }
    }
}

/// Adds findings about what is around the documents: the zone that holds their keys, the module's
/// file, and the phases of a request. `around`: the whole file with these directives, if its folder
/// is known.
pub fn surroundings(directives: &[Directive], around: Option<Around>, zone: &Zone, findings: &mut Findings) {
    files(directives, zone.bytes, findings);
    let expanded = around.map(|around| includes::expanded(directives, around));
    phases::surroundings(expanded.as_deref().unwrap_or(directives), findings);
}

fn files(directives: &[Directive], needed: u64, findings: &mut Findings) {
    for directive in directives {
        if let ["module", "diana", path] = directive.texts()[..]
            && let Some(word) = directive.words.get(2)
        {
            module(path, word, findings);
        }
    }
    let named = |name: &str| {
        let is_named =
            |directive: &&Directive| matches!(directive.texts()[..], ["shm_kv", zone, _, ..] if zone == name);
        directives.iter().find(is_named)
    };
    let Some(zone) = named("diana").or_else(|| named("*")) else {
        zone_missing(directives, findings);
        return;
    };
    let (Some(first), Some(size)) = (zone.words.first(), zone.words.get(2)) else {
        return;
    };
    if !zone.words.iter().any(|word| word.text == "eviction=lru") {
        let place = zone.words.iter().find(|word| word.text.starts_with("eviction=")).unwrap_or(first);
        findings.add(
            code::ZONE_EVICTION,
            &place.range,
            "with `eviction=slru`, the default, a worker may crash; with `eviction=none`, requests fail",
            Some("write `eviction=lru`"),
        );
    }
    let kib = needed.div_ceil(1024);
    match bytes(&size.text) {
        Some(bytes) if bytes >= needed => {}
        Some(_) => findings.add(
            code::ZONE_SIZE,
            &size.range,
            format!("the zone is too small: the documents need up to {kib} KiB"),
            Some("enlarge the zone, or write a smaller `local.max_actors`"),
        ),
        None => findings.add(
            code::WRONG_VALUE,
            &size.range,
            format!("{} is not a size", quoted(&size.text)),
            Some("expected bytes such as `64m` or `512k`"),
        ),
    }
}

fn zone_missing(directives: &[Directive], findings: &mut Findings) {
    let block = |name: &str| directives.iter().find(|directive| directive.texts() == [name]);
    let includes = |directive: &Directive| {
        matches!(directive.texts()[..], ["include", _]) && matches!(&*directive.block, "" | "wasm")
    };
    // A file that another one includes lacks the outermost blocks.
    let is_outermost = ["wasm", "events", "http"].into_iter().any(|name| block(name).is_some());
    if !is_outermost || directives.iter().any(includes) {
        return;
    }
    let filter = directives.iter().find(|directive| is_of_diana(directive));
    let place = block("wasm").or_else(|| block("http")).or(filter);
    if let Some(word) = place.and_then(|directive| directive.words.first()) {
        findings.add(
            code::ZONE_MISSING,
            &word.range,
            "the zone for the counts is missing: nginx starts no worker",
            Some("write `shm_kv diana 64m eviction=lru;` in the block `wasm`"),
        );
    }
}

fn module(path: &str, word: &Word, findings: &mut Findings) {
    let name = path.rsplit('/').next().unwrap_or_default();
    // Files of earlier versions lack callbacks, too.
    if name.starts_with("diana") && name.ends_with(".wasm") && name != Exports::All.file() {
        findings.add(
            code::WRONG_FILE,
            &word.range,
            format!("`{name}` is not for nginx, which crashes if a callback is missing"),
            Some(&format!("load `{}`", Exports::All.file())),
        );
    }
}

/// The bytes of a size in nginx's notation, such as `64m`.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}
