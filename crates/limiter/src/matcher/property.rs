//! `property`: a limit's conditions on host attributes: `{xds.route_name: main}`. The key is the
//! path with dots between the steps; a dot within a step is written `\.`. The value is the
//! attribute's raw bytes, and an attribute that the host does not have is absent.

use super::condition::{self, Lines, Lookup, Names};
use super::{ConditionKind, Matcher};
use crate::request::{Part, Parts};
use diana_document::{Node, quoted};

/// The kind `property`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "property", compile };

/// As for the actor `property`.
const MAX_STEPS: usize = 16;

fn compile(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    condition::compile(&node, parts, &Names { key: KIND.key, one: "property", read })
}

fn read(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    let Some(steps) = steps(name) else {
        let expected = format!("expected a path of 1 to {MAX_STEPS} steps, such as `xds.route_name`");
        node.fail(format!("{expected}, found {}", quoted(name)));
        return None;
    };
    Some(Box::new(Lines { part: parts.intern(Part::Property(steps)), trims: false }))
}

/// The steps of a dotted path. A step must not contain NUL, because hosts take a path as one text
/// with a NUL between its steps.
fn steps(path: &str) -> Option<Vec<Box<str>>> {
    let mut steps = vec![String::new()];
    let mut characters = path.chars();
    while let Some(character) = characters.next() {
        let (is_dot, character) = match character {
            '\\' => (false, characters.next().filter(|next| matches!(next, '.' | '\\'))?),
            '\0' => return None,
            other => (other == '.', other),
        };
        if is_dot {
            steps.push(String::new());
        } else {
            steps.last_mut()?.push(character);
        }
    }
    let is_valid = steps.len() <= MAX_STEPS && steps.iter().all(|step| !step.is_empty());
    is_valid.then(|| steps.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{matching, mistakes};

    fn part(path: &[&str]) -> Part {
        Part::Property(path.iter().map(|step| Box::from(*step)).collect())
    }

    #[test]
    fn an_attribute_is_compared_as_the_condition_says() {
        let route = || part(&["xds", "route_name"]);
        let requests = [
            ("main", vec![(route(), "main")]),
            ("mainly", vec![(route(), "mainly")]),
            ("empty", vec![(route(), "")]),
            ("other", vec![(part(&["xds.route_name"]), "main")]),
            ("none", vec![]),
        ];
        for (condition, expected) in [
            (r#""main""#, &["main"][..]),
            (r#"{"prefix": "main"}"#, &["main", "mainly"]),
            (r#"{"regex": "main.*"}"#, &["main", "mainly"]),
            (r#"{"present": true}"#, &["main", "mainly", "empty"]),
            (r#"{"present": false}"#, &["other", "none"]),
        ] {
            let json = format!(r#"{{"xds.route_name": {condition}}}"#);
            assert_eq!(matching(&KIND, &json, &requests), expected, "{condition}");
        }
    }

    #[test]
    fn a_dot_may_belong_to_a_step() {
        let check = |path: &str, expected: Option<&[&str]>| {
            let steps = steps(path);
            let found = steps.as_ref().map(|steps| steps.iter().map(|step| &**step).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), expected, "{path}");
        };
        check("plugin_name", Some(&["plugin_name"]));
        check(
            r"metadata.filter_metadata.envoy\.lb.a\\b",
            Some(&["metadata", "filter_metadata", "envoy.lb", r"a\b"]),
        );
        check(&["a"; 16].join("."), Some(&["a"; 16]));
        check(&["a"; 17].join("."), None);
        for path in ["", ".", "a.", ".a", "a..b", r"a\b", "a\\", "a\0b"] {
            check(path, None);
        }
    }

    #[test]
    fn a_mistake_names_its_place() {
        assert_eq!(
            mistakes(&KIND, "{}"),
            ["no property is listed, leave `property` out to match every request"]
        );
        assert_eq!(
            mistakes(&KIND, r#"{"a..b": "c"}"#),
            ["[\"a..b\"]: expected a path of 1 to 16 steps, such as `xds.route_name`, found `a..b`"]
        );
    }
}
