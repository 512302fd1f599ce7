//! Finds the numbers at several pointers in a JSON document that arrives in chunks, in one pass. It
//! has constant size: a cursor for each pointer, and no part of the document.

use crate::key::Key;
use crate::number::Number;
use crate::pointer::{Name, Pointers};
use crate::syntax::{Event, Syntax};

/// The index within a list whose element was found: no further element is searched.
const PAST: u32 = u32::MAX;

/// Reads one JSON document (RFC 8259) in chunks of any size, for the number at each of several
/// pointers, which it reads as if each were alone. Methods take the index of the pointer.
///
/// - A number from 0 to 2^53 has a value. A fraction is rounded up: `12.0` is 12, `1.2e1` is 12,
///   `0.1` is 1. Other numbers, numbers with a minus sign, text and `null` have no value.
/// - Of equal keys the last one counts. Keys are compared with their escapes decoded.
/// - A document that is cut, malformed or nested more than 64 levels deep keeps the number that was
///   complete before. The reader ignores everything after the mistake, and after the document.
/// - The reader does not check that text is UTF-8. A lone surrogate in an escape is no mistake.
///
/// ```
/// use diana_response_meter::{JsonNumbers, Pointers};
///
/// let mut json = JsonNumbers::new(&Pointers::parse(["/usage/total_tokens", "/n"])?);
/// json.push(br#"{"n":3,"usage":{"total_to"#);
/// json.push(br#"kens":1"#);
/// assert_eq!(json.value(0), None, "another digit may follow");
/// json.push(br#"2.5}}"#);
/// assert_eq!((json.value(0), json.value(1)), (Some(13), Some(3)));
/// assert!(json.is_done());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct JsonNumbers {
    pointers: Pointers,
    syntax: Syntax,
    /// One for each pointer.
    cursors: Box<[Cursor]>,
}

/// Where the reader is on the path of one pointer, and what it found there.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    /// Names of the pointer that lead here. The current value is on the path if `hits` is the
    /// depth.
    hits: usize,
    /// The index of the current element in the innermost list on the path.
    index: u32,
    key: Key,
    found: Option<u64>,
    /// Whether the pointer leads to something else than a number with a value or `null`.
    is_unreadable: bool,
}

impl JsonNumbers {
    /// A reader before the first byte of a document.
    #[must_use]
    pub fn new(pointers: &Pointers) -> JsonNumbers {
        let cursors = vec![Cursor::START; pointers.len()].into();
        JsonNumbers { pointers: pointers.clone(), syntax: Syntax::START, cursors }
    }

