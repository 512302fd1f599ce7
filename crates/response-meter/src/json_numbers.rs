//! Finds the numbers at several pointers in a JSON document that arrives in chunks, in one pass. A
//! state machine of constant size: it keeps a bit for each open object or list, a cursor for each
//! pointer, and no part of the document.

use crate::key::Key;
use crate::number::{Number, Step};
use crate::pointer::{MAX_DEPTH, Name, Pointers};

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
    state: State,
    /// One for each pointer.
    cursors: Box<[Cursor]>,
}

/// All that the reader remembers of the document. `Copy`, so nothing in it grows.
#[derive(Clone, Copy)]
pub(crate) struct State {
    next: Next,
    /// Open objects and lists.
    depth: usize,
    /// A bit for each of the `MAX_DEPTH` at most, the innermost one lowest: 1 for an object.
    kinds: u64,
    is_key: bool,
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

/// What the next byte may be.
#[derive(Clone, Copy)]
enum Next {
    Value,
    /// Behind `[`.
    ValueOrEnd,
    Key,
    /// Behind `{`.
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    /// Within a string, then within an escape, then within the digits of an escape.
    Text,
    Escape,
    Digits {
        unit: u16,
        left: u8,
    },
    /// The rest of `true`, `false` or `null`.
    Literal(&'static [u8]),
    Number(Number),
    /// White space: the document is over.
    Over,
    /// Nothing: the document is malformed, or is not read any further.
    Failed,
}

impl JsonNumbers {
    /// A reader before the first byte of a document.
    #[must_use]
    pub fn new(pointers: &Pointers) -> JsonNumbers {
        let cursors = vec![Cursor::START; pointers.len()].into();
        JsonNumbers { pointers: pointers.clone(), state: State::START, cursors }
    }

