//! The names of rules in headers, metrics and logs. A name is unique in a configuration.
//!
//! The default name consists of the limit's URL and the rule's index in the limit.

use diana_base::map::{KeyMap, KeySet};
use diana_document::{Node, Value, quoted};
use diana_limiter::policy::{ALLOW, DENY};

const MAX_BYTES: usize = 64;

/// Names that metrics use for the two lists.
const RESERVED: [&str; 2] = [ALLOW, DENY];

/// The names in use.
#[derive(Debug, Default)]
pub(super) struct Names {
    given: KeySet,
    used: KeySet,
    /// By default name: the number that the last rule with this default name got. A search from 2
    /// would be quadratic in the rules with one default name.
    last: KeyMap<u32>,
}

impl Names {
    /// Collects the explicit names in these limits, so that default names avoid them.
    pub(super) fn collect(&mut self, limits: &[Node]) {
        fn entry<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
            let Value::Object(entries) = value else { return None };
            entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
        }
        for limit in limits {
            if let Some(Value::List(rules)) = entry(limit.value(), "rules") {
                for rule in rules {
                    if let Some(Value::Text(name)) = entry(rule, "name") {
                        self.given.add(name.as_bytes());
                    }
                }
            }
        }
    }

    /// Whether the document gives this name to a rule.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.contains(name.as_bytes())
    }

    /// The name of rule `index` of the limit on `url`: the given name, or the default one.
    pub(super) fn name(&mut self, given: Option<Node>, url: &str, index: usize) -> Option<String> {
        let Some(node) = given else {
            return Some(self.derived(url, index));
        };
        let name = node.text()?;
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
        if name.is_empty() || name.len() > MAX_BYTES || !name.bytes().all(allowed) {
            return node.expected(&format!("1 to {MAX_BYTES} of a-z, 0-9, `_` and `-`"));
        }
        if RESERVED.contains(&name) {
            node.fail(format!("{} is reserved for the {name} list, choose another name", quoted(name)));
            return None;
        }
        if !self.used.add(name.as_bytes()) {
            node.fail(format!("another rule has the name {} already", quoted(name)));
            return None;
        }
        Some(name.into())
    }

    fn derived(&mut self, url: &str, index: usize) -> String {
        let plain =
            |c: char| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '-' };
        let words: String = url.chars().take(MAX_BYTES / 2).map(plain).collect();
        let stem = match words.trim_matches('-') {
            "" => "root",
            stem => stem,
        };
        let first = format!("{stem}-{index}");
        let last = self.last.get(first.as_bytes()).copied().unwrap_or(0);
        let mut candidates = (last.saturating_add(1)..).map(|number| match number {
            1 => (number, first.clone()),
            _ => (number, format!("{first}-{number}")),
        });
        let is_free = |(_, name): &(u32, String)| {
            !self.given.contains(name.as_bytes()) && !self.used.contains(name.as_bytes())
        };
        let (number, name) = candidates.find(is_free).unwrap_or((last, first.clone()));
        self.last.insert(first.as_bytes(), number);
        self.used.add(name.as_bytes());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_name_tells_the_url_and_is_unique() {
        let mut names = Names::default();
        names.given.add(b"api-1");
        for (url, index, name) in [
            ("/", 0, "root-0"),
            ("/API/v1", 0, "api-v1-0"),
            ("/users/*/orders", 2, "users---orders-2"),
            ("=/api", 0, "api-0"),
            ("/api", 0, "api-0-2"),
            ("/api", 0, "api-0-3"),
            ("/api", 1, "api-1-2"),
            ("/é\n\"", 0, "root-0-2"),
        ] {
            assert_eq!(names.name(None, url, index).as_deref(), Some(name), "{url}");
        }
    }
}
