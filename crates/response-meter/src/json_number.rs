//! Finds the number at a pointer in a JSON document that arrives in chunks. A state machine of
//! constant size: it keeps a bit for each open object or list, and no part of the document.

use crate::key::Key;
use crate::number::{Number, Step};
use crate::pointer::{MAX_DEPTH, Name, Pointer};

/// The index within a list whose element was found: no further element is searched.
const PAST: u32 = u32::MAX;

/// Reads one JSON document (RFC 8259) in chunks of any size, for the number at a pointer.
///
/// - A number from 0 to 2^53 has a value. A fraction is rounded up: `12.0` is 12, `1.2e1` is 12,
///   `0.1` is 1. Other numbers, numbers with a minus sign, text and `null` have no value.
/// - Of equal keys the last one counts. Keys are compared with their escapes decoded.
/// - A document that is cut, malformed or nested more than 64 levels deep keeps the number that was
///   complete before. The reader ignores everything after the mistake, and after the document.
/// - The reader does not check that text is UTF-8. A lone surrogate in an escape is no mistake.
///
/// ```
/// use diana_response_meter::{JsonNumber, Pointer};
///
/// let mut json = JsonNumber::new(&Pointer::parse("/usage/total_tokens")?);
/// json.push(br#"{"id":"x","usage":{"total_to"#);
/// json.push(br#"kens":1"#);
/// assert_eq!(json.value(), None, "another digit may follow");
/// json.push(br#"2.5}}"#);
/// assert_eq!(json.value(), Some(13));
/// assert!(json.is_done());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct JsonNumber {
    pointer: Pointer,
    state: State,
}

/// All that the reader remembers of the document. `Copy`, so nothing in it grows.
#[derive(Clone, Copy)]
pub(crate) struct State {
    next: Next,
    /// Open objects and lists.
    depth: usize,
    /// A bit for each of the `MAX_DEPTH` at most, the innermost one lowest: 1 for an object.
    kinds: u64,
    /// Names of the pointer that lead here. The current value is on the path if `hits` is `depth`.
    hits: usize,
    /// The index of the current element in the innermost list on the path.
    index: u32,
    is_key: bool,
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

impl JsonNumber {
    /// A reader before the first byte of a document.
    #[must_use]
    pub fn new(pointer: &Pointer) -> JsonNumber {
        JsonNumber { pointer: pointer.clone(), state: State::START }
    }

    /// Reads the next bytes of the document.
    pub fn push(&mut self, mut bytes: &[u8]) {
        let state = &mut self.state;
        let names = self.pointer.names();
        while let Some((byte, rest)) = bytes.split_first() {
            bytes = match state.next {
                Next::Failed => return,
                Next::Text => state.text(bytes, names),
                _ => {
                    state.step(*byte, names);
                    rest
                }
            }
        }
    }

    /// The number at the pointer, as far as the document was read. A number that is the whole
    /// document is complete at the end of the document, so ask for the value after the last chunk.
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        match self.state.next {
            Next::Number(number) if self.state.depth == 0 && self.pointer.names().is_empty() => {
                number.value()
            }
            _ => self.state.found,
        }
    }

    /// Whether further bytes change nothing: the document is malformed, or it is over and nothing
    /// behind it matters.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let State { next, found, is_unreadable, .. } = self.state;
        matches!(next, Next::Failed) || matches!(next, Next::Over) && (found.is_some() || is_unreadable)
    }

    /// Whether more of the document has to follow.
    pub(crate) fn is_within(&self) -> bool {
        !matches!(self.state.next, Next::Over | Next::Failed)
    }

    /// Whether the [value](JsonNumber::value) is that of the document, which `has_ended` if no more
    /// bytes come. Otherwise the document may have a number that was not read: it is cut, malformed
    /// or followed by something else, or the pointer leads to no number from 0 to 2^53.
    #[must_use]
    pub fn is_final(&self, has_ended: bool) -> bool {
        let State { next, depth, found, is_unreadable, .. } = self.state;
        let is_whole = match next {
            Next::Over => true,
            Next::Number(number) => depth == 0 && number.is_complete(),
            _ => false,
        };
        found.is_some() || has_ended && (is_whole && !is_unreadable || self.value().is_some())
    }

    /// Whether the pointer leads to something that has no value, as far as the document was read.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.state.is_unreadable
    }

    /// Ends the document early: further bytes exist, and are not read.
    pub(crate) fn stop(&mut self) {
        self.state.next = Next::Failed;
    }

    /// Starts another document with the same pointer.
    pub(crate) fn restart(&mut self) {
        self.state = State::START;
    }
}

impl State {
    const START: State = State {
        next: Next::Value,
        depth: 0,
        kinds: 0,
        hits: 0,
        index: 0,
        is_key: false,
        key: Key::SKIPPED,
        found: None,
        is_unreadable: false,
    };

