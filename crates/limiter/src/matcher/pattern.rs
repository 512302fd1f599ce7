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

mod parse;

use crate::request::path::Path;
use diana_document::Node;
use std::fmt;

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
/// # Ok::<(), String>(())
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
    /// Reads a pattern. A mistake is reported at its place.
    #[must_use]
    pub fn parse(node: Node) -> Option<Pattern> {
        node.text()?.parse().map_err(|why: String| node.fail(why)).ok()
    }

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
    ///
    /// ```
    /// use diana_limiter::matcher::pattern::Pattern;
    ///
    /// let orders: Pattern = "/tenants/{tenant}/orders".parse()?;
    /// assert_eq!(orders.place("tenant"), Some(1));
    /// assert_eq!(orders.place("Tenant"), None);
    /// assert_eq!(orders, "/tenants/*/orders".parse()?, "a name changes no match");
    /// # Ok::<(), String>(())
    /// ```
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

/// Whether `text` may name a segment: 1 to 64 ASCII letters, digits, `_` and `-`.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

/// The letters and the length of a segment's name, for messages.
pub(crate) fn allowed_name() -> String {
    format!("1 to {MAX_NAME_BYTES} of A to Z, a to z, 0 to 9, `_` and `-`")
}

#[cfg(test)]
mod tests;
