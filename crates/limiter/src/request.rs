//! The parts of a request that a policy may read, which the engine asks the host for on demand.
//! They are bytes that the client chose, and a header may have several lines, which any hop can add
//! or join (see [`Joined`]), so a caller says which of them it means.
//!
//! ```text
//!   compile time    Parts::intern(Part::Header("x-user-id"))  ─►  PartId
//!   request time    Request::lines(PartId)  ─►  Source::lines  ─►  lines, possibly none
//! ```

pub mod claims;
pub mod joined;
pub mod pairs;
pub mod path;
pub mod protocol;
pub mod syntax;

use claims::ClaimValue;
use diana_base::format::{decimal, netstring};
use diana_base::map::KeySet;
use diana_base::widened;
use joined::Joined;
use pairs::Pairs;
use std::borrow::Cow;
use std::cell::Cell;

/// A part of a request. Header names are lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The request target as it was sent, query included: `:path`.
    Path,
    /// The method: `:method`.
    Method,
    /// The requested host, possibly with a port: `:authority`, or `host`.
    Host,
    /// The client address that the host reports, possibly with a port.
    Address,
    /// The header of this name; it may have several lines.
    Header(Box<str>),
    /// A host attribute, by its path: `["xds", "route_name"]`.
    Property(Vec<Box<str>>),
    /// The declared size of the body in bytes, in decimal: `content-length`, or `0` if the request
    /// ends with its headers. Absent if the size is unknown: of a chunked body, and of a request
    /// that becomes a tunnel, whatever it declares. That is one with `upgrade`, or `CONNECT`.
    BodySize,
    /// A value in the request's body: text, a whole number in its shortest decimal form, `true` or
    /// `false`. Absent if the body has nothing there, or `null`. [`HeaderLines::Unread`] if the
    /// body or the value could not be read.
    RequestJson(JsonPart),
}

/// Where a value in the request's body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPart {
    /// A JSON pointer (RFC 6901).
    pub pointer: Box<str>,
    /// Whether the part is a fingerprint: bytes that identify the value, which may also be an
    /// object or a list. Equal values have equal bytes.
    pub is_fingerprint: bool,
}

/// Reads the parts of one request: the host, or a test.
///
/// ```
/// use diana_limiter::request::claims::ClaimValue;
/// use diana_limiter::request::{HeaderLines, Part, PartId, Parts, Request, Source};
///
/// /// A request whose headers each have one line.
/// struct Incoming {
///     target: &'static str,
///     headers: Vec<(&'static str, &'static str)>,
/// }
///
/// impl Source for Incoming {
///     fn lines<'s>(&'s self, _: PartId, part: &'s Part) -> HeaderLines<'s> {
///         let header = |name: &str| self.headers.iter().find(|(known, _)| *known == name);
///         let line = match part {
///             Part::Path => Some(self.target),
///             Part::Header(name) => header(name).map(|(_, line)| *line),
///             _ => None,
///         };
///         HeaderLines::One(line.map(str::as_bytes))
///     }
///
///     /// No rule of this host reads tokens.
///     fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
///         None
///     }
/// }
///
/// let mut parts = Parts::default();
/// let plan = parts.intern(Part::Header("x-plan".into()));
/// let incoming = Incoming { target: "/orders", headers: vec![("x-plan", "free")] };
/// assert_eq!(Request::new(&incoming, &parts).get(plan), Some(&b"free"[..]));
/// ```
pub trait Source {
    /// All lines of `part`, in the order they were sent. Absent parts have none. The path, the
    /// method, the host, the address, a property and a part of the body have at most one. A host
    /// that joins the lines of a header returns [`HeaderLines::Joined`], and one that cannot read
    /// the body [`HeaderLines::Unread`].
    ///
    /// The engine may ask for the same part several times, so an implementation for which reading
    /// is expensive caches the part. `id` distinguishes the parts of one policy.
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s>;

    /// The claim of a bearer token (RFC 7519, in compact form) at a dotted path, in which `\\.` is
    /// a dot within a name. `None` if the token is not readable or has no such claim. The signature
    /// need not be verified here.
    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue>;

    /// The query of [`Part::Path`], empty without one, if reading it is cheaper than reading the
    /// path. Otherwise `None`: the caller then reads the path.
    fn query(&self) -> Option<Vec<u8>> {
        None
    }
}

