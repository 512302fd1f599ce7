//! The claims of a bearer token, and their paths in a document.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use diana_document::{Node, Value, quoted};

/// RFC 7515, section 2 forbids padding, but some issuers write it.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The claim of a token at a dotted path, as text: for [`Source::claim`]. `None` if the token is
/// not readable, or if the claim is no text, whole number or flag. **The signature is not
/// verified.**
///
/// ```
/// // {"sub":"alice"}
/// let token = b"e30.eyJzdWIiOiJhbGljZSJ9.c2ln";
/// assert_eq!(diana_config::claim(token, "sub").as_deref(), Some("alice"));
/// assert_eq!(diana_config::claim(token, "plan"), None);
/// ```
///
/// [`Source::claim`]: diana_limiter::request::Source::claim
#[must_use]
pub fn claim(token: &[u8], path: &str) -> Option<String> {
    match find(&payload(token)?, path)? {
        Value::Text(text) => Some(text.clone()),
        Value::Whole(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The claims of a token in compact form (RFC 7515, section 7.1).
fn payload(token: &[u8]) -> Option<Value> {
    let mut pieces = token.split(|byte| *byte == b'.');
    let (Some(_header), Some(payload), Some(_signature), None) =
        (pieces.next(), pieces.next(), pieces.next(), pieces.next())
    else {
        return None;
    };
    diana_document::parse_json(&BASE64URL.decode(payload).ok()?)
}

/// The value at `path`. Each level follows the longest key that is a prefix of the path; the whole
/// path is tried first, so that `https://example.com/plan` and `https://example.com/claims.tenant`
/// are both found.
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

/// In bytes. Bounds the work for one token: each dot of the path adds one way to split it.
const MAX_PATH_BYTES: usize = 256;

/// Checks the dotted path of a claim. A mistake is reported at `node`.
pub(super) fn claim_path<'p>(path: &'p str, node: &Node) -> Option<&'p str> {
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        let found = quoted(path);
        node.fail(format!("expected a claim's dotted path of 1 to {MAX_PATH_BYTES} bytes, found {found}"));
        return None;
    }
    Some(path)
}
