//! One path in normal form: its characters, their spelling, and their meaning to each kind of
//! backend.

use crate::request::escape;
use std::borrow::Cow;

/// One path in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a>(pub(super) Cow<'a, [u8]>);

impl<'a> Path<'a> {
    /// The segments, in order; `/` has none.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.0.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty())
    }

    /// The whole path; it starts with `/`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path of a request target as RFC 3986 reads it.
    #[cfg(test)]
    pub(super) fn strict(target: &'a [u8]) -> Path<'a> {
        Path::read(path_of(target), STRICT)
    }

    /// A path as a backend with these `flags` reads it. A path that is already normal under RFC
    /// 3986 is borrowed.
    pub(super) fn read(path: &'a [u8], flags: Reading) -> Path<'a> {
        match path {
            b"" => Path(Cow::Borrowed(b"/")),
            _ if flags == STRICT && is_normal(path) => Path(Cow::Borrowed(path)),
            _ => Path(Cow::Owned(normalise(path, flags))),
        }
    }
}

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

/// The normal form of one segment. `None` if no path has the segment: it is empty, a dot segment,
/// or contains `/`, `?` or `#`.
pub fn segment(text: &[u8]) -> Option<Vec<u8>> {
    if text.iter().any(|byte| b"/?#".contains(byte)) {
        return None;
    }
    let path = Path::read(text, STRICT);
    path.segments().next().map(<[u8]>::to_vec)
}

/// Whether one segment is `..` in any spelling.
#[must_use]
pub(crate) fn is_parent(text: &[u8]) -> bool {
    units(text).map(|unit| unit.byte).eq(*b"..")
}

fn is_normal(path: &[u8]) -> bool {
    let is_segment = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
    match path.strip_prefix(b"/") {
        Some(b"") => true,
        Some(rest) => {
            rest.split(|byte| *byte == b'/').all(is_segment) && units(rest).all(|unit| unit.is_normal())
        }
        None => false,
    }
}

fn normalise(path: &[u8], flags: Reading) -> Vec<u8> {
    // Finished segments, each with a slash on both sides, then the current segment.
    let mut out = Vec::with_capacity(path.len().saturating_add(2));
    out.push(b'/');
    let mut dropping = false;
    for unit in after_host(path, flags) {
        if unit.separates(flags) {
            end_segment(&mut out);
            dropping = false;
        } else if dropping || unit.cuts(flags) {
            dropping = true;
        } else {
            unit.write(&mut out);
        }
    }
    end_segment(&mut out);
    if out.len() > 1 {
        out.pop();
    }
    out
}

/// The characters of a path after its leading separators. If `flags` include [`AUTHORITY`], a host
/// after two or more leading separators is skipped too.
fn after_host(path: &[u8], flags: Reading) -> impl Iterator<Item = Unit<'_>> {
    let mut units = units(path).peekable();
    let leading = std::iter::from_fn(|| units.next_if(|unit| unit.separates(flags))).count();
    if leading > 1 && flags & AUTHORITY != 0 {
        while units.next_if(|unit| !unit.separates(flags)).is_some() {}
    }
    units
}

/// Ends the last segment of `out`: resolves a dot segment; adds a slash after any other segment.
///
/// Linear: after the call, every examined byte is either removed or before a slash, so each byte is
/// examined at most twice.
fn end_segment(out: &mut Vec<u8>) {
    let parent = last_segment(out);
    match out.get(parent..).unwrap_or_default() {
        b"" => {}
        b"." => out.truncate(parent),
        b".." => {
            out.truncate(parent.saturating_sub(1));
            let grandparent = last_segment(out);
            out.truncate(grandparent);
            if out.is_empty() {
                out.push(b'/');
            }
        }
        _ => out.push(b'/'),
    }
}

/// The offset of the last segment: after the last slash.
fn last_segment(out: &[u8]) -> usize {
    out.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash.saturating_add(1))
}

/// How a backend answers the four questions of [`Readings`](super::Readings): a set of the flags
/// below.
pub type Reading = u8;
/// As RFC 3986 reads a path: no flag is set.
pub const STRICT: Reading = 0;
/// The backend decodes escapes before it splits the path, so `%2f` separates as `/` does.
pub const DECODES: Reading = 1;
/// `\` separates as `/` does.
pub const BACKSLASH: Reading = 2;
/// The backend drops `;` and the text after it from a segment before it resolves dot segments.
pub const PARAMETERS: Reading = 4;
/// After two or more leading separators, the text up to the next separator is a host.
pub const AUTHORITY: Reading = 8;

/// One character of a path, spelt literally or as an escape.
pub struct Unit<'a> {
    /// The decoded byte.
    pub byte: u8,
    text: &'a [u8],
}

