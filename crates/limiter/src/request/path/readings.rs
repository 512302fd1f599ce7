//! All readings of one path that backends read differently.

use super::normal::{
    AUTHORITY, BACKSLASH, DECODES, PARAMETERS, Path, Reading, STRICT, Unit, is_plain, path_of, units,
};
use std::borrow::Cow;

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

    /// Every reading once, the strict one first.
    pub fn iter(&self) -> impl Iterator<Item = &Path<'a>> {
        std::iter::once(&self.strict).chain(&self.others)
    }
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

    fn check(cases: &[(&str, &[&str])]) {
        for (target, expected) in cases {
            let readings = Readings::of(target.as_bytes());
            assert_eq!(readings.iter().map(text).collect::<Vec<_>>(), *expected, "{target}");
        }
    }

    #[test]
    fn a_path_that_backends_disagree_on_has_a_reading_for_each() {
        check(&[
            ("/x/..;/admin", &["/x/..;/admin", "/admin"]),
            ("/a;v=1/b;c", &["/a;v=1/b;c", "/a/b"]),
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
        check(&[
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
