//! Path patterns: `url` of a limit. A pattern is normalised like a request's path, so the spelling
//! of either makes no difference: an escaped `%2A` is the character, never the wildcard.
//! `super::tree` matches all patterns of a policy at once.
//!
//! | pattern | matches |
//! | --- | --- |
//! | `/api` | `/api` and all paths below it: `/api/x`, not `/apiary` |
//! | `/api/**` | the same, written explicitly |
//! | `=/api` | `/api` alone |
//! | `/users/*/orders` | any one segment in place of `*` |
//! | `/users/{id}/orders` | the same; an actor may count by the segment `id` |
//! | `/users/{id:int}` | an integer in its shortest form; `{:int}` has no name |
//! | `/files/{id:uuid}` | a UUID with hyphens, in any case |
//! | `/{lang:[a-z]{2}}` | a segment that the expression matches as a whole, after decoding |
//! | `/` | every request |
//! | `=/` | the root alone |

use super::Condition;
use crate::request::path::{self, Path};
use crate::request::{Parts, Request, Values};
use diana_base::format::netstring;
use diana_base::sort;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name of a segment, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A compiled pattern.
///
/// ```
/// use diana_limiter::matcher::pattern::Pattern;
///
/// let orders: Pattern = "/users/*/orders".parse()?;
/// let users: Pattern = "/users".parse()?;
/// assert!(users.contains(&orders));
/// assert!(users.specificity() < orders.specificity());
/// assert!("users".parse::<Pattern>().is_err(), "a pattern starts with a slash");
/// # Ok::<(), diana_limiter::matcher::pattern::PatternError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    segments: Vec<Segment>,
    exact: bool,
    ignores_case: bool,
    /// The names of segments, each with its index in `segments`.
    names: Vec<(Box<str>, usize)>,
}

/// Two patterns are equal if they match the same paths, whatever the names of their segments.
impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.exact == other.exact
            && self.ignores_case == other.ignores_case
            && self.segments == other.segments
    }
}

impl Eq for Pattern {}

/// What a pattern requires of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// `*` or `{name}`: any one segment.
    Any,
    /// `{name:regex}`: a segment that the expression matches.
    Regex(Expression),
    /// `{name:uuid}`: 32 hexadecimal digits in five groups with hyphens between them.
    Uuid,
    /// `{name:int}`: `0`, or digits of which the first is not 0, possibly after `-`. Each integer
    /// has one such form.
    Int,
    /// Exactly these bytes, in normal form.
    Literal(Box<[u8]>),
}

/// A regular expression that matches whole segments after decoding. It is bounded as those of
/// [`Condition`] are.
#[derive(Clone, Debug)]
pub struct Expression {
    text: Box<str>,
    condition: Arc<Condition>,
}

impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl Segment {
    /// Whether this segment of a path is one of those; `None` if to find out would be too much work
    /// for the request.
    pub(super) fn matches(&self, segment: &[u8], request: &Request) -> Option<bool> {
        Some(match self {
            Segment::Any => true,
            Segment::Regex(expression) => {
                return expression.condition.matches(request, &[&path::decoded(segment)]);
            }
            Segment::Uuid => {
                let has_hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
                let is_uuid = |(at, byte): (usize, &u8)| match has_hyphen(at) {
                    true => *byte == b'-',
                    false => byte.is_ascii_hexdigit(),
                };
                segment.len() == 36 && segment.iter().enumerate().all(is_uuid)
            }
            Segment::Int => {
                let digits = segment.strip_prefix(b"-").unwrap_or(segment);
                segment == b"0" || digits.iter().all(u8::is_ascii_digit) && !matches!(digits, [] | [b'0', ..])
            }
            Segment::Literal(bytes) => **bytes == *segment,
        })
    }

    /// Whether each segment of `other` is one of these.
    #[must_use]
    pub fn contains(&self, other: &Segment) -> bool {
        match other {
            Segment::Literal(segment) => {
                let (nothing, parts) = (Values::default(), Parts::default());
                self.matches(segment, &Request::new(&nothing, &parts)) == Some(true)
            }
            other => *self == Segment::Any || self == other,
        }
    }

    /// Whether some segment is one of both. Of two expressions, nobody knows.
    fn overlaps(&self, other: &Segment) -> bool {
        let may_match = |one: &Segment, other: &Segment| {
            matches!(one, Segment::Regex(_)) && !matches!(other, Segment::Literal(_))
        };
        self.contains(other) || other.contains(self) || may_match(self, other) || may_match(other, self)
    }

    /// The place of the kind among all kinds, the less specific ones first.
    fn rank(&self) -> u8 {
        match self {
            Segment::Any => 0,
            Segment::Regex(_) => 1,
            Segment::Uuid => 2,
            Segment::Int => 3,
            Segment::Literal(_) => 4,
        }
    }
}

