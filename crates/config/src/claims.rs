//! The claims of a bearer token, and their paths in a document.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use diana_document::{Node, Value, quoted};
use diana_limiter::request::claims::{ClaimValue, is_claim_path};

/// RFC 7515, section 2 forbids padding, but some issuers write it.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The claim of a token at a dotted path: for [`Source::claim`]. `None` if the token is not
/// readable, or if the claim is no text, whole number or flag, and no list. **The signature is not
/// verified.**
///
/// ```
/// // {"sub":"alice"}
/// let token = b"e30.eyJzdWIiOiJhbGljZSJ9.c2ln";
/// let claim = diana_config::claim(token, "sub").and_then(|value| value.only());
/// assert_eq!(claim.as_deref(), Some("alice"));
/// assert_eq!(diana_config::claim(token, "plan"), None);
/// ```
///
/// [`Source::claim`]: diana_limiter::request::Source::claim
#[must_use]
pub fn claim(token: &[u8], path: &str) -> Option<ClaimValue> {
    match find(&payload(token)?, path)? {
        Value::List(elements) => Some(ClaimValue::List(elements.iter().filter_map(text).collect())),
        value => text(value).map(ClaimValue::One),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
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
        let mut found = entries.iter().filter(|(name, _)| is_written(name, key));
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
        let escapes = key.bytes().rev().take_while(|byte| *byte == b'\\').count();
        escapes.is_multiple_of(2).then_some((key, rest.strip_prefix('.')))
    });
    std::iter::once((path, None)).chain(at_dots)
}

/// Whether a part of a path is this name, with a backslash before some dots and each backslash.
fn is_written(name: &str, part: &str) -> bool {
    let mut written = part.chars();
    let unescaped = std::iter::from_fn(|| match written.next()? {
        '\\' => written.next(),
        character => Some(character),
    });
    name.chars().eq(unescaped)
}

/// Checks the dotted path of a claim. A mistake is reported at `node`.
pub(super) fn claim_path<'p>(path: &'p str, node: &Node) -> Option<&'p str> {
    if is_claim_path(path) {
        return Some(path);
    }
    let escapes = if path.contains('\\') {
        ", with `\\.` for a dot within a name and `\\\\` for a backslash"
    } else {
        ""
    };
    node.fail(format!("expected a claim's dotted path of 1 to 256 bytes{escapes}, found {}", quoted(path)));
    None
}
