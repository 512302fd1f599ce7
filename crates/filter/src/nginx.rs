//! nginx with ngx_wasm_module: the variables that hold the parts of a request, because reading all
//! headers crashes the worker at about 100 lines, and the settings that Diana refuses in nginx.

use diana_config::Configuration;
use diana_document::quoted;
use diana_limiter::policy::Policy;
use diana_limiter::request::Part;

/// The path of the property for a part, its words separated by zero bytes; `None` if another
/// property holds the part.
#[must_use]
pub fn variable(part: &Part) -> Option<String> {
    match part {
        // `:path` is decoded and rewritten: an escaped `?` ends it, and `/a/..%2fb` becomes `/b`.
        Part::Path => Some("ngx\0request_uri".into()),
        Part::Method => Some("ngx\0request_method".into()),
        // The host by which nginx routes. If the request line names a host too, the `Host` header
        // may name another one.
        Part::Host => Some("ngx\0host".into()),
        Part::Header(name) => Some(["ngx\0http_", &name.replace('-', "_")].concat()),
        Part::BodySize => Some("ngx\0http_content_length".into()),
        Part::Address | Part::Property(_) => None,
    }
}

/// The declared size of the body. `read` reads a property by its path.
///
/// nginx does not tell the filter whether a request ends with its headers. Over HTTP/1, a request
/// without `Content-Length` and `Transfer-Encoding` has no body (RFC 9112 §6.3). Over HTTP/2 and
/// HTTP/3 the size is then unknown, like that of a tunnel.
pub fn body_size(read: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let is_connect = || read(b"ngx\0request_method").is_some_and(|method| method == b"CONNECT");
    if read(b"ngx\0http_upgrade").is_some() || is_connect() {
        return None;
    }
    let declared = variable(&Part::BodySize).and_then(|variable| read(variable.as_bytes()));
    let is_empty = || {
        let is_http_1 = read(b"ngx\0server_protocol").is_some_and(|version| version.starts_with(b"HTTP/1."));
        is_http_1 && read(b"ngx\0http_transfer_encoding").is_none()
    };
    declared.or_else(|| is_empty().then(|| b"0".to_vec()))
}

/// The separator that nginx puts between the lines of a header with this name.
#[must_use]
pub fn separator(name: &str) -> [u8; 2] {
    if name == "cookie" { *b"; " } else { *b", " }
}

/// The settings of a configuration that Diana does not support in nginx, as messages; empty if
/// nginx accepts all of them.
#[must_use]
pub fn refusals(configuration: &Configuration) -> Vec<String> {
    let Configuration { policy, store, remote, inspect, .. } = configuration;
    let mut refusals: Vec<String> = unreadable(policy).chain(never_found(policy)).collect();
    if store.is_some() {
        refusals.push("store: this host cannot hold requests while a store is asked".into());
    }
    if remote.is_some() {
        refusals.push("remote: this host's timer cannot be set to the times of polls".into());
    }
    if inspect.as_ref().is_some_and(|inspect| inspect.top) {
        refusals.push("inspect.top: this host has no timer that could add the counts of all workers".into());
    }
    if policy.measures().any() {
        refusals.push(
            "charge, refund, cost or adapt: the filter does not measure responses and bodies in nginx".into(),
        );
    }
    refusals
}

/// How many bytes a zone needs for all counts of a policy. nginx keeps about 120 bytes beside each
/// value. It rounds up to a power of two or to whole pages, at most to twice as much.
#[must_use]
pub fn zone_bytes(policy: &Policy) -> u64 {
    let (keys, bytes) = policy.footprint();
    bytes.saturating_mul(2).saturating_add(keys.saturating_mul(256))
}

/// Headers for which nginx has no variable, or a variable that another header may fill as well.
fn unreadable(policy: &Policy) -> impl Iterator<Item = String> {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    policy.headers().filter(move |name| !is_plain(name)).map(|name| {
        format!(
            "the header `{name}` cannot be read in nginx, which has variables only for names of letters, digits and `-`: \
             rename the header"
        )
    })
}