    /// Reads the next bytes of the document.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.syntax.is_failed() {
            let (event, rest) = self.syntax.read(bytes);
            bytes = rest;
            let depth = self.syntax.depth();
            match event {
                Event::Nothing => {}
                // Until its end, a number has no value.
                Event::Scalar(byte) => self.found(depth, |cursor| cursor.is_unreadable = byte != b'n'),
                Event::Open { is_object } => {
                    self.found(depth.saturating_sub(1), |cursor| cursor.is_unreadable = true);
                    if !is_object {
                        self.start_element(|_| 0);
                    }
                }
                Event::Element => self.start_element(|index| index.saturating_add(1)),
                Event::Key => self.each(|cursor, names| {
                    let is_compared = cursor.is_inner_on_path(depth) && name(names, depth).is_some();
                    cursor.key = if is_compared { Key::EMPTY } else { Key::SKIPPED };
                }),
                Event::Run(run) => self.each_key(|cursor, name| cursor.key.push(run, name)),
                Event::Unit(unit) => self.each_key(|cursor, name| cursor.key.push_unit(unit, name)),
                Event::KeyEnd => self.each_key(|cursor, name| {
                    if cursor.key.equals(name) {
                        cursor.hits = depth;
                        // What an equal key had before no longer counts.
                        cursor.found = None;
                        cursor.is_unreadable = false;
                    }
                }),
                Event::NumberEnd(number) => {
                    let value = number.value();
                    self.found(depth, |cursor| {
                        cursor.found = value;
                        cursor.is_unreadable = value.is_none();
                    });
                    self.end_value();
                }
                Event::TextEnd | Event::LiteralEnd | Event::Close => self.end_value(),
            }
        }
    }

    /// The number at the pointer, as far as the document was read. A number that is the whole
    /// document is complete at the end of the document, so ask for the value after the last chunk.
    #[must_use]
    pub fn value(&self, at: usize) -> Option<u64> {
        match self.syntax.only_number().filter(|_| self.names(at).is_empty()) {
            Some(number) => number.value(),
            None => self.cursor(at)?.found,
        }
    }

    /// Whether further bytes change nothing: the document is malformed, or it is over and nothing
    /// behind it matters.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_known = |cursor: &Cursor| cursor.found.is_some() || cursor.is_unreadable;
        self.syntax.is_failed() || self.syntax.is_over() && self.cursors.iter().all(is_known)
    }

    /// Whether more of the document has to follow.
    pub(crate) fn is_within(&self) -> bool {
        !self.syntax.is_over() && !self.syntax.is_failed()
    }

    /// Whether the [value](JsonNumbers::value) is that of the document, which `has_ended` if no
    /// more bytes come. Otherwise the document may have a number that was not read: it is cut,
    /// malformed or followed by something else, or the pointer leads to no number from 0 to 2^53.
    #[must_use]
    pub fn is_final(&self, at: usize, has_ended: bool) -> bool {
        let Some(Cursor { found, is_unreadable, .. }) = self.cursor(at) else {
            return false;
        };
        let is_whole = self.syntax.is_over() || self.syntax.only_number().is_some_and(Number::is_complete);
        found.is_some() || has_ended && (is_whole && !is_unreadable || self.value(at).is_some())
    }

    /// Whether the pointer leads to something that has no value, as far as the document was read.
    pub(crate) fn is_unreadable(&self, at: usize) -> bool {
        self.cursor(at).is_some_and(|cursor| cursor.is_unreadable)
    }

    /// Ends the document early: further bytes exist, and are not read.
    pub(crate) fn stop(&mut self) {
        self.syntax.fail();
    }

    /// Starts another document with the same pointers.
    pub(crate) fn restart(&mut self) {
        self.syntax = Syntax::START;
        self.cursors.fill(Cursor::START);
    }

    fn cursor(&self, at: usize) -> Option<&Cursor> {
        debug_assert!(at < self.cursors.len(), "a pointer of another reader");
        self.cursors.get(at)
    }

    fn names(&self, at: usize) -> &[Name] {
        self.pointers.names(at)
    }

    /// Changes each cursor, which gets the names of its pointer.
    fn each(&mut self, mut change: impl FnMut(&mut Cursor, &[Name])) {
        for (cursor, names) in self.cursors.iter_mut().zip(self.pointers.iter()) {
            change(cursor, names);
        }
    }

    /// Changes the cursors whose pointers lead to the value that begins or ends at this depth.
    fn found(&mut self, depth: usize, change: impl Fn(&mut Cursor)) {
        self.each(|cursor, names| {
            if cursor.hits == depth && depth == names.len() {
                change(cursor);
            }
        });
    }

    /// Starts an element of the innermost list, where that is on the path and its current element
    /// is not.
    fn start_element(&mut self, index: impl Fn(u32) -> u32) {
        let depth = self.syntax.depth();
        self.each(|cursor, names| {
            if cursor.is_inner_on_path(depth) {
                cursor.index = index(cursor.index);
                if name(names, depth).is_some_and(|name| name.index == Some(cursor.index)) {
                    cursor.hits = depth;
                }
            }
        });
    }

    /// Leaves a value that has ended.
    fn end_value(&mut self) {
        let depth = self.syntax.depth();
        for cursor in &mut self.cursors {
            if cursor.hits >= depth {
                cursor.hits = depth.saturating_sub(1);
                cursor.index = PAST;
            }
        }
    }

    /// Reads a part of a key for each cursor, which gets the name that it searches for.
    fn each_key(&mut self, read: impl Fn(&mut Cursor, &[u8])) {
        if !self.syntax.is_key() {
            return;
        }
        let depth = self.syntax.depth();
        self.each(|cursor, names| read(cursor, name(names, depth).map_or(&[], |name| &name.key)));
    }
}

impl Cursor {
    const START: Cursor = Cursor { hits: 0, index: 0, key: Key::SKIPPED, found: None, is_unreadable: false };

    /// Whether the innermost object or list is on the path, and its current key or element is not.
    fn is_inner_on_path(&self, depth: usize) -> bool {
        self.hits.saturating_add(1) == depth
    }
}

/// The name that the innermost object or list is searched for.
fn name(names: &[Name], depth: usize) -> Option<&Name> {
    names.get(depth.checked_sub(1)?)
}