/// How specific a pattern is; the less specific pattern compares as less.
///
/// More segments are more specific. With equally many, the first segment that differs in kind
/// decides: a literal is more specific than `int`, then come `uuid`, expressions, and `*`. If all
/// segments agree, `=` is more specific than no `=`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    segments: usize,
    ranks: Vec<u8>,
    exact: bool,
}

impl Pattern {
    /// The requirements on each segment, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether the path must end where the pattern ends.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// The same pattern for backends that ignore case. It matches [folded](Path::folded) paths
    /// only.
    pub fn ignoring_case(mut self) -> Result<Pattern, PatternError> {
        for segment in &mut self.segments {
            match segment {
                Segment::Literal(bytes) => *bytes = path::fold(bytes).into(),
                Segment::Regex(Expression { text, condition }) => {
                    let why = |error: regex_lite::Error| {
                        PatternError::Regex(format!("{{:{text}}}"), error.to_string())
                    };
                    *condition = Arc::new(Condition::regex(&format!("(?i:{text})")).map_err(why)?);
                }
                _ => {}
            }
        }
        self.ignores_case = true;
        Ok(self)
    }

    /// Whether the pattern is for backends that ignore case.
    #[must_use]
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// The pattern in canonical text: two patterns with the same text match the same paths.
    pub(crate) fn canonical_form(&self) -> String {
        let case = if self.ignores_case { " in any case" } else { "" };
        [&*netstring(&self.to_string()), case].concat()
    }

    /// The place of the segment with this name, from 0.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().find(|(known, _)| **known == *name).map(|(_, place)| *place)
    }

    /// The names of the pattern's segments, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| &**name)
    }

    /// The same pattern with `*` for each segment that is no literal, except the one at `place`.
    #[must_use]
    pub fn widened(&self, place: Option<usize>) -> Pattern {
        let widened = |(at, segment): (usize, &Segment)| match segment {
            Segment::Literal(_) => segment.clone(),
            _ if Some(at) == place => segment.clone(),
            _ => Segment::Any,
        };
        let segments = self.segments.iter().enumerate().map(widened).collect();
        Pattern { segments, ..self.clone() }
    }

    /// Whether the pattern matches this reading of the request's path, which is folded if the
    /// pattern ignores case. An expression that would be too much work is taken to match.
    #[must_use]
    pub fn matches(&self, path: &Path, request: &Request) -> bool {
        let mut segments = path.segments();
        let is_matched = |expected: &Segment| {
            let segment = segments.next();
            segment.is_some_and(|segment| expected.matches(segment, request).unwrap_or(true))
        };
        self.segments.iter().all(is_matched) && (!self.exact || segments.next().is_none())
    }

    /// Whether this pattern matches every path that `other` matches, for certain.
    #[must_use]
    pub fn contains(&self, other: &Pattern) -> bool {
        let (own, others) = (&self.segments, &other.segments);
        if self.ignores_case != other.ignores_case && own.iter().any(|own| *own != Segment::Any) {
            return false;
        }
        let fits = match self.exact {
            true => other.exact && own.len() == others.len(),
            false => own.len() <= others.len(),
        };
        fits && own.iter().zip(others).all(|(own, other)| own.contains(other))
    }

    /// Whether some path may match both patterns.
    #[must_use]
    pub fn overlaps(&self, other: &Pattern) -> bool {
        let (own, others) = (&self.segments, &other.segments);
        if self.ignores_case != other.ignores_case {
            return true;
        }
        let is_long_enough =
            (!self.exact || others.len() <= own.len()) && (!other.exact || own.len() <= others.len());
        is_long_enough && own.iter().zip(others).all(|(own, other)| own.overlaps(other))
    }

    /// How specific the pattern is.
    #[must_use]
    pub fn specificity(&self) -> Specificity {
        Specificity {
            segments: self.segments.len(),
            ranks: self.segments.iter().map(Segment::rank).collect(),
            exact: self.exact,
        }
    }
}