/// The lines of one part, borrowed from the source.
#[derive(Clone, Debug)]
pub enum HeaderLines<'a> {
    /// At most one line.
    One(Option<&'a [u8]>),
    /// There may be a line, but the host could not read it.
    Unread,
    /// The lines of all headers that have this name.
    Named(Pairs<'a>, &'a [u8]),
    /// A value that the host joined. Each run of pieces may be a line.
    Joined(Joined<'a>),
    /// The lines of a request made of [`Values`].
    Values(std::slice::Iter<'a, (Part, Vec<u8>)>, &'a Part),
}

impl HeaderLines<'_> {
    /// Whether there may be a line that the host could not read.
    #[must_use]
    pub(crate) fn are_unread(&self) -> bool {
        matches!(self, HeaderLines::Unread)
    }

    /// Whether there are too many lines to examine. The caller then assumes that limits apply.
    #[must_use]
    pub(crate) fn are_too_many(&self) -> bool {
        match self {
            HeaderLines::Joined(runs) => runs.has_too_many_runs(),
            lines => lines.are_unread(),
        }
    }
}

impl<'a> Iterator for HeaderLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            HeaderLines::One(line) => line.take(),
            HeaderLines::Unread => None,
            HeaderLines::Joined(runs) => runs.next(),
            HeaderLines::Named(pairs, name) => {
                pairs.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
            }
            HeaderLines::Values(values, part) => {
                values.find(|(known, _)| known == *part).map(|(_, line)| line.as_slice())
            }
        }
    }
}

/// Identifies a part that some policy uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartId(usize);

impl PartId {
    /// The index: 0 up to the number of parts, exclusive.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// All parts that a policy uses, each once.
#[derive(Debug, Default)]
pub struct Parts {
    parts: Vec<Part>,
    /// The canonical text of each part.
    known: KeySet,
}

/// The most steps of a property's path.
const MAX_STEPS: usize = 16;

/// The most names of a pointer, and its most bytes.
const MAX_NAMES: usize = 64;
const MAX_POINTER_BYTES: usize = 1_024;

/// The first words of the canonical text of [`Part::RequestJson`], and of an actor or a condition
/// that reads it.
pub(crate) const REQUEST_JSON: &str = "request json ";

impl Part {
    /// The header of this name, in any case. `None` if the name is no token (RFC 9110, section
    /// 5.1), or that of [`Part::Host`].
    #[must_use]
    pub fn header(name: &str) -> Option<Part> {
        let is_header = syntax::is_token(name.as_bytes()) && !name.eq_ignore_ascii_case("host");
        is_header.then(|| Part::Header(name.to_ascii_lowercase().into()))
    }

    /// The host attribute at this path of 1 to 16 steps. A step must not be empty or contain NUL:
    /// hosts take a path as one text with a NUL between its steps.
    #[must_use]
    pub fn property(steps: Vec<Box<str>>) -> Option<Part> {
        let is_step = |step: &str| !step.is_empty() && !step.contains('\0');
        let is_path = (1..=MAX_STEPS).contains(&steps.len()) && steps.iter().all(|step| is_step(step));
        is_path.then_some(Part::Property(steps))
    }

    /// The value at this JSON pointer of 1 to 64 names and at most 1,024 bytes.
    #[must_use]
    pub fn request_json(pointer: &str) -> Option<Part> {
        let bytes = pointer.as_bytes();
        let is_escape = |behind: &[u8]| matches!(behind, [b'0' | b'1', ..]);
        let names = bytes.iter().filter(|byte| **byte == b'/').count();
        let is_pointer = bytes.first() == Some(&b'/')
            && bytes.len() <= MAX_POINTER_BYTES
            && names <= MAX_NAMES
            && bytes.split(|byte| *byte == b'~').skip(1).all(is_escape);
        let part = || JsonPart { pointer: pointer.into(), is_fingerprint: false };
        is_pointer.then(|| Part::RequestJson(part()))
    }

    /// The fingerprint of the value at this JSON pointer of 1 to 64 names and at most 1,024 bytes.
    #[must_use]
    pub fn fingerprint(pointer: &str) -> Option<Part> {
        let Part::RequestJson(part) = Part::request_json(pointer)? else {
            return None;
        };
        Some(Part::RequestJson(JsonPart { is_fingerprint: true, ..part }))
    }

