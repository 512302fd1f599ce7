//! A request's path in normal form, under every interpretation that backends use: single slashes,
//! no empty, `.` or `..` segment, no trailing slash, `pchar` literal and every other byte an
//! upper-case escape (RFC 3986 §3.3, §6.2.2.1), decoded once.
//!
//! ```text
//!   //a/./b%7e/../c%3ad/?q=1   ─►   /a/c:d
//!   /x/..;/admin               ─►   /x/..;/admin   and, for servlet containers,   /admin
//!   //x/admin                  ─►   /x/admin       and, for URL parsers,          /admin
//! ```

use crate::request::syntax::{ESCAPE_LENGTH, before, leading_escape};
use diana_base::part;
use std::borrow::Cow;

/// One path in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path<'a>(Cow<'a, [u8]>);

impl<'a> Path<'a> {
    /// The segments, in order; `/` has none.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.0.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty())
    }

    /// This path as backends that ignore case read it: in lower case. If it has signs that some of
    /// them fold into `s`, `k` or `i`, there is a reading with and one without each fold.
    #[must_use]
    pub fn folded(&self) -> Vec<Path<'static>> {
        let mut paths = vec![Path(Cow::Owned(self.0.to_ascii_lowercase()))];
        for fold in FOLDED {
            for at in 0..paths.len() {
                let other = paths.get(at).map(|path| Path(Cow::Owned(replaced(&path.0, fold))));
                paths.extend(other.filter(|other| !paths.contains(other)));
            }
        }
        paths
    }

    /// The whole path; it starts with `/`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path of a request target as RFC 3986 reads it.
    #[cfg(test)]
    fn strict(target: &'a [u8]) -> Path<'a> {
        Path::read(path_of(target), STRICT)
    }

    /// A path as a backend with these `flags` reads it. A path that is already normal under RFC
    /// 3986 is borrowed.
    fn read(path: &'a [u8], flags: Reading) -> Path<'a> {
        match path {
            b"" => Path(Cow::Borrowed(b"/")),
            _ if flags == STRICT && is_normal(path) => Path(Cow::Borrowed(path)),
            _ => Path(Cow::Owned(normalise(path, flags))),
        }
    }
}

/// All readings of one path.
///
/// Backends answer four questions about paths differently, and the gateway cannot know how its own
/// backend answers them. A path that raises a question is therefore read once per combination of
/// answers, at most sixteen times. A limit applies if its pattern matches any reading, so no
/// spelling helps a client. The strictest and the most lenient reading alone are not enough. In
/// `/x/..;\y/admin`, a servlet container drops the parameter but treats `\` as a character, so it
/// sees `/admin`; neither extreme does.
///
/// | a backend may… | raised by | examples |
/// | --- | --- | --- |
/// | decode escapes before it looks for separators | `%2f` `%5c` `%3b` | nginx |
/// | treat `\` as `/` | `\` `%5c` | IIS, browsers |
/// | drop `;parameters` from a segment | `;` `%3b` | Tomcat, Jetty, Spring |
/// | treat the name in `//name/path` as a host | two leading separators | `new URL`, `urlsplit` |
///
/// After three separators, JavaScript's `new URL` reads a host and Python's `urlsplit` a segment.
/// The `urlsplit` result needs no reading of its own: a backend that expects no host in a path
/// reads the same.
#[derive(Clone, Debug)]
pub struct Readings<'a> {
    strict: Path<'a>,
    others: Vec<Path<'a>>,
}

