//! The query of a request target, for actors and conditions.
//!
//! Names and values are decoded like the `application/x-www-form-urlencoded` parser of the WHATWG
//! URL standard (section 5.1).

use super::escape;

/// The decoded values of the parameter `name` in a request target, in order. A parameter without
/// `=` has an empty value. Takes time linear in the length of `target`.
///
/// ```
/// use diana_limiter::request::query::values;
///
/// let found: Vec<Vec<u8>> = values(b"/search?q=a+b&debug&%71=c", b"q").collect();
/// assert_eq!(found, [b"a b".to_vec(), b"c".to_vec()]);
/// assert!(values(b"/search?debug", b"debug").eq([b""]));
/// ```
pub fn values<'a>(target: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
    let before_fragment = target.split(|byte| *byte == b'#').next().unwrap_or_default();
    let query = before_fragment.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default();
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let mut sides = pair.splitn(2, |byte| *byte == b'=');
        let named = decoded(sides.next()?).eq(name.iter().copied());
        named.then(|| decoded(sides.next().unwrap_or_default()).collect())
    })
}

/// `+` is a space and `%41` is `A`. A `%` without two hexadecimal digits after it stands for
/// itself.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (length, byte) = match (escape::leading(rest), rest.first()?) {
            (Some(byte), _) => (escape::LENGTH, byte),
            (None, b'+') => (1, b' '),
            (None, byte) => (1, *byte),
        };
        rest = rest.get(length..)?;
        Some(byte)
    })
}