impl Unit<'_> {
    /// Whether the character is written `%xx`.
    pub fn is_escape(&self) -> bool {
        self.text.len() > 1
    }

    /// Whether the character ends a segment for a backend with these `flags`.
    pub fn separates(&self, flags: Reading) -> bool {
        self.counts_for(flags) && (self.byte == b'/' || self.byte == b'\\' && flags & BACKSLASH != 0)
    }

    /// Whether the character ends a segment for some backend.
    pub fn may_separate(&self) -> bool {
        matches!(self.byte, b'/' | b'\\')
    }

    /// Whether the character starts parameters for a backend with these `flags`.
    pub fn cuts(&self, flags: Reading) -> bool {
        self.counts_for(flags) && self.byte == b';' && flags & PARAMETERS != 0
    }

    fn counts_for(&self, flags: Reading) -> bool {
        !self.is_escape() || flags & DECODES != 0
    }

    /// Whether the character is spelt as in a normal path.
    pub fn is_normal(&self) -> bool {
        match self.byte {
            byte if is_plain(byte) => !self.is_escape(),
            b'/' if !self.is_escape() => true,
            _ => self.is_escape() && !self.text.iter().any(u8::is_ascii_lowercase),
        }
    }

    /// Appends the character as it is spelt in a normal path.
    pub fn write(&self, out: &mut Vec<u8>) {
        const HEX: [u8; 16] = *b"0123456789ABCDEF";
        let hex = |digit: u8| HEX.get(usize::from(digit)).copied().unwrap_or(b'0');
        if is_plain(self.byte) {
            out.push(self.byte);
        } else {
            out.extend([b'%', hex(self.byte >> 4), hex(self.byte & 15)]);
        }
    }
}

/// The characters of a path, each escape decoded once.
pub fn units(mut path: &[u8]) -> impl Iterator<Item = Unit<'_>> {
    std::iter::from_fn(move || {
        let (length, byte) = match escape::leading(path) {
            Some(byte) => (escape::LENGTH, byte),
            None => (1, *path.first()?),
        };
        let (text, rest) = path.split_at_checked(length)?;
        path = rest;
        Some(Unit { byte, text })
    })
}

/// Whether a byte may stand literally in a segment: `pchar` of RFC 3986 §3.3 without escapes.
pub fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        String::from_utf8(path.as_bytes().to_vec()).unwrap()
    }

    fn check(cases: &[(&str, &str)]) {
        for (target, expected) in cases {
            assert_eq!(text(&Path::strict(target.as_bytes())), *expected, "{target}");
        }
    }

    #[test]
    fn spellings_of_one_path_have_one_normal_form() {
        check(&[
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b"),
            ("//a///b", "/a/b"),
            ("/./a/././b/.", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a"),
            ("/../../etc", "/etc"),
            ("/a/%2e%2e/b", "/b"),
            ("/a/%2E./b/.%2e/%2e/c", "/c"),
            ("/...", "/..."),
            ("/A/a", "/A/a"),
            ("/%61%7E%7e%2D", "/a~~-"),
            ("/a%3ab%2A", "/a:b*"),
            ("/caf%c3%a9", "/caf%C3%A9"),
            ("/café", "/caf%C3%A9"),
            ("/%252e%252e/%25", "/%252e%252e/%25"),
            ("/%zz/%2/%", "/%25zz/%252/%25"),
            ("/%%34%31", "/%2541"),
            ("/a?b=/../c", "/a"),
            ("/a#/../c", "/a"),
            ("/a%3F%23", "/a%3F%23"),
        ]);
    }

    #[test]
    fn a_target_without_a_leading_slash_stays_below_the_root() {
        check(&[
            ("", "/"),
            ("?q", "/"),
            ("*", "/*"),
            ("..", "/"),
            ("a/b", "/a/b"),
            ("http://example.com/a//b?q", "/a/b"),
            ("HTTP://example.com", "/"),
            ("example.com:443", "/example.com:443"),
            ("1x://h/a", "/1x:/h/a"),
            ("/http://h/a", "/http:/h/a"),
        ]);
    }

    #[test]
    fn a_normal_path_is_not_copied() {
        for target in ["/", "/a/b", "/a%2Fb;c/%20", ""] {
            assert!(matches!(Path::strict(target.as_bytes()).0, Cow::Borrowed(_)), "{target}");
        }
        for target in ["/a/", "//a", "/a/.", "/%2f", "/%61", "/%", "/é", "a"] {
            assert!(matches!(Path::strict(target.as_bytes()).0, Cow::Owned(_)), "{target}");
        }
    }

    #[test]
    fn a_segment_on_its_own_is_normalised_as_in_a_path() {
        let check = |text: &str| segment(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(check("a%3ab").as_deref(), Some("a:b"));
        assert_eq!(check("a%2f b").as_deref(), Some("a%2F%20b"));
        assert_eq!(check("http:").as_deref(), Some("http:"));
        assert!(is_parent(b"..") && is_parent(b"%2E.") && !is_parent(b".") && !is_parent(b"..."));
        for text in ["", ".", "%2e.", "a/b", "/", "a?b", "#"] {
            assert_eq!(check(text), None, "{text}");
        }
    }

    #[test]
    fn a_long_climb_ends_at_the_root() {
        let target = [b"/".to_vec(), b"a/".repeat(1 << 13), b"%2e%2e/".repeat(1 << 14)].concat();
        assert_eq!(text(&Path::strict(&target)), "/");
    }
}
