//! The host attributes that Envoy gives to a dynamic module, by the paths that proxy-wasm has for
//! them. Their bytes are the same in both.

use crate::abi::{attribute, header_map};
use crate::calls::{METADATA_SOURCES, Reader};
use diana_limiter::policy::Policy;

/// What an attribute is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Number,
    Truth,
}

/// The attributes by their paths. Attributes that a request does not have, such as those of TLS
/// over plain TCP, are absent.
const ATTRIBUTES: &[(&[&str], u32, Kind)] = &[
    (&["request", "path"], attribute::REQUEST_PATH, Kind::Text),
    (&["request", "host"], attribute::REQUEST_HOST, Kind::Text),
    (&["request", "scheme"], attribute::REQUEST_SCHEME, Kind::Text),
    (&["request", "method"], attribute::REQUEST_METHOD, Kind::Text),
    (&["request", "referer"], attribute::REQUEST_REFERER, Kind::Text),
    (&["request", "useragent"], attribute::REQUEST_USER_AGENT, Kind::Text),
    (&["request", "id"], attribute::REQUEST_ID, Kind::Text),
    (&["request", "protocol"], attribute::REQUEST_PROTOCOL, Kind::Text),
    (&["source", "address"], attribute::SOURCE_ADDRESS, Kind::Text),
    (&["source", "port"], attribute::SOURCE_PORT, Kind::Number),
    (&["destination", "address"], attribute::DESTINATION_ADDRESS, Kind::Text),
    (&["destination", "port"], attribute::DESTINATION_PORT, Kind::Number),
    (&["connection", "id"], attribute::CONNECTION_ID, Kind::Number),
    (&["connection", "mtls"], attribute::CONNECTION_MTLS, Kind::Truth),
    (&["connection", "requested_server_name"], attribute::CONNECTION_SERVER_NAME, Kind::Text),
    (&["connection", "tls_version"], attribute::CONNECTION_TLS_VERSION, Kind::Text),
    (&["connection", "subject_peer_certificate"], attribute::CONNECTION_SUBJECT_PEER, Kind::Text),
    (&["connection", "dns_san_peer_certificate"], attribute::CONNECTION_DNS_SAN_PEER, Kind::Text),
    (&["connection", "uri_san_peer_certificate"], attribute::CONNECTION_URI_SAN_PEER, Kind::Text),
    (&["connection", "sha256_peer_certificate_digest"], attribute::CONNECTION_SHA256_PEER, Kind::Text),
    (&["xds", "route_name"], attribute::XDS_ROUTE_NAME, Kind::Text),
];

/// An attribute, a header, metadata, or bytes of another filter.
pub(super) enum Property<'a> {
    Attribute(u32, Kind),
    Header(&'a str),
    /// The path without the query.
    UrlPath,
    /// The query without the `?`.
    Query,
    /// A source, a namespace and a key.
    Metadata(u32, &'a str, &'a str),
    FilterState(&'a str),
}

/// The property of this path.
pub(super) fn find(path: &[Box<str>]) -> Option<Property<'_>> {
    let is = |words: &[&str]| path.iter().map(|step| &**step).eq(words.iter().copied());
    if let Some((_, attribute, kind)) = ATTRIBUTES.iter().find(|(words, ..)| is(words)) {
        return Some(Property::Attribute(*attribute, *kind));
    }
    // Envoy has these two for no module, so they are parts of the path here.
    if is(&["request", "url_path"]) {
        return Some(Property::UrlPath);
    }
    if is(&["request", "query"]) {
        return Some(Property::Query);
    }
    match path {
        [request, headers, name] if **request == *"request" && **headers == *"headers" => {
            Some(Property::Header(name))
        }
        [state, key] if **state == *"filter_state" => Some(Property::FilterState(key)),
        [source @ .., filters, namespace, key] if **filters == *"filter_metadata" => {
            let is = |words: &&[&str]| source.iter().map(|step| &**step).eq(words.iter().copied());
            let (_, source) = METADATA_SOURCES.iter().find(|(words, _)| is(words))?;
            Some(Property::Metadata(*source, namespace, key))
        }
        _ => None,
    }
}