    /// The part in canonical text. Two parts have the same text only if they are equal.
    fn canonical_form(&self) -> String {
        match self {
            Part::Path => "path".into(),
            Part::Method => "method".into(),
            Part::Host => "host".into(),
            Part::Address => "address".into(),
            Part::BodySize => "body size".into(),
            Part::Header(name) => ["header ", &netstring(name)].concat(),
            Part::RequestJson(part) => {
                let kind = if part.is_fingerprint { "fingerprint " } else { "" };
                [REQUEST_JSON, kind, &netstring(&part.pointer)].concat()
            }
            Part::Property(path) => {
                let steps: Vec<String> = path.iter().map(|step| netstring(step)).collect();
                ["property ", &decimal(widened(steps.len())), " ", &steps.concat()].concat()
            }
        }
    }
}

impl Parts {
    /// The canonical text of a part.
    pub fn canonical_form(&self, id: PartId) -> String {
        let part = self.get(id);
        debug_assert!(part.is_some(), "a part of another policy");
        part.map(Part::canonical_form).unwrap_or_default()
    }

    /// The identifier of `part`. A new part is added.
    pub fn intern(&mut self, part: Part) -> PartId {
        let text = part.canonical_form();
        if let Some(known) = self.known.place(text.as_bytes()) {
            return PartId(known);
        }
        self.known.add(text.as_bytes());
        self.parts.push(part);
        PartId(self.parts.len().saturating_sub(1))
    }

    /// The part with this identifier.
    #[must_use]
    pub fn get(&self, id: PartId) -> Option<&Part> {
        self.parts.get(id.0)
    }

    /// All parts in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }
}

/// The work limit for the regular expressions of a policy, per request. One unit is one byte of a
/// value times one byte of the compiled expression.
pub(crate) const MAX_WORK: u64 = 1 << 26;

/// One request.
///
/// ```
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let mut parts = Parts::default();
/// let cookie = parts.intern(Part::Header("cookie".into()));
/// let values = Values::default()
///     .with(Part::Header("cookie".into()), "a=1")
///     .with(Part::Header("cookie".into()), "b=2");
/// let request = Request::new(&values, &parts);
/// assert!(request.lines(cookie).eq([b"a=1", b"b=2"]));
/// assert_eq!(request.get(cookie), None, "the lines differ");
/// ```
pub struct Request<'a> {
    source: &'a dyn Source,
    parts: &'a Parts,
    /// The remaining work.
    work: Cell<u64>,
}

impl<'a> Request<'a> {
    /// A request of which nothing has been read yet.
    pub fn new(source: &'a dyn Source, parts: &'a Parts) -> Request<'a> {
        Request { source, parts, work: Cell::new(MAX_WORK) }
    }

    /// Subtracts `work` from the remaining work and returns whether enough remained. If not, the
    /// caller must skip the work, because the client controls how much there is.
    pub(crate) fn try_spend_work(&self, work: u64) -> bool {
        let left = self.work.get().checked_sub(work);
        left.into_iter().for_each(|left| self.work.set(left));
        left.is_some()
    }

    /// All lines of a part, in order; none if the part is absent. If the host joined the lines,
    /// every run of pieces that may be a line: more lines than the client sent.
    pub fn lines(&self, id: PartId) -> HeaderLines<'a> {
        let part = self.parts.get(id);
        debug_assert!(part.is_some(), "a part of another policy");
        part.map_or(HeaderLines::One(None), |part| self.source.lines(id, part))
    }

    /// Whether a part of the body may have a number that cannot be read: there is something, or
    /// there may be.
    pub(crate) fn may_hide_number(&self, id: PartId) -> bool {
        let is_of_body = matches!(self.parts.get(id), Some(Part::RequestJson(_)));
        is_of_body && !matches!(self.lines(id), HeaderLines::One(None))
    }

    /// The query of the request target `path`; empty without one.
    pub(crate) fn query(&self, path: PartId) -> Cow<'a, [u8]> {
        let of_path = || {
            let target = self.get(path).unwrap_or_default();
            Cow::Borrowed(target.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default())
        };
        self.source.query().map_or_else(of_path, Cow::Owned)
    }

    /// The claim of a bearer token at a dotted path: see [`Source::claim`].
    pub(crate) fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.source.claim(token, path)
    }

    /// The lines of a part that is one list across all of its lines, such as `cookie`. Joined lines
    /// are the same list.
    pub fn list(&self, id: PartId) -> HeaderLines<'a> {
        match self.lines(id) {
            HeaderLines::Joined(joined) => HeaderLines::One(Some(joined.value())),
            lines => lines,
        }
    }

    /// The value of a part if all of its lines are the same bytes. `None` if the part is absent or
    /// if its lines differ.
    ///
    /// Backends disagree about differing lines: some take the first, some the last, some join them.
    /// If one line were chosen here, a client could add a line that is counted and that the backend
    /// ignores.
    pub fn get(&self, id: PartId) -> Option<&'a [u8]> {
        let mut lines = match self.lines(id) {
            HeaderLines::One(line) => return line,
            HeaderLines::Named(pairs, name) => return pairs.only(name),
            HeaderLines::Joined(joined) => return joined.only(),
            lines => lines,
        };
        let first = lines.next()?;
        lines.all(|line| line == first).then_some(first)
    }
}

