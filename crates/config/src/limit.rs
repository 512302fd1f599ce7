//! One limit: its URL, its conditions, its rules. Each kind of matcher reads its own key.

use super::actor::Scope;
use super::keys::{RULE_KEYS, TOP_KEYS};
use super::matcher::KINDS;
use super::{pattern, rule};
use diana_document::{Node, Value};
use diana_limiter::policy::LimitDraft;
use diana_response::ResponseOverride;
use std::sync::Arc;

/// Reads a limit. Reports each mistake at its place and then returns `None`.
pub(super) fn compile(node: Node, reader: &mut rule::Reader, scope: &mut Scope) -> Option<LimitDraft> {
    let Value::Object(_) = node.value() else {
        return node.expected("a limit such as `{url: /api, rules: […]}`");
    };
    let mut fields = node.fields()?;
    // `Url` is the spelling of the original design.
    let url = fields.require_either("url", "Url");
    let urls = url.map(|node| pattern::items(&node)).unwrap_or_default();
    let first = pattern::first(&urls);
    let case_sensitive = fields.take("case_sensitive").and_then(|node| node.flag());
    let patterns = pattern::read(&urls, case_sensitive.unwrap_or(reader.case_sensitive));

    let (mut conditions, mut canonical_form, mut complete) = (Vec::new(), String::new(), true);
    for kind in KINDS {
        if let Some(node) = fields.take(kind.key) {
            match (kind.read)(node, scope) {
                Some(condition) => {
                    canonical_form.extend([" | ", &condition.canonical_form(scope.parts)]);
                    conditions.push(condition);
                }
                None => complete = false,
            }
        }
    }
    let response = fields.take("response").and_then(|node| ResponseOverride::compile(&node)).map(Arc::new);
    let exclusive = fields.take("exclusive").and_then(|node| node.flag()).unwrap_or(false);
    let priority = fields.take("priority");
    let high_priority = priority
        .and_then(|node| node.choice("priority", &[("normal", false), ("high", true)]))
        .unwrap_or(false);
    fields.renamed("important", "`priority`: write `priority: high`");
    let nodes = match fields.take("rules") {
        Some(node) => node.list(),
        None => Some(Vec::new()),
    };
    fields.belong(&["mode", "enforce"], "to a rule in `rules`, or at the top beside `limits`");
    fields.belong(TOP_KEYS, "at the top, beside `limits`");
    fields.belong(RULE_KEYS, "to a rule in `rules`");
    let misspelt = ["rules", "exclusive", "priority"].iter().any(|key| fields.misspells(key));
    let misplaced = RULE_KEYS.iter().chain(&["important"]).any(|key| fields.has(key));
    fields.finish();
    let nodes = nodes?;
    if nodes.is_empty() && !exclusive && !high_priority && !misspelt && !misplaced {
        node.fail(
            "a limit needs `rules`, or `exclusive: true` to switch off less specific limits, or `priority: high`",
        );
    }
    let before = reader.responses.len();
    let read = |(index, node)| rule::compile(node, reader, scope, (first, patterns.as_deref()), index);
    let rules: Vec<_> = nodes.into_iter().enumerate().map(read).collect();
    let rules = rules.into_iter().collect::<Option<Vec<_>>>()?;
    for (_, own) in reader.responses.iter_mut().skip(before) {
        own.limit.clone_from(&response);
    }
    complete.then_some(LimitDraft {
        patterns: patterns?,
        conditions,
        canonical_form,
        exclusive,
        high_priority,
        rules,
    })
}
