//! Reads server-sent events, and passes the data of each event to the reader of JSON at once.

use crate::json_numbers::JsonNumbers;
use crate::pointer::Pointers;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
const DATA: &[u8] = b"data";

/// Reads a `text/event-stream` (WHATWG HTML, §9.2) in chunks of any size, for the number at each of
/// several pointers in the data of the events. Methods take the index of the pointer.
///
/// For each pointer, the last event with a number there decides. Events without one change nothing:
/// other JSON, `null` at the pointer, and data that is no JSON, for example `[DONE]`.
/// [`JsonNumbers`] says what has a value. An event that the end of the stream cuts counts, unlike in a browser: its
/// number was complete.
///
/// ```
/// use diana_response_meter::{EventStream, Pointers};
///
/// let pointers = Pointers::parse(["/usage/output_tokens", "/message/usage/input_tokens"])?;
/// let mut events = EventStream::new(&pointers);
/// events.push(b"event: message_start\ndata: {\"message\": {\"usage\": {\"input_tokens\": 9}}}\n\n");
/// assert_eq!((events.value(0), events.value(1)), (None, Some(9)));
/// events.push(b": a comment\r\n\r\ndata: {\"usage\":\r\ndata: {\"output_tokens\": 15}}\r");
/// events.push(b"\n\r\n");
/// assert_eq!((events.value(0), events.value(1)), (Some(15), Some(9)));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct EventStream {
    json: JsonNumbers,
    state: State,
    /// What the events that are over have at each pointer.
    past: Box<[Past]>,
}

/// All that the reader remembers of the stream, beside the JSON. `Copy`, so nothing in it grows.
#[derive(Clone, Copy)]
pub(crate) struct State {
    line: Line,
    /// Whether the last byte was CR. LF then belongs to the same end of a line.
    is_after_cr: bool,
    /// Whether the event has a line of data already.
    has_data: bool,
}

/// What the events that are over have at one pointer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Past {
    last: Option<u64>,
    /// Whether the pointer led to something without a value in an event behind the last number.
    is_unreadable: bool,
}

/// The part of a line that was read last.
#[derive(Clone, Copy)]
enum Line {
    /// So many bytes of a byte order mark, at the start of the stream.
    Mark(u8),
    /// So many bytes of `data`.
    Name(u8),
    /// `data:`. A space may follow.
    Colon,
    Data,
    /// Another field, or a comment.
    Other,
}

impl EventStream {
    /// A reader before the first byte of a stream.
    #[must_use]
    pub fn new(pointers: &Pointers) -> EventStream {
        let state = State { line: Line::Mark(0), is_after_cr: false, has_data: false };
        let past = vec![Past::default(); pointers.len()].into();
        EventStream { json: JsonNumbers::new(pointers), state, past }
    }

    /// Reads the next bytes of the stream.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some((byte, rest)) = bytes.split_first() {
            let is_within_end = std::mem::take(&mut self.state.is_after_cr) && *byte == b'\n';
            if is_within_end {
                bytes = rest;
            } else if is_end(byte) {
                self.state.is_after_cr = *byte == b'\r';
                self.end_line();
                bytes = rest;
            } else {
                bytes = self.line(*byte, bytes, rest);
            }
        }
    }

    /// The number of the last event that has one.
    #[must_use]
    pub fn value(&self, at: usize) -> Option<u64> {
        self.json.value(at).or(self.past.get(at)?.last)
    }

    /// Whether the [value](EventStream::value) is that of the stream, which `has_ended` if no more
    /// bytes come. Otherwise a later event, or one that was not understood, may have another
    /// number.
    #[must_use]
    pub fn is_final(&self, at: usize, has_ended: bool) -> bool {
        let is_cut = self.state.has_data && self.json.is_within();
        let was_unreadable = self.past.get(at).is_some_and(|past| past.is_unreadable);
        let is_unreadable = was_unreadable || self.json.is_unreadable(at);
        // Without any byte, the response may be that to a `HEAD`.
        let has_begun = !matches!(self.state.line, Line::Mark(0));
        has_ended && has_begun && (self.json.value(at).is_some() || !is_cut && !is_unreadable)
    }

    /// Reads bytes of a line, and returns the bytes behind.
    fn line<'b>(&mut self, byte: u8, bytes: &'b [u8], rest: &'b [u8]) -> &'b [u8] {
        let is = |expected: &[u8], at: u8| expected.get(usize::from(at)) == Some(&byte);
        let (line, rest) = match self.state.line {
            Line::Mark(2) if is(&BYTE_ORDER_MARK, 2) => (Line::Name(0), rest),
            Line::Mark(at) if is(&BYTE_ORDER_MARK, at) => (Line::Mark(at.saturating_add(1)), rest),
            Line::Mark(0) => (Line::Name(0), bytes),
            Line::Name(at) if is(DATA, at) => (Line::Name(at.saturating_add(1)), rest),
            Line::Name(4) if byte == b':' => {
                self.start_data();
                (Line::Colon, rest)
            }
            Line::Colon if byte == b' ' => (Line::Data, rest),
            Line::Colon => (Line::Data, bytes),
            Line::Mark(_) | Line::Name(_) => (Line::Other, rest),
            line @ (Line::Data | Line::Other) => {
                let end = bytes.iter().position(is_end).unwrap_or(bytes.len());
                let (run, rest) = bytes.split_at_checked(end).unwrap_or_default();
                if matches!(line, Line::Data) {
                    self.json.push(run);
                }
                (line, rest)
            }
        };
        self.state.line = line;
        rest
    }

    /// Starts a line of data. LF joins the lines of an event.
    fn start_data(&mut self) {
        if std::mem::replace(&mut self.state.has_data, true) {
            self.json.push(b"\n");
        }
    }

    fn end_line(&mut self) {
        match self.state.line {
            // An empty line ends the event.
            Line::Name(0) | Line::Mark(0) => {
                for (at, past) in self.past.iter_mut().enumerate() {
                    let value = self.json.value(at);
                    let is_unreadable = past.is_unreadable || self.json.is_unreadable(at);
                    past.is_unreadable = is_unreadable && value.is_none();
                    past.last = value.or(past.last);
                }
                self.state.has_data = false;
                self.json.restart();
            }
            // A field without a colon has an empty value.
            Line::Name(4) => self.start_data(),
            _ => {}
        }
        self.state.line = Line::Name(0);
    }
}

fn is_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}
