//! Findings about the labels of metrics.

use super::code;
use super::finding::Findings;
use super::place::head;
use crate::source::documents::{Document, Host};
use crate::source::parts::Form;
use crate::source::value::Value;

/// The labels that Envoy's expressions make of the names of a Wasm filter's metrics.
const LABELS: [&str; 6] = ["rule", "result", "kind", "outcome", "fingerprint", "version"];

/// Adds a finding for the labels that no expression of the bootstrap around the document makes. An
/// Envoy without `admin` and `stats_sinks` shows no metrics.
pub fn tags(document: &Document, root: &Value, findings: &mut Findings) {
    let (Form::Envoy(bootstrap), Host::Wasm) = (&document.part.form, document.host) else { return };
    let shows = |key: &&str| bootstrap.field(key).is_some();
    let (Some(key), true) = (
        ["stats_config", "admin", "stats_sinks"].into_iter().find(shows),
        ["admin", "stats_sinks"].iter().any(&shows) && shows(&"static_resources"),
    ) else {
        return;
    };
    let tags = bootstrap.fields(&["stats_config", "stats_tags"]).map_or(&[][..], Value::items);
    let text = |tag: &'_ Value, field: &str| tag.field(field).and_then(Value::text).map(str::to_owned);
    let is_made = |label: &str| {
        tags.iter().any(|tag| {
            text(tag, "tag_name").as_deref() == Some(label)
                && text(tag, "regex").is_some_and(|regex| regex.contains("diana"))
        })
    };
    let store = root.get("store").map(|_| "store");
    let missing: Vec<String> = LABELS
        .into_iter()
        .chain(store)
        .filter(|label| !is_made(label))
        .map(|label| format!("`{label}`"))
        .collect();
    if !missing.is_empty() {
        let place =
            bootstrap.field_entry(key).map_or_else(|| head(bootstrap), |entry| entry.key_range.clone());
        findings.add(
            code::STATS_TAGS,
            &place,
            format!(
                "no `stats_tags` for {}: Diana's metrics lack these labels, so dashboards and alerts stay silent",
                missing.join(", ")
            ),
            Some("copy the `stats_tags` of the file that `diana init` writes"),
        );
    }
}
