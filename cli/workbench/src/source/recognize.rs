//! Tells Diana's values and texts from those of other programs.

use super::messages::{MODULE, WASM};
use super::nginx::Directive;
use super::value::{Kind, Value};
use diana_document::nearest;

/// The keys of a limit that other programs hardly use.
const OF_LIMITS: [&str; 2] = ["rules", "exclusive"];

/// Whether a value is a document of Diana, even if the document has mistakes.
#[must_use]
pub fn is_document(value: &Value) -> bool {
    let misspelt = || value.entries().iter().find(|entry| nearest(&entry.key, &["limits"]).is_some());
    match value.get("limits").or_else(|| misspelt().map(|entry| &entry.value)) {
        Some(limits) => match &limits.kind {
            Kind::List(items) => items.is_empty() || items.iter().any(is_of_limits),
            _ => false,
        },
        None => is_limit(value) || value.items().first().is_some_and(is_limit),
    }
}

/// Whether a text that stands under `key` in a Kubernetes manifest is a document of Diana. An empty
/// list of limits says too little, unless the key names Diana.
#[must_use]
pub fn is_embedded_document(key: &str, value: &Value) -> bool {
    let is_empty = value.get("limits").is_some_and(|limits| limits.items().is_empty());
    is_document(value) && (!is_empty || key.contains("diana"))
}

fn is_of_limits(item: &Value) -> bool {
    item.entries().iter().any(|entry| nearest(&entry.key, &OF_LIMITS).is_some())
}

fn is_limit(value: &Value) -> bool {
    (value.get("url").is_some() || value.get("Url").is_some()) && value.get("rules").is_some()
}

/// Whether a directive configures Diana in nginx.
#[must_use]
pub fn is_of_diana(directive: &Directive) -> bool {
    matches!(directive.texts()[..], ["proxy_wasm", "diana", ..])
}

/// Whether a text with a syntax error is a document of Diana, or embeds the filter.
#[must_use]
pub fn is_broken_text_of_diana(text: &str) -> bool {
    let is_of_nginx = |line: &str| line.trim_start().starts_with("proxy_wasm diana ");
    let has_filter = [WASM, MODULE].iter().any(|message| text.contains(message)) && text.contains("diana");
    has_filter || text.lines().any(is_of_nginx) || begins_limits(text)
}

/// Whether a text has a list of limits at its top. The list must not begin as that of another
/// program does.
fn begins_limits(text: &str) -> bool {
    let rest = match text.trim_start().strip_prefix('{') {
        Some(json) => json.split_once("\"limits\"").map(|(_, rest)| rest),
        None => text.strip_prefix("limits").or_else(|| text.split_once("\nlimits").map(|(_, rest)| rest)),
    };
    let list = rest.and_then(|rest| rest.trim_start().strip_prefix(':')).map(str::trim_start);
    let Some(items) = list.and_then(|list| list.strip_prefix(['[', '-'])) else {
        return false;
    };
    let first = items.trim_start_matches(|c: char| c.is_whitespace() || "{[\"'-".contains(c));
    !first.starts_with(char::is_alphanumeric) || OF_LIMITS.iter().any(|key| text.contains(key))
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    #[test]
    fn a_document_has_limits_with_rules() {
        let is_document = |text: &str| is_document(&yaml::documents(text).unwrap()[0]);
        for text in [
            "limits: [{url: /, rules: []}]",
            "limits: [{url: /, rulez: []}]",
            "limits: [{url: =/a, exclusive: true}]",
            "limits: []",
            "limts: [{url: /, rules: []}]",
            "{url: /, rules: []}",
            "[{url: /, rules: []}]",
        ] {
            assert!(is_document(text), "{text}");
        }
        for text in [
            "limits: {cpu: 1}",
            "limits: [{cpu: 1}]",
            "limits: [cpu]",
            "limits: [{url: /, rate: 5}]",
            "[{url: /}]",
            "limits are fine",
        ] {
            assert!(!is_document(text), "{text}");
        }
    }

    #[test]
    fn a_broken_text_of_another_program_is_none_of_diana() {
        for text in [
            "limits: [\n}",
            "mode: x\nlimits:\n  - url: /\n    rules: [",
            "{\"limits\": [{\"url\": \"/\", \"rules\": [}",
            "http {\n  proxy_wasm diana '{\n}",
        ] {
            assert!(is_broken_text_of_diana(text), "{text}");
        }
        for text in [
            "# diana: {",
            "name: diana\nlimits:\n  cpu: [",
            "resources:\n  limits: [",
            "limits: [cpu, memory",
            "limits:\n  - name: cpu\n    max: [",
            "{\"name\": \"diana\", \"limits\": {\"cpu\": }}",
        ] {
            assert!(!is_broken_text_of_diana(text), "{text}");
        }
    }
}
