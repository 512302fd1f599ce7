//! A document as YAML with comments.

use super::plan::Plan;
use super::target::Kind;
use diana_config::keys::{self, Key};
use serde_json::Value;
use std::collections::BTreeMap;

/// Writes a document at an indentation.
pub struct Yaml {
    /// In spaces.
    pub indent: usize,
}

impl Yaml {
    /// The lines of the document.
    pub fn document(&self, plan: &Plan, document: &Value) -> String {
        let mut lines = Vec::new();
        let get = |key: &str| document.get(key);
        if plan.kind == Kind::Document {
            lines.push(format!("# yaml-language-server: $schema={SCHEMA}"));
        }
        if plan.is_shadow {
            lines.push("# Every rule counts and reports, and no request is refused. Watch the metrics and the access log,".into());
            lines.push("# then remove this line.".into());
            lines.push("mode: shadow".into());
        }
        lines.push("# All limits whose url matches apply: `/x` matches this path and all paths below. A refused request is".into());
        lines.push("# charged to no rule.".into());
        lines.push("limits:".into());
        for limit in get("limits").and_then(Value::as_array).into_iter().flatten() {
            lines.push(format!("  - url: {}", limit.get("url").map(flow).unwrap_or_default()));
            lines.extend(limit.get("methods").map(|methods| format!("    methods: {}", flow(methods))));
            lines.push("    rules:".into());
            let rules = limit.get("rules").and_then(Value::as_array);
            lines.extend(rules.into_iter().flatten().map(|rule| format!("      - {}", self::rule(rule))));
        }
        if let Some(actors) = get("actors").and_then(Value::as_object) {
            lines.push("# The source of each actor's value. Clients can send any header, so a proxy or a filter in front must".into());
            lines.push("# set or verify the value. `ip`, `user` (x-user-id) and `device` (x-device-id) are predefined.".into());
            lines.push("actors:".into());
            lines.extend(actors.iter().map(|(name, source)| format!("  {}: {}", scalar(name), flow(source))));
        }
        if let Some(source) = get("plan") {
            lines.push("# Where a request shows its plan. A proxy or a filter in front must set or verify the value.".into());
            lines.push(format!("plan: {}", flow(source)));
        }
        if let Some(allow) = get("allow") {
            lines.push("# No rule limits these clients.".into());
            lines.push(format!("allow: {}", flow(allow)));
        }
        if let Some(remote) = get("remote") {
            lines.push("# This server's document replaces the limits above, without a restart. Until it answers, they hold.".into());
            lines.push(format!("remote: {}", flow(remote)));
        }
        if let Some(ip) = get("ip") {
            lines.push(format!(
                "# The gateway is behind {} of your own, so the client address is in `x-forwarded-for`.",
                proxies(plan.proxies)
            ));
            lines.push(format!("ip: {}", flow(ip)));
        }
        if let Some(store) = get("store") {
            lines.push("# Counts rules with `scope: global` for all gateways, which need the same secret. `replicas` is the number".into());
            lines.push(
                "# of gateways: while the store is down, each gateway takes its part of each limit.".into(),
            );
            lines.push(format!("store: {}", flow(store)));
        }
        let indent = " ".repeat(self.indent);
        lines.into_iter().map(|line: String| format!("{indent}{line}\n")).collect()
    }
}

/// The schema with which an editor completes keys and finds mistakes.
pub const SCHEMA: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/raw/main/docs/schema/diana.schema.json");

fn proxies(number: u8) -> String {
    if number == 1 { "one proxy".into() } else { format!("{number} proxies") }
}

/// A rule in one line, with the keys in the order of the table of keys.
fn rule(rule: &Value) -> String {
    let entry = |key: Key| Some(format!("{}: {}", key.name, flow(rule.get(key.name)?)));
    let entries: Vec<String> = keys::of_rule().filter_map(entry).collect();
    format!("{{{}}}", entries.join(", "))
}

/// A value in one line.
pub fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{}: {}", scalar(key), flow(value));
            // Sorted, because a map keeps its order only if some crate of the build wants it to.
            let entries: BTreeMap<&String, &Value> = entries.iter().collect();
            format!("{{{}}}", entries.into_iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Text: plain if YAML reads it as this text and nothing else, else in quotes as in JSON.
pub fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_-.".contains(&byte))
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.into() } else { Value::from(text).to_string() }
}