impl<'a> Readings<'a> {
    /// The readings of a request target's path. Takes time linear in the length of `target`.
    ///
    /// The query is dropped. A target in absolute form (RFC 9112 §3.2.2) also loses its scheme and
    /// authority. A target without a leading slash gets one: the empty target is `/`, and `*` is
    /// `/*`.
    ///
    /// ```
    /// use diana_limiter::request::path::Readings;
    ///
    /// fn readings(target: &str) -> Vec<String> {
    ///     let readings = Readings::of(target.as_bytes());
    ///     readings.iter().map(|path| String::from_utf8_lossy(path.as_bytes()).into()).collect()
    /// }
    ///
    /// assert_eq!(readings("//a/./b%7e/../c%3ad/?q=1"), ["/a/c:d", "/c:d"]);
    /// assert_eq!(readings("/x/..;/admin"), ["/x/..;/admin", "/admin"]);
    /// ```
    #[must_use]
    pub fn of(target: &'a [u8]) -> Readings<'a> {
        match single_reading(target) {
            Some(path) => Readings { strict: Path(Cow::Borrowed(path)), others: Vec::new() },
            None => Readings::any(target),
        }
    }

    fn any(target: &'a [u8]) -> Readings<'a> {
        let path = path_of(target);
        let mut readings = Readings { strict: Path::read(path, STRICT), others: Vec::new() };
        let raised = questions(path);
        let all_flags = DECODES | BACKSLASH | PARAMETERS | AUTHORITY;
        for flags in (1..=all_flags).filter(|flags| flags & !raised == 0) {
            let reading = Path::read(path, flags);
            if readings.iter().all(|known| *known != reading) {
                readings.others.push(reading);
            }
        }
        readings
    }

    /// These readings by backends that ignore case: see [`Path::folded`].
    #[must_use]
    pub fn folded(&self) -> Readings<'static> {
        let strict = Path(Cow::Owned(self.strict.0.to_ascii_lowercase()));
        let mut others = self.strict.folded();
        for path in &self.others {
            others.append(&mut path.folded());
        }
        Readings { strict, others }
    }

    /// Every reading, the strict one first.
    pub fn iter(&self) -> impl Iterator<Item = &Path<'a>> {
        std::iter::once(&self.strict).chain(&self.others)
    }
}

/// The path of a request target, without the query and without the scheme and authority of an
/// absolute target.
fn path_of(target: &[u8]) -> &[u8] {
    let path = before(target, b"?#");
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

/// Signs of a normal path in lower case that backends fold into ASCII letters: `ſ` and the Kelvin
/// sign as Unicode does, `İ` as `Character.toLowerCase` of Java, `ı` as its `equalsIgnoreCase`.
const FOLDED: [(&[&[u8]], u8); 3] =
    [(&[b"%c5%bf"], b's'), (&[b"%e2%84%aa"], b'k'), (&[b"%c4%b0", b"%c4%b1"], b'i')];

/// A normal segment in the one form for all cases.
pub(crate) fn fold(segment: &[u8]) -> Vec<u8> {
    FOLDED.into_iter().fold(segment.to_ascii_lowercase(), |text, fold| replaced(&text, fold))
}

fn replaced(mut text: &[u8], (signs, letter): (&[&[u8]], u8)) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some((byte, rest)) = text.split_first() {
        let folded = signs.iter().find_map(|sign| text.strip_prefix(*sign));
        out.push(if folded.is_some() { letter } else { *byte });
        text = folded.unwrap_or(rest);
    }
    out
}

