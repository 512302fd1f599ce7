//! Findings about YAML itself: what a gateway silently drops.

use super::code;
use super::finding::Findings;
use super::place::head;
use crate::source::parts::{Form, Part};
use crate::source::value::{Entry, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Adds a warning for each repeated key. `line` is the line of a byte of the text.
pub fn dropped_keys(part: &Part, line: &dyn Fn(usize) -> usize, findings: &mut Findings) {
    if let Some(root) = part.value().filter(|_| !part.is_json) {
        let effect = match part.form {
            Form::Kubernetes(_) => "`kubectl` refuses the manifest, and other tools drop",
            _ => "Envoy drops",
        };
        visit(root, effect, line, findings);
    }
}

fn visit(value: &Value, effect: &str, line: &dyn Fn(usize) -> usize, findings: &mut Findings) {
    let mut first: HashMap<&str, &Entry> = HashMap::new();
    for entry in value.entries() {
        if let Some(earlier) = first.insert(&entry.key, entry) {
            let line = line(earlier.key_range.start);
            let key = diana_document::quoted(&entry.key);
            findings.add(
                code::DROPPED_KEY,
                &entry.key_range,
                format!("{key} is given twice: {effect} the value in line {line}"),
                Some("remove one of the two keys, or merge their values"),
            );
        }
        visit(&entry.value, effect, line, findings);
    }
    value.items().iter().for_each(|item| visit(item, effect, line, findings));
}

/// Adds a warning if Envoy does not read this text, because another YAML document precedes this
/// document in the same file.
pub fn ignored_document(part: &Part, earlier: Option<&Part>, findings: &mut Findings) {
    let is_after = earlier.is_some_and(|earlier| {
        Arc::ptr_eq(&earlier.content.text, &part.content.text) && matches!(earlier.form, Form::Envoy(_))
    });
    if let (Form::Envoy(root), true) = (&part.form, is_after) {
        findings.add(
            code::IGNORED_DOCUMENT,
            &head(root),
            "Envoy reads only the first YAML document of a file",
            Some("remove the `---` above, or move this document to a file of its own"),
        );
    }
}