    /// Reads the next bytes of the document.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            bytes = match self.state.next {
                Next::Failed => return,
                Next::Text => self.text(bytes),
                _ => {
                    self.step(*byte);
                    rest
                }
            }
        }
    }

    /// The number at the pointer, as far as the document was read. A number that is the whole
    /// document is complete at the end of the document, so ask for the value after the last chunk.
    #[must_use]
    pub fn value(&self, at: usize) -> Option<u64> {
        match self.state.next {
            Next::Number(number) if self.state.depth == 0 && self.names(at).is_empty() => number.value(),
            _ => self.cursor(at)?.found,
        }
    }

    /// Whether further bytes change nothing: the document is malformed, or it is over and nothing
    /// behind it matters.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_known = |cursor: &Cursor| cursor.found.is_some() || cursor.is_unreadable;
        match self.state.next {
            Next::Failed => true,
            Next::Over => self.cursors.iter().all(is_known),
            _ => false,
        }
    }

    /// Whether more of the document has to follow.
    pub(crate) fn is_within(&self) -> bool {
        !matches!(self.state.next, Next::Over | Next::Failed)
    }

    /// Whether the [value](JsonNumbers::value) is that of the document, which `has_ended` if no
    /// more bytes come. Otherwise the document may have a number that was not read: it is cut,
    /// malformed or followed by something else, or the pointer leads to no number from 0 to 2^53.
    #[must_use]
    pub fn is_final(&self, at: usize, has_ended: bool) -> bool {
        let Some(Cursor { found, is_unreadable, .. }) = self.cursor(at) else {
            return false;
        };
        let is_whole = match self.state.next {
            Next::Over => true,
            Next::Number(number) => self.state.depth == 0 && number.is_complete(),
            _ => false,
        };
        found.is_some() || has_ended && (is_whole && !is_unreadable || self.value(at).is_some())
    }

    /// Whether the pointer leads to something that has no value, as far as the document was read.
    pub(crate) fn is_unreadable(&self, at: usize) -> bool {
        self.cursor(at).is_some_and(|cursor| cursor.is_unreadable)
    }

    /// Ends the document early: further bytes exist, and are not read.
    pub(crate) fn stop(&mut self) {
        self.state.next = Next::Failed;
    }

    /// Starts another document with the same pointers.
    pub(crate) fn restart(&mut self) {
        self.state = State::START;
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

    /// Changes the cursors whose pointers lead to the current value.
    fn found_here(&mut self, change: impl Fn(&mut Cursor)) {
        let depth = self.state.depth;
        self.each(|cursor, names| {
            if cursor.hits == depth && depth == names.len() {
                change(cursor);
            }
        });
    }

    /// Reads a byte outside a string, or within an escape.
    fn step(&mut self, byte: u8) {
        if let Next::Number(number) = &mut self.state.next {
            match number.push(byte) {
                Step::More => return,
                Step::End => {
                    let value = number.value();
                    self.found_here(|cursor| {
                        cursor.found = value;
                        cursor.is_unreadable = value.is_none();
                    });
                    self.end_value();
                }
                Step::Malformed => self.state.next = Next::Failed,
            }
        }
        let begins_value = matches!(self.state.next, Next::Value | Next::ValueOrEnd) && byte != b']';
        if begins_value && !byte.is_ascii_whitespace() {
            // Until its end, a number has no value.
            self.found_here(|cursor| cursor.is_unreadable = byte != b'n');
        }
        let is_object = self.state.kinds & 1 == 1;
        let next = match (self.state.next, byte) {
            (Next::Escape, _) => self.escape(byte),
            (Next::Digits { unit, left }, _) => self.digit(unit, left, byte),
            (Next::Literal([first, rest @ ..]), _) if *first == byte => match rest {
                [] => return self.end_value(),
                _ => Next::Literal(rest),
            },
            (Next::Literal(_), _) => Next::Failed,
            (_, b' ' | b'\t' | b'\n' | b'\r') => return,
            (Next::Value | Next::ValueOrEnd, _) => match byte {
                b'{' => return self.open(1, Next::KeyOrEnd),
                b'[' => return self.open(0, Next::ValueOrEnd),
                b'"' => self.start_text(false),
                b'-' | b'0'..=b'9' => Next::Number(Number::new(byte)),
                b't' => Next::Literal(b"rue"),
                b'f' => Next::Literal(b"alse"),
                b'n' => Next::Literal(b"ull"),
                b']' if matches!(self.state.next, Next::ValueOrEnd) => return self.close(),
                _ => Next::Failed,
            },
            (Next::Key | Next::KeyOrEnd, b'"') => self.start_text(true),
            (Next::KeyOrEnd, b'}') => return self.close(),
            (Next::Colon, b':') => Next::Value,
            (Next::CommaOrEnd, b',') if is_object => Next::Key,
            (Next::CommaOrEnd, b',') => {
                self.start_element(|index| index.saturating_add(1));
                Next::Value
            }
            (Next::CommaOrEnd, b'}') if is_object => return self.close(),
            (Next::CommaOrEnd, b']') if !is_object => return self.close(),
            _ => Next::Failed,
        };
        self.state.next = next;
    }

    /// Opens an object, `kind` 1, or a list, `kind` 0.
    fn open(&mut self, kind: u64, next: Next) {
        let state = &mut self.state;
        if state.depth == MAX_DEPTH {
            state.next = Next::Failed;
            return;
        }
        state.next = next;
        state.kinds = state.kinds << 1 | kind;
        state.depth = state.depth.saturating_add(1);
        if kind == 0 {
            self.start_element(|_| 0);
        }
    }

    fn close(&mut self) {
        self.state.kinds >>= 1;
        self.state.depth = self.state.depth.saturating_sub(1);
        self.end_value();
    }

    /// Starts an element of the innermost list, where that is on the path and its current element
    /// is not.
    fn start_element(&mut self, index: impl Fn(u32) -> u32) {
        let depth = self.state.depth;
        self.each(|cursor, names| {
            if cursor.is_inner_on_path(depth) {
                cursor.index = index(cursor.index);
                if name(names, depth).is_some_and(|name| name.index == Some(cursor.index)) {
                    cursor.hits = depth;
                }
            }
        });
    }

    /// Ends a value, whose object or list goes on.
    fn end_value(&mut self) {
        let depth = self.state.depth;
        for cursor in &mut self.cursors {
            if cursor.hits >= depth {
                cursor.hits = depth.saturating_sub(1);
                cursor.index = PAST;
            }
        }
        self.state.next = if depth == 0 { Next::Over } else { Next::CommaOrEnd };
    }

    fn start_text(&mut self, is_key: bool) -> Next {
        self.state.is_key = is_key;
        if is_key {
            let depth = self.state.depth;
            self.each(|cursor, names| {
                let is_compared = cursor.is_inner_on_path(depth) && name(names, depth).is_some();
                cursor.key = if is_compared { Key::EMPTY } else { Key::SKIPPED };
            });
        }
        Next::Text
    }

    /// Reads a part of a key for each cursor, which gets the name that it searches for.
    fn each_key(&mut self, read: impl Fn(&mut Cursor, &[u8])) {
        if !self.state.is_key {
            return;
        }
        let depth = self.state.depth;
        self.each(|cursor, names| read(cursor, name(names, depth).map_or(&[], |name| &name.key)));
    }

    /// Reads the bytes of a string up to its end, its next escape, or the end of the chunk. Returns
    /// the bytes behind.
    fn text<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let is_special = |byte: &u8| matches!(*byte, b'"' | b'\\' | 0..b' ');
        let end = bytes.iter().position(is_special).unwrap_or(bytes.len());
        let (run, rest) = bytes.split_at_checked(end).unwrap_or_default();
        self.each_key(|cursor, name| cursor.key.push(run, name));
        let Some((special, rest)) = rest.split_first() else {
            return rest;
        };
        match special {
            b'\\' => self.state.next = Next::Escape,
            b'"' if self.state.is_key => {
                self.state.next = Next::Colon;
                let depth = self.state.depth;
                self.each_key(|cursor, name| {
                    if cursor.key.equals(name) {
                        cursor.hits = depth;
                        // What an equal key had before no longer counts.
                        cursor.found = None;
                        cursor.is_unreadable = false;
                    }
                });
            }
            b'"' => self.end_value(),
            _ => self.state.next = Next::Failed,
        }
        rest
    }

    /// Reads the byte behind a backslash.
    fn escape(&mut self, byte: u8) -> Next {
        let letter = match byte {
            b'u' => return Next::Digits { unit: 0, left: 4 },
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            _ => return Next::Failed,
        };
        self.push_unit(u16::from(letter))
    }

    /// Reads a hexadecimal digit of an escape that has `left` digits left.
    fn digit(&mut self, unit: u16, left: u8, byte: u8) -> Next {
        let digit = match byte {
            b'0'..=b'9' => byte & 0xf,
            b'a'..=b'f' | b'A'..=b'F' => (byte & 0xf).saturating_add(9),
            _ => return Next::Failed,
        };
        let unit = unit << 4 | u16::from(digit);
        match left {
            1 => self.push_unit(unit),
            _ => Next::Digits { unit, left: left.saturating_sub(1) },
        }
    }

    fn push_unit(&mut self, unit: u16) -> Next {
        self.each_key(|cursor, name| cursor.key.push_unit(unit, name));
        Next::Text
    }
}

impl State {
    const START: State = State { next: Next::Value, depth: 0, kinds: 0, is_key: false };
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