/// The pattern in configuration syntax; parsing the text gives an equal pattern.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.exact { "=" } else { "" })?;
        if self.segments.is_empty() {
            return f.write_str("/");
        }
        self.segments.iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segment::Any => f.write_str("*"),
            Segment::Regex(expression) => write!(f, "{{:{}}}", expression.text),
            Segment::Uuid => f.write_str("{:uuid}"),
            Segment::Int => f.write_str("{:int}"),
            Segment::Literal(bytes) => {
                let (colon, rest) = match bytes.split_first() {
                    Some((b':', rest)) => ("%3A", rest),
                    _ => ("", &**bytes),
                };
                write!(f, "{colon}{}", String::from_utf8_lossy(rest).replace('*', "%2A"))
            }
        }
    }
}

/// The patterns of one limit, the less specific ones first.
#[must_use]
pub fn sorted(mut patterns: Vec<Pattern>) -> Vec<Pattern> {
    sort::sort_by_key(&mut patterns, |pattern| (pattern.specificity(), pattern.to_string()));
    patterns
}

/// Whether `text` may name a segment: 1 to 64 ASCII letters, digits, `_` and `-`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

/// The most segments that a pattern may have: matching recurses once per segment.
const MAX_SEGMENTS: usize = 64;

/// Why a text is no [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// The text does not begin with `/` or `=/`.
    NoSlash,
    /// The text has a query or a fragment after this path.
    Query(String),
    /// `=` asks for the path alone, and `**` for all below it.
    ExactAndBelow,
    /// `**` is not the last segment.
    NotLast,
    /// There are more than 64 segments.
    TooLong,
    /// Two segments have the name in this segment.
    SameName(String),
    /// This segment names another one than 1 to 64 letters, digits, `_` and `-`.
    Name(String),
    /// This segment has another type than `int`, `uuid` or an expression with a mark.
    Type(String),
    /// This segment has no expression, and why.
    Regex(String, String),
    /// A brace is a part of this segment, and not all of it.
    PartName(String),
    /// `*` is a part of this segment, and not all of it.
    PartStar(String),
    /// This segment begins with `:`, by which other routers name segments.
    Colon(String),
    /// This segment is `..`.
    Parent(String),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("expected a pattern of paths such as `/users/*/orders` or `=/login`")
    }
}

impl std::error::Error for PatternError {}

impl FromStr for Pattern {
    type Err = PatternError;

    #[inline]
    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let (exact, path) = match text.strip_prefix('=') {
            Some(path) => (true, path),
            None => (false, text),
        };
        let rest = path.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        if let (path, Some(_)) = split(text, &['?', '#']) {
            path.parse::<Pattern>()?;
            return Err(PatternError::Query(path.into()));
        }
        let rest = match rest.trim_end_matches('/') {
            "**" => Some(""),
            rest => rest.strip_suffix("/**"),
        }
        .map_or(Ok(rest), |above| if exact { Err(PatternError::ExactAndBelow) } else { Ok(above) })?;
        let mut pattern = Pattern { segments: Vec::new(), exact, ignores_case: false, names: Vec::new() };
        for word in words(rest) {
            if let Some((name, segment)) = named(word)? {
                if pattern.place(name).is_some() {
                    return Err(PatternError::SameName(word.into()));
                }
                if !name.is_empty() {
                    pattern.names.push((name.into(), pattern.segments.len()));
                }
                pattern.segments.push(segment);
            } else {
                pattern.segments.extend(segment(word)?);
            }
            if pattern.segments.len() > MAX_SEGMENTS {
                return Err(PatternError::TooLong);
            }
        }
        Ok(pattern)
    }
}

/// The words of a pattern between its slashes. A slash in braces separates nothing.
pub fn words(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let (word, after) = split(rest?, &['/']);
        rest = after;
        Some(word)
    })
}