/// Values that contain a separator. A request with such a value lacks the actor, because the value
/// may be two lines.
fn never_found(policy: &Policy) -> impl Iterator<Item = String> {
    let has_separator = |(name, value): &(&str, &[u8])| {
        let separator = separator(name);
        value.windows(separator.len()).any(|window| window == separator)
    };
    policy.header_values().filter(has_separator).map(|(name, value)| {
        let value = quoted(&String::from_utf8_lossy(value));
        format!("the value {value} of the header `{name}` is never found in nginx, which joins lines with the same separator")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> Vec<String> {
        refusals(&diana_config::compile(json.as_bytes()).unwrap())
    }

    #[test]
    fn a_body_has_a_declared_size_or_none_or_an_unknown_one() {
        let size = |variables: &[(&str, &str)]| {
            let read = |path: &[u8]| {
                let name = path.strip_prefix(b"ngx\0").unwrap();
                let (_, value) = variables.iter().find(|(known, _)| known.as_bytes() == name)?;
                Some(value.as_bytes().to_vec())
            };
            body_size(read).map(|size| String::from_utf8(size).unwrap())
        };
        let (http_1, http_2) = (("server_protocol", "HTTP/1.1"), ("server_protocol", "HTTP/2.0"));
        let (length, chunked) = (("http_content_length", "7"), ("http_transfer_encoding", "chunked"));
        assert_eq!(size(&[http_1, length]).as_deref(), Some("7"));
        assert_eq!(size(&[http_2, length]).as_deref(), Some("7"));
        assert_eq!(size(&[http_1]).as_deref(), Some("0"));
        assert_eq!(size(&[("server_protocol", "HTTP/1.0")]).as_deref(), Some("0"));
        assert_eq!(size(&[http_1, chunked]), None);
        assert_eq!(size(&[http_2]), None);
        assert_eq!(size(&[]), None);
        for tunnel in [("http_upgrade", "websocket"), ("request_method", "CONNECT")] {
            assert_eq!(size(&[http_1, tunnel]), None);
            assert_eq!(size(&[http_1, ("http_content_length", "0"), tunnel]), None);
        }
        assert_eq!(size(&[http_1, length, ("request_method", "POST")]).as_deref(), Some("7"));
    }

    #[test]
    fn a_header_without_a_variable_of_its_own_is_refused() {
        let limit = |headers: &str| format!(r#"{{"url": "/", "headers": {headers}, "exclusive": true}}"#);
        assert_eq!(refused(&limit(r#"{"X-Plan-2": "a"}"#)), [""; 0]);
        for name in ["x_plan", "x.plan", "x!", "x-plan_2"] {
            let found = refused(&limit(&format!(r#"{{"{name}": "a"}}"#)));
            assert!(found.len() == 1 && found[0].starts_with(&format!("the header `{name}` ")), "{found:?}");
        }
        let actor = r#"{"limits": [], "actors": {"a": {"header": "x_a"}}, "deny": [{"a": "1"}], "ip": {"trusted_hops": 1, "header": "x_b"}}"#;
        assert_eq!(refused(actor).len(), 2);
    }

    #[test]
    fn a_value_that_is_never_found_is_refused() {
        let rule = |value: &str| {
            format!(
                r#"{{"limits": [{{"url": "/", "rules": [
                    {{"actor": "user", "rpu": 9, "unit": "day", "overrides": {{"{value}": {{"rpu": 1}}}}}}]}}],
                    "deny": [{{"device": "{value}"}}, {{"session": "{value}"}}], "allow": [{{"user": "{value}"}}],
                    "actors": {{"session": {{"cookie": "s"}}}}}}"#
            )
        };
        assert_eq!(refused(&rule("Doe,Ann")), [""; 0]);
        let found = refused(&rule("Doe, Ann"));
        assert_eq!(found.len(), 3, "{found:?}");
        let of = |header: &str| {
            let words = format!("the value `Doe, Ann` of the header `{header}` is never found in nginx");
            found.iter().filter(|why| why.starts_with(&words)).count()
        };
        assert_eq!((of("x-user-id"), of("x-device-id")), (2, 1), "{found:?}");
    }

    #[test]
    fn a_store_and_a_server_of_documents_are_refused() {
        let found = refused(
            r#"{"limits": [], "remote": {"cluster": "c", "path": "/"},
                "store": {"redis": {"cluster": "c", "secret": "0123456789abcdef"}}}"#,
        );
        assert!(found[0].starts_with("store: ") && found[1].starts_with("remote: "), "{found:?}");
        assert_eq!(found.len(), 2);
    }
}
