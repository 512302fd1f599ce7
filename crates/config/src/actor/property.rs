//! The reader of `{property: [xds, route_name]}`.

use super::{ActorKind, Scope};
use diana_document::{Node, Value};
use diana_limiter::actor::{Actor, Property};

/// The kind `property`.
pub(super) static KIND: ActorKind = ActorKind { key: "property", read, bare: None };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    Some(Box::new(Property::new(steps(&node)?, scope.parts).ok()?))
}

/// The steps of a path.
pub(in crate::actor) fn steps(node: &Node) -> Option<Vec<Box<str>>> {
    let steps = node.one_or_many();
    if steps.is_empty() || steps.len() > 16 {
        node.fail(format!("expected a list of 1 to 16 texts, found {}", steps.len()));
        return None;
    }
    // Read all steps before returning, so that each mistake is reported.
    let steps: Vec<Option<Box<str>>> = steps.iter().map(step).collect();
    steps.into_iter().collect()
}

/// A step must not contain NUL: hosts take a path as one text with a NUL between its steps.
fn step(node: &Node) -> Option<Box<str>> {
    match node.value() {
        Value::Text(step) if !step.is_empty() && !step.contains('\0') => Some(step.as_str().into()),
        _ => node.expected("a step of a property's path, such as `xds`"),
    }
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

    fn check(definition: &str, path: &[&str], value: &[u8], expected: Option<&[u8]>) {
        let path = path.iter().map(|step| Box::from(*step)).collect();
        let request = Values::default().with(Part::Property(path), value);
        assert_eq!(testing::value(definition, request).as_deref(), expected, "{definition}");
    }

    #[test]
    fn the_bytes_of_the_attribute_count_as_they_are() {
        let route = r#"{"property": ["xds", "route_name"]}"#;
        check(route, &["xds", "route_name"], b" a\0\xff ", Some(b" a\0\xff "));
        check(route, &["xds", "route_name"], b"", None);
        check(route, &["xds.route_name"], b"a", None);
        check(r#"{"property": "plugin_name"}"#, &["plugin_name"], b"a", Some(b"a"));
        check(r#"{"property": "a.b"}"#, &["a.b"], b"a", Some(b"a"));
    }

    #[test]
    fn a_path_has_one_to_sixteen_steps() {
        assert_eq!(
            testing::mistakes(r#"{"property": []}"#),
            ["property: expected a list of 1 to 16 texts, found 0"]
        );
        let steps = |count: usize| format!(r#"{{"property": [{}]}}"#, ["\"a\""; 17][..count].join(","));
        assert_eq!(testing::mistakes(&steps(17)), ["property: expected a list of 1 to 16 texts, found 17"]);
        check(&steps(16), &["a"; 16], b"v", Some(b"v"));
        assert_eq!(
            testing::mistakes(r#"{"property": ["a", 1, ""]}"#),
            [
                "property[1]: expected a step of a property's path, such as `xds`, found `1`",
                "property[2]: expected a step of a property's path, such as `xds`, found ``",
            ]
        );
    }
}
