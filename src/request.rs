//! The parts of a request that a policy may look at, read from the host one by one and only when asked.
//!
//! It does not know: who reads a part (that is [`Source`]), nor what a rule makes of it. A part is bytes:
//! clients send what they like.
//!
//! ```text
//!   compile time    Parts::intern(Part::Header("x-user-id"))  ─►  PartId
//!   request time    Request::lines(PartId)  ─►  Source::read, once  ─►  lines, none of them if it is absent
//! ```
//!
//! A header may stand in a request several times, and anybody on the way can add a line in front or behind.
//! So there are two ways to ask: all lines in order, or the one value that every line agrees on.

pub mod escape;
pub mod host;
pub mod path;
pub mod token;

use std::cell::OnceCell;

/// A part of a request. Header names are lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The request target as it was sent, query included: `:path`.
    Path,
    /// The method: `:method`.
    Method,
    /// The host asked for, possibly with a port: `:authority`, or `host`.
    Host,
    /// The address the host reports for the client, possibly with a port.
    Address,
    /// The header of this name, which may stand in several lines.
    Header(Box<str>),
    /// An attribute of the host's own, by its path: `["xds", "route_name"]`.
    Property(Vec<Box<str>>),
}

/// Who can read the parts of one request: the host, or a test.
pub trait Source {
    /// All lines of `part`, in the order they were sent: none when the request has no such part, and at most
    /// one for what cannot stand twice, as the path, the method, the host, the address and a property.
    fn read(&self, part: &Part) -> Vec<Vec<u8>>;
}

/// Names a part that some policy uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartId(usize);

/// All parts that a policy uses, each once.
#[derive(Debug, Default)]
pub struct Parts(Vec<Part>);

impl Parts {
    /// The name of `part`, which is added if it is new.
    pub fn intern(&mut self, part: Part) -> PartId {
        if let Some(known) = self.0.iter().position(|known| *known == part) {
            return PartId(known);
        }
        self.0.push(part);
        PartId(self.0.len().saturating_sub(1))
    }
}

/// One request: reads a part from its source the first time it is asked for.
pub struct Request<'a> {
    source: &'a dyn Source,
    parts: &'a Parts,
    read: Vec<OnceCell<Vec<Vec<u8>>>>,
}

impl<'a> Request<'a> {
    /// A request of which nothing has been read yet.
    pub fn new(source: &'a dyn Source, parts: &'a Parts) -> Request<'a> {
        Request { source, parts, read: vec![OnceCell::new(); parts.0.len()] }
    }

    /// All lines of a part, in order; none when the request lacks it.
    pub fn lines(&self, id: PartId) -> &[Vec<u8>] {
        let Some((part, read)) = self.parts.0.get(id.0).zip(self.read.get(id.0)) else { return &[] };
        read.get_or_init(|| self.source.read(part))
    }

    /// The value of a part that has one: all its lines are the same bytes. `None` when the request lacks the
    /// part, and when lines differ: one backend takes the first of them, another the last, a third joins
    /// them. Whichever was taken here, a client could add a line of its own that is counted and not believed.
    pub fn get(&self, id: PartId) -> Option<&[u8]> {
        let (first, others) = self.lines(id).split_first()?;
        others.iter().all(|line| line == first).then_some(first)
    }
}

/// A request made of values, for tests and native tools.
#[derive(Clone, Debug, Default)]
pub struct Values(Vec<(Part, Vec<u8>)>);

impl Values {
    /// The same request with one more line of `part`, behind those it has.
    pub fn with(mut self, part: Part, line: impl Into<Vec<u8>>) -> Values {
        self.0.push((part, line.into()));
        self
    }
}

impl Source for Values {
    fn read(&self, part: &Part) -> Vec<Vec<u8>> {
        self.0.iter().filter(|(known, _)| known == part).map(|(_, line)| line.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counting(Cell<u32>);
    impl Source for Counting {
        fn read(&self, part: &Part) -> Vec<Vec<u8>> {
            self.0.set(self.0.get() + 1);
            if *part == Part::Path { vec![b"/".to_vec()] } else { vec![] }
        }
    }

    #[test]
    fn a_part_is_read_once_and_only_when_asked_for() {
        let mut parts = Parts::default();
        let (path, method) = (parts.intern(Part::Path), parts.intern(Part::Method));
        assert_eq!(parts.intern(Part::Path), path);
        let source = Counting(Cell::new(0));
        let request = Request::new(&source, &parts);
        assert_eq!(source.0.get(), 0);
        for _ in 0..3 {
            assert_eq!(request.get(path), Some(&b"/"[..]));
            assert_eq!(request.get(method), None);
            assert!(request.lines(method).is_empty());
        }
        assert_eq!(source.0.get(), 2);
    }

    #[test]
    fn lines_that_differ_are_no_value() {
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
            assert!(request.lines(header).iter().eq(lines.iter().map(|line| line.as_bytes())), "{lines:?}");
            assert_eq!(request.get(header), value.map(str::as_bytes), "{lines:?}");
        }
    }
}