impl Property<'_> {
    /// The value in Envoy's memory. The outer `None`: Envoy lends no such value, see
    /// [`copied`](Property::copied).
    pub(super) fn lent<'v>(&self, reader: Reader) -> Option<Option<&'v [u8]>> {
        match self {
            Property::Attribute(id, Kind::Text) => Some(reader.text(*id)),
            Property::Header(name) => {
                let (value, lines) = reader.header(header_map::REQUEST, name.as_bytes(), 0);
                (lines <= 1).then_some(value)
            }
            Property::FilterState(key) => Some(reader.filter_state(key)),
            Property::UrlPath => Some(split(reader).map(|(path, _)| path)),
            Property::Query => Some(split(reader).map(|(_, query)| query)),
            Property::Attribute(..) | Property::Metadata(..) => None,
        }
    }

    /// The value in the encoding of proxy-wasm.
    pub(super) fn copied(&self, reader: Reader) -> Option<Vec<u8>> {
        match self {
            Property::Attribute(id, Kind::Number) => {
                reader.number(*id).map(|value| value.to_le_bytes().to_vec())
            }
            Property::Attribute(id, Kind::Truth) => reader.truth(*id).map(|value| vec![value.into()]),
            Property::Metadata(source, namespace, key) => reader.metadata(*source, namespace, key),
            // Several lines, joined as proxy-wasm joins them.
            Property::Header(name) => {
                let (_, count) = reader.header(header_map::REQUEST, name.as_bytes(), 0);
                let line = |index| reader.header(header_map::REQUEST, name.as_bytes(), index).0;
                Some((0..count).filter_map(line).collect::<Vec<_>>().join(&b','))
            }
            Property::Attribute(_, Kind::Text)
            | Property::FilterState(_)
            | Property::UrlPath
            | Property::Query => None,
        }
    }
}

/// A copy of the property of this path; `None` also if Envoy has no such property.
pub fn read(reader: Reader, path: &[Box<str>]) -> Option<Vec<u8>> {
    let property = find(path)?;
    property.lent(reader).map_or_else(|| property.copied(reader), |value| value.map(<[u8]>::to_vec))
}

/// The path and the query of a request.
fn split<'v>(reader: Reader) -> Option<(&'v [u8], &'v [u8])> {
    let (target, _) = reader.header(header_map::REQUEST, b":path", 0);
    let mut parts = target?.splitn(2, |byte| *byte == b'?');
    Some((parts.next().unwrap_or_default(), parts.next().unwrap_or_default()))
}

/// The properties of a policy that Envoy gives to no dynamic module, as messages.
pub fn refusals(policy: &Policy) -> impl Iterator<Item = String> {
    let unknown = policy.properties().filter(|path| find(path).is_none());
    unknown.map(|path| {
        let name = path.join(".");
        format!("property `{name}`: Envoy gives a dynamic module no such attribute, load the wasm filter")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_with_an_unknown_property_is_refused_by_name() {
        let policy = |properties: &[&str]| {
            let actor = |(number, path): (usize, &&str)| format!(r#""a{number}": {{"property": {path}}}"#);
            let rule = |number| format!(r#"{{"actor": "a{number}", "rpu": 1, "unit": "second"}}"#);
            let actors = properties.iter().enumerate().map(actor).collect::<Vec<_>>().join(",");
            let rules = (0..properties.len()).map(rule).collect::<Vec<_>>().join(",");
            let limits = format!(r#"[{{"url": "/", "rules": [{rules}]}}]"#);
            let document = format!(r#"{{"actors": {{{actors}}}, "limits": {limits}}}"#);
            diana_config::compile(document.as_bytes()).map_err(|errors| format!("{errors:?}")).unwrap().policy
        };
        let known = [
            r#"["xds", "route_name"]"#,
            r#"["request", "headers", "x-a"]"#,
            r#"["metadata", "filter_metadata", "a", "b"]"#,
            r#"["xds", "route_metadata", "filter_metadata", "a", "b"]"#,
            r#"["filter_state", "a"]"#,
            r#"["connection", "mtls"]"#,
        ];
        assert_eq!(refusals(&policy(&known)).count(), 0);
        let unknown =
            [r#"["xds", "node", "id"]"#, r#"["filter_state"]"#, r#"["a", "filter_metadata", "a", "b"]"#];
        let messages: Vec<String> = refusals(&policy(&unknown)).collect();
        assert_eq!(messages.len(), 3);
        assert!(messages[0].starts_with("property `xds.node.id`: "), "{messages:?}");
    }
}
