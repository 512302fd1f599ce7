//! The reader of `ip` at the top: where the client's address is found.

use super::header::header_name;
use diana_document::{Fields, Node};
use diana_limiter::actor::ip::{ClientIp, ClientIpOptions};
use diana_limiter::request::Parts;

/// Reads the policy's `ip` object. Each mistake is reported at its place, and its key left out.
pub fn client_ip(node: Option<Node>, parts: &mut Parts) -> ClientIp {
    let mut options = ClientIpOptions::default();
    let mut name = None;
    if let Some(mut fields) = node.and_then(|node| node.fields()) {
        let hops = fields.take("trusted_hops").map_or(Some(0), |node| node.whole(0..=32));
        let header = fields.take("header").and_then(|node| Some((address_header(&node)?, node)));
        options.trusted_hops = hops.and_then(|hops| usize::try_from(hops).ok()).unwrap_or(0);
        match header {
            Some((header, _)) if options.trusted_hops > 0 => name = Some(header),
            Some((_, node)) if hops == Some(0) => node.fail(
                "no header is read without `trusted_hops`: say how many of its entries, from the right, \
                 proxies of your own have written, or leave `header` out",
            ),
            // No header is configured, or the wrong number has been reported.
            _ => {}
        }
        (options.v4_prefix, options.v6_prefix) =
            prefixes(&mut fields, (options.v4_prefix, options.v6_prefix));
        fields.finish();
    }
    options.header = name.as_deref();
    let known = ClientIp::new(&options, parts);
    debug_assert!(known.is_ok(), "{known:?}");
    known.unwrap_or_else(|_| ClientIp::reported(parts))
}

/// Takes the optional keys `v4_prefix` and `v6_prefix`.
pub(super) fn prefixes(fields: &mut Fields, (v4, v6): (u8, u8)) -> (u8, u8) {
    let mut bits = |key, most| fields.take(key).and_then(|node| node.whole(0..=most)?.try_into().ok());
    (bits("v4_prefix", 32).unwrap_or(v4), bits("v6_prefix", 128).unwrap_or(v6))
}

/// Like [`header_name`], for a header with addresses. Headers in which no address could be read are
/// mistakes, because every client would be counted by the address that the host reports.
fn address_header(node: &Node) -> Option<Box<str>> {
    let name = header_name(node)?;
    match &*name {
        "via" | "x-forwarded-client-cert" | "x-forwarded-host" | "x-forwarded-port" | "x-forwarded-proto" => {
            node.fail(format!("`{name}` has no client address: write `x-forwarded-for`"));
        }
        _ => return Some(name),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_document::{Error, Errors};

    fn options(json: &str, parts: &mut Parts) -> (ClientIp, Vec<String>) {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let options = client_ip(Some(Node::root(&value, &errors)), parts);
        (options, errors.into_vec().iter().map(Error::to_string).collect())
    }

    #[test]
    fn mistakes_in_the_options_are_reported() {
        let json = r#"{"trusted_hop": 1, "header": "x forwarded", "v4_prefix": 33, "v6_prefix": 129}"#;
        assert_eq!(
            options(json, &mut Parts::default()).1,
            [
                "header: `x forwarded` is not a header name, expected letters, digits and marks such as `-` and `_`",
                "v4_prefix: expected a whole number from 0 to 32, found `33`",
                "v6_prefix: expected a whole number from 0 to 128, found `129`",
                "unknown key `trusted_hop`, did you mean `trusted_hops`?",
            ]
        );
        let why = "header: no header is read without `trusted_hops`: say how many of its entries, from the right, \
                   proxies of your own have written, or leave `header` out";
        let hops = "trusted_hops: expected a whole number from 0 to 32, found `33`";
        for (json, mistakes) in [
            (r#"{"header": "x-real-ip"}"#, &[why][..]),
            (r#"{"header": "x-real-ip", "trusted_hops": 0}"#, &[why]),
            (r#"{"header": "x-real-ip", "trusted_hops": 33}"#, &[hops]),
            (r#"{"header": "x-real-ip", "trusted_hops": 1}"#, &[]),
            (r#"{"header": "Forwarded", "trusted_hops": 1}"#, &[]),
            (
                r#"{"header": "via", "trusted_hops": 1}"#,
                &["header: `via` has no client address: write `x-forwarded-for`"],
            ),
            (r#"{"header": 1}"#, &["header: expected text, found `1`, put it in quotes"]),
        ] {
            assert_eq!(options(json, &mut Parts::default()).1, mistakes, "{json}");
        }
    }
}
