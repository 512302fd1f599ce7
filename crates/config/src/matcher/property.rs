//! The reader of `property`: conditions on host attributes, as in `{xds.route_name: main}`. The key
//! is the path with dots between the steps; a dot within a step is written `\.`.

use super::{ConditionKind, Names, named};
use crate::actor::Scope;
use diana_document::{Node, quoted};
use diana_limiter::matcher::{Lines, Lookup, Matcher};
use diana_limiter::request::Parts;

/// The kind `property`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "property", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    named(&node, scope.parts, &Names { key: KIND.key, one: "property", read: property })
}

fn property(name: &str, node: &Node, parts: &mut Parts) -> Option<Box<dyn Lookup>> {
    let Some(lines) = steps(name).and_then(|steps| Lines::property(steps, parts).ok()) else {
        let expected = "expected a path of 1 to 16 steps, such as `xds.route_name`";
        node.fail(format!("{expected}, found {}", quoted(name)));
        return None;
    };
    Some(Box::new(lines))
}

/// The steps of a dotted path.
fn steps(path: &str) -> Option<Vec<Box<str>>> {
    let mut steps = vec![String::new()];
    let mut characters = path.chars();
    while let Some(character) = characters.next() {
        let (is_dot, character) = match character {
            '\\' => (false, characters.next().filter(|next| matches!(next, '.' | '\\'))?),
            other => (other == '.', other),
        };
        if is_dot {
            steps.push(String::new());
        } else {
            steps.last_mut()?.push(character);
        }
    }
    Some(steps.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{matching, mistakes};
    use diana_limiter::request::Part;

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
            let part = steps(path).and_then(Part::property);
            assert_eq!(part, expected.map(self::part), "{path}");
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
