//! The claims of a bearer token, for actors and conditions. **The signature is not verified.**

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use diana_document::{Node, Value};

/// RFC 7515, section 2 forbids padding, but some issuers write it.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// In bytes. Bounds the work for one token: each dot of the path adds one way to split it.
const MAX_PATH_BYTES: usize = 256;

/// The claim at a dotted path in a line of `authorization`, as text. `None` if the line has no
/// readable token, or if the claim is no text, whole number or flag.
///
/// ```
/// use diana_limiter::request::claims::claim;
///
/// // {"sub":"alice"}
/// let line = b"Bearer e30.eyJzdWIiOiJhbGljZSJ9.c2ln";
/// assert_eq!(claim(line, "sub").as_deref(), Some("alice"));
/// assert_eq!(claim(line, "plan"), None);
/// ```
#[must_use]
pub fn claim(authorization: &[u8], path: &str) -> Option<String> {
    match find(&payload(authorization)?, path)? {
        Value::Text(text) => Some(text.clone()),
        Value::Whole(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Reads `path` as the dotted path of a claim. Mistakes are reported at `node`.
pub(crate) fn claim_path(path: &str, node: &Node) -> Option<Box<str>> {
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        let found = diana_document::quoted(path);
        node.fail(format!("expected a claim's dotted path of 1 to {MAX_PATH_BYTES} bytes, found {found}"));
        return None;
    }
    Some(path.into())
}

/// The claims of a bearer token (RFC 6750, section 2.1) in compact form (RFC 7515, section 7.1).
fn payload(authorization: &[u8]) -> Option<Value> {
    let mut words = authorization.trim_ascii().splitn(2, |byte| *byte == b' ');
    if !words.next()?.eq_ignore_ascii_case(b"bearer") {
        return None;
    }
    let mut pieces = words.next()?.trim_ascii().split(|byte| *byte == b'.');
    let (Some(_header), Some(payload), Some(_signature), None) =
        (pieces.next(), pieces.next(), pieces.next(), pieces.next())
    else {
        return None;
    };
    diana_document::parse_json(&BASE64URL.decode(payload).ok()?)
}

/// The value at `path`. Each level follows the longest key that is a prefix of the path; the whole
/// path is tried first. So `https://example.com/plan` and `https://example.com/claims.tenant` are
/// both found.
fn find<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let Value::Object(entries) = value else { return None };
    for (key, rest) in splits(path) {
        let mut found = entries.iter().filter(|(name, _)| name == key);
        let Some((_, value)) = found.next() else { continue };
        if found.next().is_some() {
            return None;
        }
        return rest.map_or(Some(value), |rest| find(value, rest));
    }
    None
}

/// Splits `a.b.c` into `a.b.c`, `a.b` + `c`, and `a` + `b.c`, in this order.
fn splits(path: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let at_dots = path.rmatch_indices('.').filter_map(|(dot, _)| {
        let (key, rest) = path.split_at_checked(dot)?;
        Some((key, rest.strip_prefix('.')))
    });
    std::iter::once((path, None)).chain(at_dots)
}
