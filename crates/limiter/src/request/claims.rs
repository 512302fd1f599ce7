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
    text(token(authorization)?, path)
}

/// The claims at a dotted path in all tokens that follow `bearer ` anywhere in a line. Takes time
/// linear in the length of the line.
///
/// Envoy joins the lines of `authorization`, and its `jwt_authn` accepts a token behind other text.
/// So a client can pass with a token that [`claim`] does not find.
///
/// ```
/// use diana_limiter::request::claims::claims;
///
/// let line = b"x,Bearer e30.eyJzdWIiOiJhbGljZSJ9.c2ln";
/// assert!(claims(line, "sub").eq(["alice"]));
/// ```
pub fn claims<'a>(authorization: &'a [u8], path: &'a str) -> impl Iterator<Item = String> + 'a {
    const SCHEME: &[u8] = b"bearer ";
    let words = authorization.windows(SCHEME.len()).enumerate();
    let is_scheme = |(_, word): &(usize, &[u8])| word.eq_ignore_ascii_case(SCHEME);
    words.filter(is_scheme).filter_map(move |(at, _)| {
        let rest = authorization.get(at.saturating_add(SCHEME.len())..)?;
        let mut runs = rest.split(|byte| !is_of_token(*byte)).filter(|run| !run.is_empty());
        text(runs.next()?, path)
    })
}

/// Whether a byte may stand in a token, possibly as padding.
pub(crate) fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte)
}

/// The claim as text.
fn text(token: &[u8], path: &str) -> Option<String> {
    match find(&payload(token)?, path)? {
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

/// The token in a line of `authorization` (RFC 6750, section 2.1).
fn token(authorization: &[u8]) -> Option<&[u8]> {
    let mut words = authorization.trim_ascii().splitn(2, |byte| *byte == b' ');
    let is_bearer = words.next()?.eq_ignore_ascii_case(b"bearer");
    words.next().filter(|_| is_bearer).map(<[u8]>::trim_ascii)
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