/// The text before the first of `ends` outside of braces, and the text after it.
fn split<'t>(text: &'t str, ends: &[char]) -> (&'t str, Option<&'t str>) {
    let mut depth = 0usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth = depth.saturating_add(1),
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && ends.contains(&letter) => {
                let (before, after) = (text.get(..at), text.get(at.saturating_add(1)..));
                return (before.unwrap_or_default(), after);
            }
            _ => {}
        }
    }
    (text, None)
}

/// The name and the segment of `{name}`, `{name:type}` or `{:type}`. A brace elsewhere is refused:
/// a limit on a path with the character would match nothing that its author expects. So is an
/// expression that is a plain word, because it is a type of another program.
fn named(word: &str) -> Result<Option<(&str, Segment)>, PatternError> {
    if !word.contains(['{', '}']) {
        return Ok(None);
    }
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.ok_or_else(|| PatternError::PartName(word.into()))?;
    let (name, kind) = inner.split_once(':').map_or((inner, None), |(name, kind)| (name, Some(kind)));
    let segment = match kind {
        _ if !is_name(name) && (kind.is_none() || !name.is_empty()) => {
            return Err(PatternError::Name(word.into()));
        }
        None => Segment::Any,
        Some("int") => Segment::Int,
        Some("uuid") => Segment::Uuid,
        Some(text) if text.is_empty() || is_name(text) => return Err(PatternError::Type(word.into())),
        Some(text) => Segment::Regex(expression(text, word)?),
    };
    Ok(Some((name, segment)))
}

fn expression(text: &str, word: &str) -> Result<Expression, PatternError> {
    let why = |error: regex_lite::Error| PatternError::Regex(word.into(), error.to_string());
    let condition = Condition::regex(text).map_err(why)?;
    Ok(Expression { text: text.into(), condition: Arc::new(condition) })
}

