//! The grammar of JSON (RFC 8259), for readers of documents that arrive in chunks. It has constant
//! size: a bit for each open object or list, and no part of the document.

use crate::number::{Number, Step};
use crate::pointer::MAX_DEPTH;

/// How much of a document was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syntax {
    next: Next,
    /// Open objects and lists.
    depth: usize,
    /// A bit for each of the `MAX_DEPTH` at most, the innermost one lowest: 1 for an object.
    kinds: u64,
    /// Whether the last string is a key.
    is_key: bool,
}

/// What a reader has to know of the bytes that were read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'b> {
    Nothing,
    /// Text, a number, `true`, `false` or `null` begins with this byte.
    Scalar(u8),
    /// An object or a list has opened, and is within the depth.
    Open {
        is_object: bool,
    },
    /// An object or a list ends, and is no longer within the depth.
    Close,
    /// Another element of the innermost list follows.
    Element,
    /// A key of the innermost object begins.
    Key,
    /// Bytes of a key or a text, without escapes. A character may be cut.
    Run(&'b [u8]),
    /// A code unit of UTF-16 of a key or a text, from an escape.
    Unit(u16),
    KeyEnd,
    TextEnd,
    LiteralEnd,
    NumberEnd(Number),
}

/// What the next byte may be.
#[derive(Clone, Copy, Debug)]
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

impl Syntax {
    /// Before the first byte of a document.
    pub(crate) const START: Syntax = Syntax { next: Next::Value, depth: 0, kinds: 0, is_key: false };

    /// Open objects and lists, at most [`MAX_DEPTH`].
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn is_key(&self) -> bool {
        self.is_key
    }

    /// Whether only white space may follow.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.next, Next::Over)
    }

    /// Whether nothing is read any further.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.next, Next::Failed)
    }

    pub(crate) fn fail(&mut self) {
        self.next = Next::Failed;
    }

    /// The number that is the whole document so far: another digit may follow.
    pub(crate) fn only_number(&self) -> Option<&Number> {
        match &self.next {
            Next::Number(number) if self.depth == 0 => Some(number),
            _ => None,
        }
    }

    /// Reads some of the bytes. Returns what they are, and the bytes behind.
    pub(crate) fn read<'b>(&mut self, bytes: &'b [u8]) -> (Event<'b>, &'b [u8]) {
        let Some((byte, rest)) = bytes.split_first() else {
            return (Event::Nothing, bytes);
        };
        match &mut self.next {
            Next::Text => {
                let is_special = |byte: &u8| matches!(*byte, b'"' | b'\\' | 0..b' ');
                let end = bytes.iter().position(is_special).unwrap_or(bytes.len());
                if let Some((run, rest)) = bytes.split_at_checked(end).filter(|_| end > 0) {
                    return (Event::Run(run), rest);
                }
            }
            Next::Number(number) => match number.push(*byte) {
                Step::More => return (Event::Nothing, rest),
                Step::End => {
                    let number = *number;
                    // The byte belongs to what follows.
                    return (self.end_value(Event::NumberEnd(number)), bytes);
                }
                Step::Malformed => self.next = Next::Failed,
            },
            _ => {}
        }
        (self.step(*byte), rest)
    }

    /// Reads a byte that is no part of a number or a run.
    fn step<'b>(&mut self, byte: u8) -> Event<'b> {
        let is_object = self.kinds & 1 == 1;
        let (next, event) = match (self.next, byte) {
            (Next::Text, b'\\') => (Next::Escape, Event::Nothing),
            (Next::Text, b'"') if self.is_key => (Next::Colon, Event::KeyEnd),
            (Next::Text, b'"') => return self.end_value(Event::TextEnd),
            // A control character.
            (Next::Text, _) => (Next::Failed, Event::Nothing),
            (Next::Escape, b'u') => (Next::Digits { unit: 0, left: 4 }, Event::Nothing),
            (Next::Escape, _) => match escaped(byte) {
                Some(letter) => (Next::Text, Event::Unit(letter.into())),
                None => (Next::Failed, Event::Nothing),
            },
            (Next::Digits { unit, left }, _) => match digit(byte) {
                Some(digit) if left > 1 => {
                    (Next::Digits { unit: unit << 4 | digit, left: left.saturating_sub(1) }, Event::Nothing)
                }
                Some(digit) => (Next::Text, Event::Unit(unit << 4 | digit)),
                None => (Next::Failed, Event::Nothing),
            },
            (Next::Literal([first, rest @ ..]), _) if *first == byte => match rest {
                [] => return self.end_value(Event::LiteralEnd),
                _ => (Next::Literal(rest), Event::Nothing),
            },
            (Next::Literal(_), _) => (Next::Failed, Event::Nothing),
            (_, b' ' | b'\t' | b'\n' | b'\r') => return Event::Nothing,
            (Next::ValueOrEnd, b']') => return self.close(),
            (Next::Value | Next::ValueOrEnd, b'{' | b'[') => return self.open(byte == b'{'),
            (Next::Value | Next::ValueOrEnd, _) => match self.scalar(byte) {
                Next::Failed => (Next::Failed, Event::Nothing),
                next => (next, Event::Scalar(byte)),
            },
            (Next::Key | Next::KeyOrEnd, b'"') => {
                self.is_key = true;
                (Next::Text, Event::Key)
            }
            (Next::KeyOrEnd, b'}') => return self.close(),
            (Next::Colon, b':') => (Next::Value, Event::Nothing),
            (Next::CommaOrEnd, b',') if is_object => (Next::Key, Event::Nothing),
            (Next::CommaOrEnd, b',') => (Next::Value, Event::Element),
            (Next::CommaOrEnd, b'}') if is_object => return self.close(),
            (Next::CommaOrEnd, b']') if !is_object => return self.close(),
            _ => (Next::Failed, Event::Nothing),
        };
        self.next = next;
        event
    }

    fn scalar(&mut self, byte: u8) -> Next {
        match byte {
            b'"' => {
                self.is_key = false;
                Next::Text
            }
            b'-' | b'0'..=b'9' => Next::Number(Number::new(byte)),
            b't' => Next::Literal(b"rue"),
            b'f' => Next::Literal(b"alse"),
            b'n' => Next::Literal(b"ull"),
            _ => Next::Failed,
        }
    }

    fn open<'b>(&mut self, is_object: bool) -> Event<'b> {
        if self.depth == MAX_DEPTH {
            self.next = Next::Failed;
            return Event::Nothing;
        }
        self.next = if is_object { Next::KeyOrEnd } else { Next::ValueOrEnd };
        self.kinds = self.kinds << 1 | u64::from(is_object);
        self.depth = self.depth.saturating_add(1);
        Event::Open { is_object }
    }

    fn close<'b>(&mut self) -> Event<'b> {
        self.kinds >>= 1;
        self.depth = self.depth.saturating_sub(1);
        self.end_value(Event::Close)
    }

    /// Ends a value, whose object or list goes on.
    fn end_value<'b>(&mut self, event: Event<'b>) -> Event<'b> {
        self.next = if self.depth == 0 { Next::Over } else { Next::CommaOrEnd };
        event
    }
}

/// The letter that a backslash and this byte mean.
fn escaped(byte: u8) -> Option<u8> {
    Some(match byte {
        b'"' | b'\\' | b'/' => byte,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u16> {
    char::from(byte).to_digit(16).and_then(|digit| digit.try_into().ok())
}