    /// Reads a byte outside a string, or within an escape.
    fn step(&mut self, byte: u8, names: &[Name]) {
        if let Next::Number(number) = &mut self.next {
            match number.push(byte) {
                Step::More => return,
                Step::End => {
                    let value = number.value();
                    if self.is_at_pointer(names) {
                        self.found = value;
                        self.is_unreadable = value.is_none();
                    }
                    self.end_value();
                }
                Step::Malformed => self.next = Next::Failed,
            }
        }
        let begins_value = matches!(self.next, Next::Value | Next::ValueOrEnd) && byte != b']';
        if begins_value && !byte.is_ascii_whitespace() && self.is_at_pointer(names) {
            // Until its end, a number has no value.
            self.is_unreadable = byte != b'n';
        }
        let is_object = self.kinds & 1 == 1;
        let next = match (self.next, byte) {
            (Next::Escape, _) => self.escape(byte, names),
            (Next::Digits { unit, left }, _) => self.digit(unit, left, byte, names),
            (Next::Literal([first, rest @ ..]), _) if *first == byte => match rest {
                [] => return self.end_value(),
                _ => Next::Literal(rest),
            },
            (Next::Literal(_), _) => Next::Failed,
            (_, b' ' | b'\t' | b'\n' | b'\r') => return,
            (Next::Value | Next::ValueOrEnd, _) => match byte {
                b'{' => return self.open(1, Next::KeyOrEnd, names),
                b'[' => return self.open(0, Next::ValueOrEnd, names),
                b'"' => self.start_text(false, names),
                b'-' | b'0'..=b'9' => Next::Number(Number::new(byte)),
                b't' => Next::Literal(b"rue"),
                b'f' => Next::Literal(b"alse"),
                b'n' => Next::Literal(b"ull"),
                b']' if matches!(self.next, Next::ValueOrEnd) => return self.close(),
                _ => Next::Failed,
            },
            (Next::Key | Next::KeyOrEnd, b'"') => self.start_text(true, names),
            (Next::KeyOrEnd, b'}') => return self.close(),
            (Next::Colon, b':') => Next::Value,
            (Next::CommaOrEnd, b',') if is_object => Next::Key,
            (Next::CommaOrEnd, b',') => {
                if self.is_inner_on_path() {
                    self.start_element(self.index.saturating_add(1), names);
                }
                Next::Value
            }
            (Next::CommaOrEnd, b'}') if is_object => return self.close(),
            (Next::CommaOrEnd, b']') if !is_object => return self.close(),
            _ => Next::Failed,
        };
        self.next = next;
    }

    /// Whether the pointer leads to the current value.
    fn is_at_pointer(&self, names: &[Name]) -> bool {
        self.hits == self.depth && self.depth == names.len()
    }

    /// Whether the innermost object or list is on the path, and its current key or element is not.
    fn is_inner_on_path(&self) -> bool {
        self.hits.saturating_add(1) == self.depth
    }

    /// The name that the innermost object or list is searched for.
    fn name<'n>(&self, names: &'n [Name]) -> Option<&'n Name> {
        names.get(self.depth.checked_sub(1)?)
    }

    /// Opens an object, `kind` 1, or a list, `kind` 0.
    fn open(&mut self, kind: u64, next: Next, names: &[Name]) {
        if self.depth == MAX_DEPTH {
            self.next = Next::Failed;
            return;
        }
        self.next = next;
        self.kinds = self.kinds << 1 | kind;
        self.depth = self.depth.saturating_add(1);
        if kind == 0 && self.is_inner_on_path() {
            self.start_element(0, names);
        }
    }

    fn close(&mut self) {
        self.kinds >>= 1;
        self.depth = self.depth.saturating_sub(1);
        self.end_value();
    }

    /// Starts an element of a list on the path.
    fn start_element(&mut self, index: u32, names: &[Name]) {
        self.index = index;
        if self.name(names).is_some_and(|name| name.index == Some(index)) {
            self.hits = self.depth;
        }
    }

    /// Ends a value, whose object or list goes on.
    fn end_value(&mut self) {
        if self.hits >= self.depth {
            self.hits = self.depth.saturating_sub(1);
            self.index = PAST;
        }
        self.next = if self.depth == 0 { Next::Over } else { Next::CommaOrEnd };
    }

    fn start_text(&mut self, is_key: bool, names: &[Name]) -> Next {
        self.is_key = is_key;
        let is_compared = is_key && self.is_inner_on_path() && self.name(names).is_some();
        self.key = if is_compared { Key::EMPTY } else { Key::SKIPPED };
        Next::Text
    }

    /// Reads the bytes of a string up to its end, its next escape, or the end of the chunk. Returns
    /// the bytes behind.
    fn text<'b>(&mut self, bytes: &'b [u8], names: &[Name]) -> &'b [u8] {
        let name: &[u8] = self.name(names).map_or(&[], |name| &name.key);
        let is_special = |byte: &u8| matches!(*byte, b'"' | b'\\' | 0..b' ');
        let end = bytes.iter().position(is_special).unwrap_or(bytes.len());
        let (run, rest) = bytes.split_at_checked(end).unwrap_or_default();
        self.key.push(run, name);
        let Some((special, rest)) = rest.split_first() else {
            return rest;
        };
        match special {
            b'\\' => self.next = Next::Escape,
            b'"' if self.is_key => {
                self.next = Next::Colon;
                if self.key.equals(name) {
                    self.hits = self.depth;
                    // What an equal key had before no longer counts.
                    self.found = None;
                    self.is_unreadable = false;
                }
            }
            b'"' => self.end_value(),
            _ => self.next = Next::Failed,
        }
        rest
    }

    /// Reads the byte behind a backslash.
    fn escape(&mut self, byte: u8, names: &[Name]) -> Next {
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
        self.push_unit(u16::from(letter), names)
    }

    /// Reads a hexadecimal digit of an escape that has `left` digits left.
    fn digit(&mut self, unit: u16, left: u8, byte: u8, names: &[Name]) -> Next {
        let digit = match byte {
            b'0'..=b'9' => byte & 0xf,
            b'a'..=b'f' | b'A'..=b'F' => (byte & 0xf).saturating_add(9),
            _ => return Next::Failed,
        };
        let unit = unit << 4 | u16::from(digit);
        match left {
            1 => self.push_unit(unit, names),
            _ => Next::Digits { unit, left: left.saturating_sub(1) },
        }
    }

    fn push_unit(&mut self, unit: u16, names: &[Name]) -> Next {
        let name: &[u8] = self.name(names).map_or(&[], |name| &name.key);
        self.key.push_unit(unit, name);
        Next::Text
    }
}
