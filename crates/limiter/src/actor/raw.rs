//! The bytes of a request that decide an actor's value, before they are read as a value.

/// The bytes that decide the value of an actor. Two requests with the same raw value have the same
/// value, or both lack the actor. So a worker that has read one of them need not read the other.
///
/// ```
/// # use diana_limiter::actor::{Actors, Scope, ip::ClientIp};
/// use diana_limiter::actor::Raw;
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// # let mut parts = Parts::default();
/// # let ip = ClientIp::compile(None, &mut parts);
/// # let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
/// // Connections of one client differ in their ports.
/// for sent in ["192.0.2.7", "192.0.2.7:80", "192.0.2.7:41022"] {
///     let values = Values::default().with(Part::Address, sent);
///     let request = Request::new(&values, &parts);
///     assert_eq!(address.actor().raw(&request), Raw::Value(b"192.0.2.7"));
/// }
/// let nobody = Values::default();
/// assert_eq!(address.actor().raw(&Request::new(&nobody, &parts)), Raw::Missing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw<'r> {
    /// These bytes decide the value.
    Value(&'r [u8]),
    /// The request lacks the actor.
    Missing,
    /// More than a few bytes decide the value.
    Unknown,
}

impl<'r> Raw<'r> {
    /// A value that is read as it is. An empty value counts as missing.
    pub(super) fn of(value: Option<&'r [u8]>) -> Raw<'r> {
        value.filter(|value| !value.is_empty()).map_or(Raw::Missing, Raw::Value)
    }
}

#[cfg(test)]
mod tests {
    use crate::actor::testing::{raw, value};
    use crate::request::{Part, Values};
    use proptest::prelude::*;

    /// A request of few values, so that two requests often agree.
    fn request() -> impl Strategy<Value = Values> {
        let line = "a|b| a|A|1\\.2\\.3\\.4(:[12])?|\\[::1\\](:[12])?|";
        let parts = [Part::Address, Part::Method, Part::Host, Part::Path, Part::Header("a".into())];
        let more =
            [Part::Header("a".into()), Part::Header("cookie".into()), Part::Property(vec!["a".into()])];
        let parts: Vec<Part> = parts.into_iter().chain(more).collect();
        prop::collection::vec(prop::option::of(line), parts.len()).prop_map(move |lines| {
            let lines = parts.iter().zip(lines).filter_map(|(part, line)| Some((part.clone(), line?)));
            lines.fold(Values::default(), |values, (part, line)| values.with(part, line))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn equal_raw_values_are_equal_values(one in request(), other in request()) {
            for definition in [
                r#"{"header": "a"}"#, r#"{"cookie": "a"}"#, r#"{"query": "a"}"#, r#"{"jwt": "a.b"}"#,
                r#"{"property": "a"}"#, r#"{"ip": {}}"#, r#"{"ip": {"v4_prefix": 8}}"#, r#"{"method": {}}"#,
                r#"{"host": {}}"#, r#"{"path": 1}"#, r#"{"segment": "a"}"#,
            ] {
                let (raw_value, value_of_one) = (raw(definition, &one), value(definition, one.clone()));
                if raw_value == Some(None) {
                    prop_assert_eq!(&value_of_one, &None, "{}", definition);
                }
                if raw_value.is_some() && raw_value == raw(definition, &other) {
                    prop_assert_eq!(value_of_one, value(definition, other.clone()), "{}", definition);
                }
            }
        }
    }

    #[test]
    fn the_usual_kinds_have_raw_values() {
        let request = Values::default().with(Part::Header("a".into()), " ann ").with(Part::Host, "b");
        assert_eq!(raw(r#"{"header": "a"}"#, &request), Some(Some(b"ann".to_vec())));
        assert_eq!(raw(r#"{"host": {}}"#, &request), Some(Some(b"b".to_vec())));
        assert_eq!(raw(r#"{"method": {}}"#, &request), Some(None));
        assert_eq!(raw(r#"{"query": "a"}"#, &request), None);
        let twice = request.with(Part::Header("a".into()), "bob");
        assert_eq!(raw(r#"{"header": "a"}"#, &twice), Some(None), "the lines differ");
    }
}
