//! The bearer tokens of a request, for actors and conditions. **The signature is not verified.**
//! The request's [`Source`](super::Source) reads the claims of a token.

use super::Request;

/// In bytes. Bounds the work for one token: each dot of the path adds one way to split it.
const MAX_PATH_BYTES: usize = 256;

/// Whether `path` may be the dotted path of a claim: 1 to 256 bytes.
pub(crate) fn is_claim_path(path: &str) -> bool {
    (1..=MAX_PATH_BYTES).contains(&path.len())
}

/// The claim at a dotted path in a line of `authorization`, as text. `None` if the line has no
/// readable token, or if the claim is no text, whole number or flag.
pub(crate) fn claim(request: &Request, authorization: &[u8], path: &str) -> Option<String> {
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
) -> impl Iterator<Item = String> + 'a {
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
