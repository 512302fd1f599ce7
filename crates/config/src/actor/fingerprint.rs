//! The reader of `fingerprint: [{request_json: /params/name}, {request_json: /params/arguments}]`.

use super::{ActorKind, Scope, request_json};
use crate::request_body;
use diana_document::Node;
use diana_limiter::actor::{Actor, Fingerprint};

/// The kind `fingerprint`.
pub(super) static KIND: ActorKind = ActorKind { key: "fingerprint", read, bare: None };

/// The most values of a fingerprint.
const MAX_VALUES: usize = 8;

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let items = node.list()?;
    if items.is_empty() || items.len() > MAX_VALUES {
        node.fail(format!("expected 1 to {MAX_VALUES} values, found {}", items.len()));
        return None;
    }
    // Read all values before returning, so that each mistake is reported.
    let pointers: Vec<Option<&str>> = items.iter().map(|item| pointer(item, scope)).collect();
    let pointers: Vec<&str> = pointers.into_iter().collect::<Option<_>>()?;
    Some(Box::new(Fingerprint::new(&pointers, scope.parts).ok()?))
}

fn pointer<'n>(item: &Node<'n>, scope: &mut Scope) -> Option<&'n str> {
    let mut fields = item.fields()?;
    let pointer = fields.require(request_json::KIND.key);
    fields.finish();
    request_body::fingerprinted(&pointer?, scope.parts)
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

    const CALL: &str = r#"{"fingerprint": [{"request_json": "/name"}, {"request_json": "/arguments"}]}"#;

    #[test]
    fn several_values_count_as_one() {
        let value = |name: Option<&str>, arguments: Option<&str>| {
            let with = |values: Values, pointer, value: Option<&str>| match value {
                Some(value) => values.with(Part::fingerprint(pointer).unwrap(), value),
                None => values,
            };
            let request = with(with(Values::default(), "/name", name), "/arguments", arguments);
            testing::value(CALL, request).map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(value(Some("\u{1}a"), Some("\u{7f}")).as_deref(), Some("7f-0161"));
        assert_eq!(value(Some("a"), None).as_deref(), Some("-61"));
        assert_eq!(value(None, Some("a")).as_deref(), Some("61-"));
        assert_eq!(value(None, None), None);
        // The plain value is another part.
        let plain = Values::default().with(Part::request_json("/name").unwrap(), "a");
        assert_eq!(testing::value(CALL, plain), None);
    }

    #[test]
    fn a_mistake_names_its_place() {
        for (fingerprint, expected) in [
            ("[]", "fingerprint: expected 1 to 8 values, found 0"),
            (r#""/params""#, "fingerprint: expected a list, found `/params`"),
            (r#"["/params"]"#, "fingerprint[0]: expected an object, found `/params`"),
            (r#"[{"header": "x"}]"#, "fingerprint[0]: unknown key `header`, expected request_json"),
            (r#"[{}]"#, "fingerprint[0]: `request_json` is missing"),
        ] {
            let found = testing::mistakes(&format!(r#"{{"fingerprint": {fingerprint}}}"#));
            assert!(found.contains(&expected.into()), "{found:?}");
        }
        let all = [r#"{"request_json": "/a"}"#; 9].join(",");
        let found = testing::mistakes(&format!(r#"{{"fingerprint": [{all}]}}"#));
        assert_eq!(found, ["fingerprint: expected 1 to 8 values, found 9"]);
    }
}