/// A request made of values, for hosts that have all parts at hand, for native tools and for tests.
///
/// ```
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let mut parts = Parts::default();
/// let method = parts.intern(Part::Method);
/// let values = Values::default().with(Part::Method, "GET").with(Part::Path, "/orders");
/// assert_eq!(Request::new(&values, &parts).get(method), Some(&b"GET"[..]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Values {
    lines: Vec<(Part, Vec<u8>)>,
    claims: Option<ReadClaim>,
}

/// Reads a claim: see [`Source::claim`].
type ReadClaim = fn(&[u8], &str) -> Option<ClaimValue>;

impl Values {
    /// The same request, whose bearer tokens are read by `claim`. Without it, no token is readable.
    #[must_use]
    pub fn with_claims(self, claim: fn(&[u8], &str) -> Option<ClaimValue>) -> Values {
        Values { claims: Some(claim), ..self }
    }

    /// The same request with one more line of `part` after its existing lines.
    pub fn with(mut self, part: Part, line: impl Into<Vec<u8>>) -> Values {
        self.lines.push((part, line.into()));
        self
    }
}

impl Source for Values {
    fn lines<'s>(&'s self, _: PartId, part: &'s Part) -> HeaderLines<'s> {
        HeaderLines::Values(self.lines.iter(), part)
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.claims?(token, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counting(Cell<u32>);
    impl Source for Counting {
        fn lines<'s>(&'s self, _: PartId, part: &'s Part) -> HeaderLines<'s> {
            self.0.set(self.0.get() + 1);
            HeaderLines::One((*part == Part::Path).then_some(b"/"))
        }

        fn claim(&self, _: &[u8], _: &str) -> Option<ClaimValue> {
            None
        }
    }

    #[test]
    fn a_part_is_read_only_when_asked_for() {
        let mut parts = Parts::default();
        let (path, method) = (parts.intern(Part::Path), parts.intern(Part::Method));
        assert_eq!(parts.intern(Part::Path), path);
        let source = Counting(Cell::new(0));
        let request = Request::new(&source, &parts);
        assert_eq!(source.0.get(), 0);
        assert_eq!(request.get(path), Some(&b"/"[..]));
        assert_eq!(request.get(method), None);
        assert_eq!(request.lines(method).count(), 0);
        assert_eq!(source.0.get(), 3);
    }

    #[test]
    fn differing_lines_have_no_value() {
        for (lines, value) in [
            (&[][..], None),
            (&["a"], Some("a")),
            (&["a", "a"], Some("a")),
            (&["a", "a", "b"], None),
            (&["b", "a"], None),
            (&["a", "A"], None),
            (&["a", ""], None),
            (&["", ""], Some("")),
        ] {
            let mut parts = Parts::default();
            let header = parts.intern(Part::Header("a".into()));
            let other = Values::default().with(Part::Header("b".into()), "x");
            let values =
                lines.iter().fold(other, |values, line| values.with(Part::Header("a".into()), *line));
            let request = Request::new(&values, &parts);
            assert!(request.lines(header).eq(lines.iter().map(|line| line.as_bytes())), "{lines:?}");
            assert_eq!(request.get(header), value.map(str::as_bytes), "{lines:?}");
        }
    }
}