/// The bytes for which a segment stands.
pub(crate) fn decoded(segment: &[u8]) -> Vec<u8> {
    units(segment).map(|unit| unit.byte).collect()
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
    match part(out, parent..) {
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

/// How a backend answers the four questions of [`Readings`]: a set of the flags below.
type Reading = u8;
/// As RFC 3986 reads a path: no flag is set.
const STRICT: Reading = 0;
/// The backend decodes escapes before it splits the path, so `%2f` separates as `/` does.
const DECODES: Reading = 1;
/// `\` separates as `/` does.
const BACKSLASH: Reading = 2;
/// The backend drops `;` and the text after it from a segment before it resolves dot segments.
const PARAMETERS: Reading = 4;
/// After two or more leading separators, the text up to the next separator is a host.
const AUTHORITY: Reading = 8;

/// One character of a path, spelt literally or as an escape.
struct Unit<'a> {
    /// The decoded byte.
    byte: u8,
    text: &'a [u8],
}

impl Unit<'_> {
    /// Whether the character is written `%xx`.
    fn is_escape(&self) -> bool {
        self.text.len() > 1
    }

    /// Whether the character ends a segment for a backend with these `flags`.
    fn separates(&self, flags: Reading) -> bool {
        self.counts_for(flags) && (self.byte == b'/' || self.byte == b'\\' && flags & BACKSLASH != 0)
    }

    /// Whether the character ends a segment for some backend.
    fn may_separate(&self) -> bool {
        matches!(self.byte, b'/' | b'\\')
    }

    /// Whether the character starts parameters for a backend with these `flags`.
    fn cuts(&self, flags: Reading) -> bool {
        self.counts_for(flags) && self.byte == b';' && flags & PARAMETERS != 0
    }

    fn counts_for(&self, flags: Reading) -> bool {
        !self.is_escape() || flags & DECODES != 0
    }

    /// Whether the character is spelt as in a normal path.
    fn is_normal(&self) -> bool {
        match self.byte {
            byte if is_plain(byte) => !self.is_escape(),
            b'/' if !self.is_escape() => true,
            _ => self.is_escape() && !self.text.iter().any(u8::is_ascii_lowercase),
        }
    }

    /// Appends the character as it is spelt in a normal path.
    fn write(&self, out: &mut Vec<u8>) {
        const HEX: [u8; 16] = *b"0123456789ABCDEF";
        let hex = |digit: u8| {
            let letter = HEX.get(usize::from(digit)).copied();
            debug_assert!(letter.is_some(), "half a byte");
            letter.unwrap_or(b'0')
        };
        if is_plain(self.byte) {
            out.push(self.byte);
        } else {
            out.extend([b'%', hex(self.byte >> 4), hex(self.byte & 15)]);
        }
    }
}

/// The characters of a path, each escape decoded once.
fn units(mut path: &[u8]) -> impl Iterator<Item = Unit<'_>> {
    std::iter::from_fn(move || {
        let (length, byte) = match leading_escape(path) {
            Some(byte) => (ESCAPE_LENGTH, byte),
            None => (1, *path.first()?),
        };
        let (text, rest) = path.split_at_checked(length)?;
        path = rest;
        Some(Unit { byte, text })
    })
}

/// Whether a byte may stand literally in a segment: `pchar` of RFC 3986 §3.3 without escapes.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

/// The path of a target that is already normal and has a single reading, found in one pass. Most
/// targets are of this kind.
fn single_reading(target: &[u8]) -> Option<&[u8]> {
    let (mut before, mut length) = (0, 0usize);
    for byte in target.iter().copied() {
        match byte {
            b'?' => break,
            b'/' if before == b'/' => return None,
            b'/' => {}
            // A segment that starts with a dot may be a dot segment.
            b'.' if before == b'/' => return None,
            b';' => return None,
            _ if before == 0 || !is_plain(byte) => return None,
            _ => {}
        }
        before = byte;
        length = length.saturating_add(1);
    }
    let is_whole = before != b'/' || length == 1;
    target.get(..length).filter(|path| is_whole && !path.is_empty())
}

