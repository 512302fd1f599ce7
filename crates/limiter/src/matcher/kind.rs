//! The trait of all kinds of condition, and the description of a kind.

use crate::request::{Parts, Request};
use diana_document::Node;
use std::fmt;

/// One condition of a limit.
///
/// ```
/// use diana_limiter::matcher::Matcher;
/// use diana_limiter::request::{Part, PartId, Parts, Request, Values};
///
/// /// Matches requests with a query.
/// struct HasQuery(PartId);
///
/// impl Matcher for HasQuery {
///     fn matches(&self, request: &Request) -> bool {
///         request.lines(self.0).any(|target| target.contains(&b'?'))
///     }
///
///     fn canonical_form(&self, _: &Parts) -> String {
///         "has a query".into()
///     }
/// }
///
/// let mut parts = Parts::default();
/// let condition = HasQuery(parts.intern(Part::Path));
/// let matches = |target: &str| {
///     let values = Values::default().with(Part::Path, target);
///     condition.matches(&Request::new(&values, &parts))
/// };
/// assert!(matches("/search?q=a") && !matches("/search"));
/// ```
pub trait Matcher: Send + Sync {
    /// Whether the request matches. An absent part matches only a condition that asks for its
    /// absence. If a part has several lines, one matching line is enough. Otherwise a client could
    /// bypass a limit by adding lines before the line that counts.
    fn matches(&self, request: &Request) -> bool;

    /// The condition in canonical text, made of compiled values. Two conditions with the same text
    /// match the same requests, however they are spelt.
    fn canonical_form(&self, parts: &Parts) -> String;

    /// Whether the request matches whichever line of a part counts. A line that a client added must
    /// not exempt the request from other limits.
    fn is_certain(&self, request: &Request) -> bool {
        self.matches(request)
    }
}

impl fmt::Debug for dyn Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Matcher")
    }
}

/// A kind of condition: the key that configures the kind in a limit, and its compiler.
pub struct ConditionKind {
    /// The key in a limit.
    pub key: &'static str,
    /// Compiles the value at that key. Reports each mistake at its place and then returns `None`.
    pub compile: fn(Node, &mut Parts) -> Option<Box<dyn Matcher>>,
}
