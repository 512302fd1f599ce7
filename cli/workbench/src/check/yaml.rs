//! Findings about YAML itself: what a gateway silently drops.

use super::code;
use super::finding::Findings;
use super::place::head;
use crate::source::parts::{Form, Part};
use crate::source::value::{Entry, Value};
use diana_document::quoted;
use std::collections::HashMap;
use std::sync::Arc;

/// Lists whose items are objects. Before an item, users forget the `- `.
const LISTS: [&str; 2] = ["limits", "rules"];

/// Adds a finding for each repeated key, or one for all repeated keys of an item of a list. `line`
/// is the line of a byte of the text.
pub fn dropped_keys(part: &Part, line: &dyn Fn(usize) -> usize, findings: &mut Findings) {
    if let Some(root) = part.value().filter(|_| !part.is_json) {
        let is_manifest = matches!(part.form, Form::Kubernetes(_));
        Repeated { is_manifest, line, findings }.visit(root, false);
    }
}

struct Repeated<'a, 'b> {
    is_manifest: bool,
    line: &'a dyn Fn(usize) -> usize,
    findings: &'a mut Findings<'b>,
}

impl Repeated<'_, '_> {
    /// `is_item` says whether the value is an item of one of [`LISTS`].
    fn visit(&mut self, value: &Value, is_item: bool) {
        let mut last: HashMap<&str, &Entry> = HashMap::new();
        let mut repeated = Vec::new();
        for entry in value.entries() {
            if let Some(earlier) = last.insert(&entry.key, entry) {
                repeated.push((earlier, entry));
            }
        }
        match &repeated[..] {
            [(earlier, entry), _, ..] if is_item => self.run(earlier, entry),
            all => all.iter().for_each(|(earlier, entry)| self.single(earlier, entry)),
        }
        for entry in value.entries() {
            let is_list = LISTS.contains(&entry.key.as_str());
            entry.value.items().iter().for_each(|item| self.visit(item, is_list));
            if entry.value.items().is_empty() {
                self.visit(&entry.value, false);
            }
        }
        value.items().iter().for_each(|item| self.visit(item, false));
    }

    fn single(&mut self, earlier: &Entry, entry: &Entry) {
        let effect = match self.is_manifest {
            true => "`kubectl` refuses the manifest, and other tools drop",
            false => "Envoy drops",
        };
        let (key, line) = (quoted(&entry.key), (self.line)(earlier.key_range.start));
        self.findings.add(
            code::DROPPED_KEY,
            &entry.key_range,
            format!("{key} is given twice: {effect} the value in line {line}"),
            Some("remove one of the two keys, or merge their values"),
        );
    }

    /// Several repeated keys of one item are two items: the second one lacks its `- `.
    fn run(&mut self, earlier: &Entry, entry: &Entry) {
        let (code, effect) = match self.is_manifest {
            true => (code::REPEATED_KEY, "`kubectl` refuses the manifest"),
            false => (code::DROPPED_KEY, "Envoy drops the earlier values"),
        };
        let (key, line) = (quoted(&entry.key), (self.line)(earlier.key_range.start));
        self.findings.add(
            code,
            &entry.key_range,
            format!("{key} and keys after it are given twice, first in line {line}: {effect}"),
            Some(&format!("missing `- `? write `- ` before {key} if a new item of the list begins here")),
        );
    }
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