/// The questions that a path raises, as flags.
fn questions(path: &[u8]) -> Reading {
    let begins_with_two = units(path).take(2).filter(Unit::may_separate).count() == 2;
    units(path).fold(if begins_with_two { AUTHORITY } else { STRICT }, |raised, unit| {
        let question = match unit.byte {
            b'/' => STRICT,
            b'\\' => BACKSLASH,
            b';' => PARAMETERS,
            _ => return raised,
        };
        raised | question | if unit.is_escape() { DECODES } else { STRICT }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn a_path_in_any_case_has_a_reading_for_each_fold() {
        let check = |target: &str, expected: &[&str]| {
            let found: Vec<String> = Path::strict(target.as_bytes()).folded().iter().map(text).collect();
            assert_eq!(found, expected, "{target}");
        };
        check("/LogIn/%4Cx%c3%89", &["/login/lx%c3%89"]);
        check("/ſK/a", &["/%c5%bfk/a", "/sk/a"]);
        check("/\u{212a}%C5%BF", &["/%e2%84%aa%c5%bf", "/%e2%84%aas", "/k%c5%bf", "/ks"]);
        check("/ıKİ", &["/%c4%b1k%c4%b0", "/iki"]);
        check("/%25C5%BF%C5", &["/%25c5%bf%c5"]);
        assert_eq!(fold("%C5%BFK%E2%84%AA%25C5".as_bytes()), b"skk%25c5");
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

    fn check_all(cases: &[(&str, &[&str])]) {
        for (target, expected) in cases {
            let readings = Readings::of(target.as_bytes());
            assert_eq!(readings.iter().map(text).collect::<Vec<_>>(), *expected, "{target}");
        }
    }

    #[test]
    fn a_path_that_backends_disagree_on_has_a_reading_for_each() {
        check_all(&[
            ("/x/..;/admin", &["/x/..;/admin", "/admin"]),
            ("/a;v=1/b;c", &["/a;v=1/b;c", "/a/b"]),
            // Envoy reads these without parameters since 1.40 (CVE-2026-73511, CVE-2026-73551).
            ("/a/..;/b", &["/a/..;/b", "/b"]),
            ("/a/..;x=1/b", &["/a/..;x=1/b", "/b"]),
            ("/a;x/..;y/b", &["/a;x/..;y/b", "/b"]),
            ("/a;x/b;y/c", &["/a;x/b;y/c", "/a/b/c"]),
            ("/.;/a", &["/.;/a", "/a"]),
            ("/..;/a", &["/..;/a", "/a"]),
            ("/.;x/..;y/a", &["/.;x/..;y/a", "/a"]),
            ("/a/.%3B/..%3b/b", &["/a/.;/..;/b", "/b"]),
            ("/a/%2e%2e;/b", &["/a/..;/b", "/b"]),
            ("/a/..;", &["/a/..;", "/"]),
            ("/a%3Bb", &["/a;b", "/a"]),
            ("/a%2fb", &["/a%2Fb", "/a/b"]),
            (r"/a\b", &["/a%5Cb", "/a/b"]),
            ("/a%5cb", &["/a%5Cb", "/a/b"]),
            ("/x/..%2Fadmin", &["/x/..%2Fadmin", "/admin"]),
            (r"/x\..;p=\admin", &["/x%5C..;p=%5Cadmin", "/x/..;p=/admin", "/x%5C..", "/admin"]),
            (r"/x/..;\y/admin", &[r"/x/..;%5Cy/admin", "/x/..;/y/admin", "/admin", "/y/admin"]),
            ("/api;%2f..", &["/api;%2F..", "/", "/api"]),
            ("/%252f%255c%253b", &["/%252f%255c%253b"]),
            ("/a//b", &["/a/b"]),
        ]);
    }

    #[test]
    fn a_path_may_start_with_a_host() {
        check_all(&[
            ("//x/admin", &["/x/admin", "/admin"]),
            ("//x", &["/x", "/"]),
            ("//", &["/"]),
            ("///x/admin", &["/x/admin", "/admin"]),
            ("//x//y/admin", &["/x/y/admin", "/y/admin"]),
            ("//../admin", &["/admin"]),
            ("//u:p@x:80/a?q", &["/u:p@x:80/a", "/a"]),
            (r"/\x/admin", &["/%5Cx/admin", "/x/admin", "/admin"]),
            (r"//x\y/admin", &["/x%5Cy/admin", "/x/y/admin", "/admin", "/y/admin"]),
            ("/%2fx/admin", &["/%2Fx/admin", "/x/admin", "/admin"]),
            ("//x;/admin", &["/x;/admin", "/x/admin", "/admin"]),
            ("http://h//x/admin", &["/x/admin", "/admin"]),
        ]);
    }

    /// Paths made of characters that normalisation treats specially, so that most paths need it.
    fn hostile() -> impl Strategy<Value = String> {
        const PIECES: [&str; 22] = [
            "/", "/", "/", "..", ".", "%2e", "%2E", "a", "B", "%61", "%2f", "%2F", "%5c", "\\", ";", "%3b",
            "%3B", "%", "%2", "%25", "é", "%c3",
        ];
        let pieces = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14);
        let start = prop::sample::select(&["/", "//", "///", "/\\", "/%2f", "%5c/", ""][..]);
        (start, pieces).prop_map(|(start, pieces)| start.to_string() + &pieces.concat())
    }

    /// A slow reference model: replaces the characters that a backend with these `flags` treats as
    /// others, then keeps a stack of segments.
    fn model(path: &str, flags: Reading) -> String {
        let mut plain = String::new();
        let mut rest = path;
        while let Some(first) = rest.chars().next() {
            let escape = rest.get(..3).filter(|text| text.starts_with('%'));
            let escaped = escape.and_then(|text| u8::from_str_radix(&text[1..], 16).ok());
            match (escaped.map(char::from), first) {
                (Some(mark @ ('.' | 'a' | '*' | '+')), _) => plain.push(mark),
                (Some('/'), _) if flags & DECODES != 0 => plain.push('/'),
                (Some('\\'), _) if flags & DECODES != 0 && flags & BACKSLASH != 0 => plain.push('/'),
                // NUL stands for a `;` that starts no parameters.
                (Some(';'), _) => plain.push(if flags & DECODES != 0 { ';' } else { '\0' }),
                (Some(_), _) => plain.push_str(&rest[..3].to_uppercase()),
                (None, '\\') => plain.push_str(if flags & BACKSLASH != 0 { "/" } else { "%5C" }),
                (None, '%') => plain.push_str("%25"),
                (None, 'é') => plain.push_str("%C3%A9"),
                (None, other) => plain.push(other),
            }
            rest = &rest[escaped.map_or(first.len_utf8(), |_| 3)..];
        }
        let trimmed = plain.trim_start_matches('/');
        if flags & AUTHORITY != 0 && plain.len() > trimmed.len() + 1 {
            plain = trimmed.split_once('/').map_or("", |(_host, path)| path).to_string();
        }
        let mut stack: Vec<String> = Vec::new();
        for segment in plain.split('/') {
            let kept = if flags & PARAMETERS != 0 { segment.split(';').next().unwrap() } else { segment };
            match kept {
                "" | "." => {}
                ".." => drop(stack.pop()),
                other => stack.push(other.replace('\0', ";")),
            }
        }
        format!("/{}", stack.join("/"))
    }

    proptest! {
        #[test]
        fn every_backend_finds_its_reading(path in hostile()) {
            let readings = Readings::of(path.as_bytes());
            let found: Vec<String> = readings.iter().map(text).collect();
            prop_assert_eq!(&found[0], &model(&path, STRICT));
            let mut expected: Vec<String> = (0..16).map(|flags| model(&path, flags)).collect();
            for flags in &expected {
                prop_assert!(found.contains(flags), "{:?} lacks {}", found, flags);
            }
            expected.sort();
            expected.dedup();
            prop_assert_eq!(found.len(), expected.len());
        }

        #[test]
        fn the_single_reading_is_the_only_one(path in hostile(), tail in "[?/.;a%]{0,3}") {
            let target = path + &tail;
            if let Some(path) = single_reading(target.as_bytes()) {
                let readings = Readings::any(target.as_bytes());
                prop_assert_eq!(readings.iter().collect::<Vec<_>>(), [&Path(Cow::Borrowed(path))]);
            }
        }

        #[test]
        fn a_plain_target_has_a_single_reading(path in "(/[a-zA-Z0-9_~:@!$&'()*+,=-][a-zA-Z0-9._-]{0,5}){1,4}", query in "[?].{0,5}|") {
            let target = path.clone() + &query;
            prop_assert_eq!(single_reading(target.as_bytes()), Some(path.as_bytes()));
        }

        #[test]
        fn a_reading_is_normal_and_stays_as_it_is(path in hostile()) {
            for reading in Readings::of(path.as_bytes()).iter() {
                prop_assert!(reading.as_bytes().starts_with(b"/"));
                prop_assert!(reading.segments().all(|segment| ![&b""[..], b".", b".."].contains(&segment)));
                let joined: Vec<u8> = reading.segments().flat_map(|segment| [b"/", segment].concat()).collect();
                prop_assert!(reading.as_bytes() == joined || reading.as_bytes() == b"/");
                let again = Path::strict(reading.as_bytes());
                prop_assert!(matches!(&again.0, Cow::Borrowed(_)));
                prop_assert_eq!(&again, reading);
            }
        }

        #[test]
        fn any_bytes_are_read(target in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Readings::of(&target).iter().count() <= 16);
        }
    }
}