/// One segment of a pattern without a name; `Ok(None)` for an empty segment and `.`, which are
/// dropped.
fn segment(word: &str) -> Result<Option<Segment>, PatternError> {
    match word {
        "*" => return Ok(Some(Segment::Any)),
        "**" => return Err(PatternError::NotLast),
        _ if word.contains('*') => return Err(PatternError::PartStar(word.into())),
        _ if word.starts_with(':') && word.len() > 1 => return Err(PatternError::Colon(word.into())),
        _ => {}
    }
    match path::segment(word.as_bytes()) {
        Some(bytes) => Ok(Some(Segment::Literal(bytes.into()))),
        None if path::is_parent(word.as_bytes()) => Err(PatternError::Parent(word.into())),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::path::Readings;

    fn check(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            let pattern: Pattern = text.parse().unwrap();
            assert_eq!(pattern.to_string().parse(), Ok(pattern.clone()), "{text} is read back");
            assert_eq!(pattern.to_string(), *expected, "{text}");
        }
    }

    #[test]
    fn a_pattern_is_normalised_as_a_path_is() {
        check(&[
            ("/", "/"),
            ("=/", "=/"),
            ("/api/", "/api"),
            ("=/api//v1/.", "=/api/v1"),
            ("/api/**", "/api"),
            ("/api/**/", "/api"),
            ("/**", "/"),
            ("/*/**", "/*"),
            ("/users/*/orders", "/users/*/orders"),
            ("/a%3ab", "/a:b"),
            ("/a%2fb;c", "/a%2Fb;c"),
            ("/%2A/a%2a", "/%2A/a%2A"),
            ("/café", "/caf%C3%A9"),
            ("/%7Eme/%zz", "/~me/%25zz"),
            ("/...", "/..."),
            ("/%7Bid%7D/x%7Bid%7D", "/%7Bid%7D/x%7Bid%7D"),
            ("/users/{id}/orders", "/users/*/orders"),
            ("=/{A-1_}/*/{b}/", "=/*/*/*"),
            ("/{a}/**", "/*"),
            ("/%3Aid/:/m:run", "/%3Aid/%3A/m:run"),
            ("/a/{id:int}/{x:uuid}/", "/a/{:int}/{:uuid}"),
            ("=/{:int}/{:int}", "=/{:int}/{:int}"),
            (r"/{x:[^/]+?}//{y:\d{2,4}}/**", r"/{:[^/]+?}/{:\d{2,4}}"),
            (r"/{x:\{a}", r"/{:\{a}"),
        ]);
        assert_eq!("/a%3ab".parse::<Pattern>(), "/a%3Ab".parse());
    }

    #[test]
    fn a_pattern_in_any_case_is_another_one() {
        let parse = |text: &str| text.parse::<Pattern>().unwrap();
        let [exact, any] = [parse("/Login/{x:[A-Z]+}"), parse("/LOGIN/{x:[A-Z]+}").ignoring_case().unwrap()];
        assert_eq!(any, exact.clone().ignoring_case().unwrap());
        assert_ne!(any, exact);
        assert_ne!(any.canonical_form(), parse("/login/{:[A-Z]+}").canonical_form());
        assert!(!any.contains(&exact) && !exact.contains(&any) && any.overlaps(&exact));
        assert!(parse("/*").contains(&any) && parse("/").ignoring_case().unwrap().contains(&exact));
        let (values, parts) = (Values::default(), Parts::default());
        let request = Request::new(&values, &parts);
        let matches = |target: &str| {
            Readings::of(target.as_bytes()).folded().iter().any(|path| any.matches(path, &request))
        };
        for target in
            ["/login/abc", "/LOGIN/ABC", "/%4CogIn/aB", "//LOGIN/x;Y", r"/x/..\LogIn/\u{212a}", "/LOGIN/ſ"]
        {
            assert!(matches(&target.replace(r"\u{212a}", "\u{212a}")), "{target}");
        }
        assert!(!matches("/login/1") && !matches("/logins/a"));
    }

    #[test]
    fn a_pattern_contains_those_below_it() {
        let contains = |own: &str, other: &str| {
            own.parse::<Pattern>().unwrap().contains(&other.parse::<Pattern>().unwrap())
        };
        for (own, other) in [
            ("/", "/a"),
            ("/", "=/"),
            ("/a", "=/a"),
            ("/a", "/a/*"),
            ("/*", "/a/b"),
            ("=/*", "=/a"),
            ("=/a", "=/a"),
            ("/*", "/{:int}"),
            ("/{:int}", "/{:int}"),
            ("/{:int}", "/7"),
            ("/{:a.}", "/ab"),
            ("/{:a.}", "/{x:a.}"),
        ] {
            assert!(contains(own, other), "{own} {other}");
        }
        for (own, other) in [
            ("/a", "/"),
            ("=/a", "/a"),
            ("=/a", "=/a/b"),
            ("/a", "/*"),
            ("/a", "/b"),
            ("=/*", "=/"),
            ("/{:int}", "/*"),
            ("/{:int}", "/07"),
            ("/{:int}", "/{:uuid}"),
            ("/{:a.}", "/b"),
            ("/{:.+}", "/{:int}"),
        ] {
            assert!(!contains(own, other), "{own} {other}");
        }
    }

    #[test]
    fn the_less_specific_pattern_comes_first() {
        let ascending = [
            "/",
            "=/",
            "/*",
            "=/*",
            "/{x:a+}",
            "/{x:uuid}",
            "/{x:int}",
            "=/{x:int}",
            "/a",
            "=/a",
            "/*/*",
            "/*/b",
            "/{x:int}/*",
            "/a/*",
            "=/a/*",
            "/a/{:a+}",
            "/a/{:int}",
            "/a/b",
            "=/a/b",
            "/a/*/c",
        ];
        let order = |text: &str| text.parse::<Pattern>().unwrap().specificity();
        for pair in ascending.windows(2) {
            assert!(order(pair[0]) < order(pair[1]), "{pair:?}");
        }
        assert_eq!(order("/a"), order("/b/**"));
        assert_eq!(order("/{x:a.}"), order("/{:b+}"));
    }

    #[test]
    fn a_type_is_that_of_a_whole_segment() {
        const ID: &str = "0fa5b3de-1C2D-4b6a-9e8f-00112233445A";
        let matches = |word: &str, segment: &str| {
            let pattern: Pattern = format!("=/{word}").parse().unwrap();
            let (values, parts) = (Values::default(), Parts::default());
            let (target, request) = (format!("/{segment}"), Request::new(&values, &parts));
            let readings = Readings::of(target.as_bytes());
            readings.iter().any(|path| pattern.matches(path, &request))
        };
        let long = "9".repeat(4_097);
        for (word, own, others) in [
            (
                "{x:int}",
                &["0", "7", "-7", "10", "%37", "7;a=b", "18446744073709551616", &*long][..],
                &[
                    "", "-", "--7", "+7", "007", "-0", "00", "%207", "7%20", "7.0", "1e3", "0x7", "%D9%A7",
                    "7a", "x",
                ][..],
            ),
            (
                "{x:uuid}",
                &[ID, &ID.to_lowercase(), "0fa5b3de-1c2d-4b6a-9e8f-0011223344%35a;v=1"],
                &[
                    "",
                    "7",
                    &ID.replace('-', ""),
                    &ID.replace('-', "_"),
                    &format!("{ID}0"),
                    &format!("%7B{ID}%7D"),
                ],
            ),
            (
                "{x:[a-z ]+\\.(?:css|js)}",
                &["a.css", "%61%20b.js", "a.%63ss;v=1"],
                &["A.css", "a.css.map", ".css", "a%252Ecss", "a.cs"],
            ),
            ("{x:[^/]+}", &["a", "%25"], &["a%2Fb"]),
            // A value that is too long may match.
            ("{x:a+}", &["aa", &long], &["b", "aab"]),
            ("{x:caf.}", &["caf%C3%A9", "café", "caf%E9"], &["caf"]),
        ] {
            for segment in own {
                assert!(matches(word, segment), "{word} {segment}");
            }
            for segment in others {
                assert!(!matches(word, segment), "{word} {segment}");
            }
        }
    }

    #[test]
    fn patterns_meet_if_some_path_is_matched_by_both() {
        let overlaps = |own: &str, other: &str| {
            let [own, other] = [own, other].map(|text| text.parse::<Pattern>().unwrap());
            assert_eq!(own.overlaps(&other), other.overlaps(&own));
            own.overlaps(&other)
        };
        for (own, other) in [
            ("/", "/api"),
            ("/api", "/api"),
            ("/api", "=/api/x"),
            ("/*/x", "/api"),
            ("/*/x", "/api/*"),
            ("=/*", "=/api"),
            ("=/", "/"),
            ("/{:int}", "/*"),
            ("/{:int}", "/7"),
            ("/{:a.}", "/{:.b}"),
            ("/{:a.}", "/{:int}"),
        ] {
            assert!(overlaps(own, other), "{own} {other}");
        }
        for (own, other) in [
            ("/api", "/health"),
            ("/*/x", "/api/y"),
            ("=/api", "/api/x"),
            ("=/api", "=/api/x"),
            ("=/", "/api"),
            ("=/*", "=/api/x"),
            ("/{:int}", "/{:uuid}"),
            ("/{:int}", "/07"),
            ("/{:a.}", "/b"),
        ] {
            assert!(!overlaps(own, other), "{own} {other}");
        }
    }

    #[test]
    fn a_name_is_that_of_a_place() {
        let typed: Pattern = "/{:int}/{b:uuid}".parse().unwrap();
        assert!(typed.names().eq(["b"]) && typed.place("b") == Some(1) && typed.place("").is_none());
        let pattern: Pattern = "//tenants/./{tenant}/*/{Order_1-}/**".parse().unwrap();
        assert!(pattern.names().eq(["tenant", "Order_1-"]));
        assert_eq!((pattern.place("tenant"), pattern.place("Order_1-")), (Some(1), Some(3)));
        assert_eq!((pattern.place("order_1-"), pattern.place("*")), (None, None));
        let too_long = format!("/{{{}}}", "a".repeat(65));
        assert!(too_long.parse::<Pattern>().is_err());
    }

    #[test]
    fn patterns_that_differ_in_names_only_are_equal() {
        let [own, other, plain] =
            ["/a/{x}/{y}", "/a/{y}/*", "/a/*/*"].map(|text| text.parse::<Pattern>().unwrap());
        assert_eq!(own, other);
        assert_eq!(own, plain);
        assert_eq!(own.specificity(), plain.specificity());
        assert!(own.contains(&plain) && plain.contains(&own) && own.overlaps(&other));
        assert_ne!(own, "=/a/*/*".parse().unwrap());
    }
}
