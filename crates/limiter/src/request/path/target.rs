//! Finds the path in a request target.

/// The path of a request target, without the query and without the scheme and authority of an
/// absolute target.
pub(super) fn path_of(target: &[u8]) -> &[u8] {
    let path = target.split(|byte| b"?#".contains(byte)).next().unwrap_or_default();
    absolute(path).unwrap_or(path)
}

fn absolute(target: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = target.split_at_checked(target.iter().position(|byte| *byte == b':')?)?;
    let is_scheme = scheme.first()?.is_ascii_alphabetic()
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    let rest = rest.strip_prefix(b"://").filter(|_| is_scheme)?;
    let authority = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    rest.get(authority..)
}
