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
//! | `/` | every request |
//! | `=/` | the root alone |

use crate::request::path::{self, Path};
use diana_base::sort;
use std::fmt;
use std::str::FromStr;

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
    /// The names of segments, each with its index in `segments`.
    names: Vec<(Box<str>, usize)>,
}

/// Two patterns are equal if they match the same paths, whatever the names of their segments.
impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.exact == other.exact && self.segments == other.segments
    }
}

impl Eq for Pattern {}

/// What a pattern requires of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// `*` or `{name}`: any one segment.
    Any,
    /// Exactly these bytes, in normal form.
    Literal(Box<[u8]>),
}

/// How specific a pattern is; the less specific pattern compares as less.
///
/// More segments are more specific. With equally many, the first segment that differs decides: a
/// literal is more specific than `*`. If all segments agree, `=` is more specific than no `=`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    segments: usize,
    literal: Vec<bool>,
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

    /// The place of the segment with this name, from 0.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().find(|(known, _)| **known == *name).map(|(_, place)| *place)
    }

    /// The names of the pattern's segments, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| &**name)
    }

    /// Whether the pattern matches this reading of a path.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let mut segments = path.segments();
        let is_matched = |expected: &Segment| match (expected, segments.next()) {
            (_, None) => false,
            (Segment::Any, Some(_)) => true,
            (Segment::Literal(bytes), Some(segment)) => **bytes == *segment,
        };
        self.segments.iter().all(is_matched) && (!self.exact || segments.next().is_none())
    }

    /// Whether this pattern matches every path that `other` matches.
    #[must_use]
    pub fn contains(&self, other: &Pattern) -> bool {
        let (own, others) = (&self.segments, &other.segments);
        let fits = match self.exact {
            true => other.exact && own.len() == others.len(),
            false => own.len() <= others.len(),
        };
        fits && own.iter().zip(others).all(|(own, other)| *own == Segment::Any || own == other)
    }

    /// Whether some path matches both patterns.
    #[must_use]
    pub fn overlaps(&self, other: &Pattern) -> bool {
        let (own, others) = (&self.segments, &other.segments);
        let is_long_enough =
            (!self.exact || others.len() <= own.len()) && (!other.exact || own.len() <= others.len());
        let is_one_segment = |(own, other): (&Segment, &Segment)| {
            *own == Segment::Any || *other == Segment::Any || own == other
        };
        is_long_enough && own.iter().zip(others).all(is_one_segment)
    }

    /// How specific the pattern is.
    #[must_use]
    pub fn specificity(&self) -> Specificity {
        Specificity {
            segments: self.segments.len(),
            literal: self.segments.iter().map(|segment| *segment != Segment::Any).collect(),
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
        for segment in &self.segments {
            match segment {
                Segment::Any => f.write_str("/*")?,
                Segment::Literal(bytes) => {
                    let (colon, rest) = match bytes.split_first() {
                        Some((b':', rest)) => ("%3A", rest),
                        _ => ("", &**bytes),
                    };
                    write!(f, "/{colon}{}", String::from_utf8_lossy(rest).replace('*', "%2A"))?;
                }
            }
        }
        Ok(())
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
    /// The text has a query or a fragment.
    Query,
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

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let (exact, path) = match text.strip_prefix('=') {
            Some(path) => (true, path),
            None => (false, text),
        };
        let rest = path.strip_prefix('/').ok_or(PatternError::NoSlash)?;
        if let Some((path, _)) = text.split_once(['?', '#']) {
            path.parse::<Pattern>()?;
            return Err(PatternError::Query);
        }
        let rest = match rest.trim_end_matches('/') {
            "**" => Some(""),
            rest => rest.strip_suffix("/**"),
        }
        .map_or(Ok(rest), |above| if exact { Err(PatternError::ExactAndBelow) } else { Ok(above) })?;
        let mut pattern = Pattern { segments: Vec::new(), exact, names: Vec::new() };
        for word in rest.split('/') {
            if let Some(name) = name(word)? {
                if pattern.place(name).is_some() {
                    return Err(PatternError::SameName(word.into()));
                }
                pattern.names.push((name.into(), pattern.segments.len()));
                pattern.segments.push(Segment::Any);
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

/// The name in `{name}`. A brace elsewhere is refused: a limit on a path with the character would
/// match nothing that its author expects.
fn name(word: &str) -> Result<Option<&str>, PatternError> {
    if !word.contains(['{', '}']) {
        return Ok(None);
    }
    let name = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let name = name.ok_or_else(|| PatternError::PartName(word.into()))?;
    if is_name(name) { Ok(Some(name)) } else { Err(PatternError::Name(word.into())) }
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
        ]);
        assert_eq!("/a%3ab".parse::<Pattern>(), "/a%3Ab".parse());
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
        ] {
            assert!(contains(own, other), "{own} {other}");
        }
        for (own, other) in
            [("/a", "/"), ("=/a", "/a"), ("=/a", "=/a/b"), ("/a", "/*"), ("/a", "/b"), ("=/*", "=/")]
        {
            assert!(!contains(own, other), "{own} {other}");
        }
    }

    #[test]
    fn the_less_specific_pattern_comes_first() {
        let ascending =
            ["/", "=/", "/*", "=/*", "/a", "=/a", "/*/*", "/*/b", "/a/*", "=/a/*", "/a/b", "=/a/b", "/a/*/c"];
        let order = |text: &str| text.parse::<Pattern>().unwrap().specificity();
        for pair in ascending.windows(2) {
            assert!(order(pair[0]) < order(pair[1]), "{pair:?}");
        }
        assert_eq!(order("/a"), order("/b/**"));
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
        ] {
            assert!(!overlaps(own, other), "{own} {other}");
        }
    }

    #[test]
    fn a_name_is_that_of_a_place() {
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
