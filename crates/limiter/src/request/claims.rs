//! The bearer tokens of a request, for actors and conditions. **The signature is not verified.**
//! The request's [`Source`](super::Source) reads the claims of a token.

use super::Request;

/// The value of a claim, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimValue {
    /// Text, a whole number or a flag.
    One(String),
    /// The elements of a list that are such values.
    List(Vec<String>),
}

impl ClaimValue {
    /// The only value. A list has none, even if it has one element.
    #[must_use]
    pub fn only(self) -> Option<String> {
        match self {
            ClaimValue::One(value) => Some(value),
            ClaimValue::List(_) => None,
        }
    }

    /// The value, or the elements.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        let values = match self {
            ClaimValue::One(value) => std::slice::from_ref(value),
            ClaimValue::List(values) => values,
        };
        values.iter().map(String::as_bytes)
    }
}

/// In bytes. Bounds the work for one token: each dot of the path adds one way to split it.
const MAX_PATH_BYTES: usize = 256;

/// Whether `path` may be the dotted path of a claim: 1 to 256 bytes, in which a backslash stands
/// before a dot within a name, or before a backslash.
#[must_use]
pub fn is_claim_path(path: &str) -> bool {
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'\\' && !matches!(rest.next(), Some(b'.' | b'\\')) {
            return false;
        }
    }
    (1..=MAX_PATH_BYTES).contains(&path.len())
}

/// The claim at a dotted path in a line of `authorization`. `None` if the line has no readable
/// token, or no such claim.
pub(crate) fn claim(request: &Request, authorization: &[u8], path: &str) -> Option<ClaimValue> {
    request.claim(token(authorization)?, path)
}

/// The claims at a dotted path in all tokens that follow `bearer ` anywhere in a line. Takes time
/// linear in the length of the line.
///
/// Envoy joins the lines of `authorization`, and its `jwt_authn` accepts a token behind other text,
/// so a client can pass with a token that [`claim`] does not find.
pub(crate) fn claims<'a>(
    request: &'a Request,
    authorization: &'a [u8],
    path: &'a str,
) -> impl Iterator<Item = ClaimValue> + 'a {
    const SCHEME: &[u8] = b"bearer ";
    let words = authorization.windows(SCHEME.len()).enumerate();
    let is_scheme = |(_, word): &(usize, &[u8])| word.eq_ignore_ascii_case(SCHEME);
    words.filter(is_scheme).filter_map(move |(at, _)| {
        let rest = authorization.get(at.saturating_add(SCHEME.len())..)?;
        let mut runs = rest.split(|byte| !is_of_token(*byte)).filter(|run| !run.is_empty());
        request.claim(runs.next()?, path)
    })
}

/// Whether a byte may stand in a token, possibly as padding.
pub(crate) fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte)
}

/// The token in a line of `authorization` (RFC 6750, section 2.1).
///
/// ```
/// use diana_limiter::request::claims::token;
///
/// assert_eq!(token(b"Bearer e30.e30.c2ln"), Some(&b"e30.e30.c2ln"[..]));
/// assert_eq!(token(b"Basic YW5uOmFubg=="), None);
/// ```
#[must_use]
pub fn token(authorization: &[u8]) -> Option<&[u8]> {
    let mut words = authorization.trim_ascii().splitn(2, |byte| *byte == b' ');
    let is_bearer = words.next()?.eq_ignore_ascii_case(b"bearer");
    words.next().filter(|_| is_bearer).map(<[u8]>::trim_ascii)
}
