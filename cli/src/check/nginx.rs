//! Findings about a configuration of nginx around its documents.

use super::code;
use super::finding::Findings;
use crate::source::nginx::{Directive, Word};
use crate::source::value::Value;
use diana_config::Configuration;
use diana_filter::nginx;

/// Adds findings about settings that Diana does not support in nginx. Returns how many bytes the
/// document needs in a zone.
pub fn document(value: &Value, configuration: &mut Configuration, findings: &mut Findings) -> u64 {
    let place = super::place::head(value);
    for why in nginx::refusals(configuration) {
        let key = why.split(&[':', ','][..]).next().unwrap_or_default();
        let place = value.entry(key).map_or_else(|| place.clone(), |entry| entry.key_range.clone());
        findings.add(code::NGINX_LACKS, &place, why, None);
    }
    if configuration.policy.refuse_to_wait() {
        findings.add(
            code::NGINX_WAITS,
            &place,
            "nginx cannot hold requests: a request that would wait is refused",
            Some("write `queue: 0` for `LB`, and leave `max_wait` and `reject_delay` out"),
        );
    }
    nginx::zone_bytes(&configuration.policy)
}

/// Adds findings about the zone that holds the keys of all documents, and about the module's file.
pub fn surroundings(directives: &[Directive], needed: u64, findings: &mut Findings) {
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
        // The block `wasm` may be in another file, which includes this one.
        let of_wasm =
            |directive: &&Directive| matches!(directive.texts()[..], ["wasm" | "events" | "http", ..]);
        if let Some(word) = directives.iter().find(of_wasm).and_then(|directive| directive.words.first()) {
            findings.add(
                code::ZONE_MISSING,
                &word.range,
                "the zone for the counts is missing: nginx starts no worker",
                Some("write `shm_kv diana 64m eviction=lru;` in the block `wasm`"),
            );
        }
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
            "`slru`, the default, may crash workers, and `none` fails requests",
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
            Some("enlarge the zone, or set a smaller `local: {max_actors: …}`"),
        ),
        None => findings.add(code::WRONG_VALUE, &size.range, format!("`{}` is not a size", size.text), None),
    }
}

fn module(path: &str, word: &Word, findings: &mut Findings) {
    let name = path.rsplit('/').next().unwrap_or_default();
    if matches!(name, "diana.wasm" | "diana-min.wasm" | "diana-lean.wasm" | "diana-settle.wasm") {
        findings.add(
            code::WRONG_FILE,
            &word.range,
            format!("`{name}` refuses every document in nginx, which crashes if a callback is missing"),
            Some("load `diana-nginx.wasm`"),
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
