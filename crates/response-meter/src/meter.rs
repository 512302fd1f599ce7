//! Selects the reader of a response by its headers, and bounds how much of a body is read.

use crate::event_stream::EventStream;
use crate::json_numbers::JsonNumbers;
use crate::pointer::Pointers;

/// Reads the number at each of several pointers in the body of one response, in chunks of any size.
/// Methods take the index of the pointer.
///
/// ```
/// use diana_response_meter::{Meter, Pointers, ResponseHead};
///
/// let tokens = Pointers::parse(["/usage/total_tokens"])?;
/// let head = ResponseHead { status: 200, content_type: b"application/json", content_encoding: b"" };
/// let mut meter = Meter::new(&tokens, head, 65_536);
/// meter.push(br#"{"usage": {"total_"#);
/// assert_eq!((meter.value(0), meter.is_final(0, false)), (None, false));
/// meter.push(br#"tokens": 21}}"#);
/// assert_eq!((meter.value(0), meter.is_final(0, true)), (Some(21), true));
///
/// let mut meter = Meter::new(&tokens, ResponseHead { content_encoding: b"gzip", ..head }, 65_536);
/// meter.push(b"\x1f\x8b");
/// assert_eq!((meter.value(0), meter.is_final(0, true)), (None, false), "there may be a number");
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct Meter(Reader);

/// What the headers of a response say about its body.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'h> {
    /// The status; 0 if it is unknown.
    pub status: u16,
    /// The value of `content-type`; empty if there is none.
    pub content_type: &'h [u8],
    /// The value of `content-encoding`; empty if there is none.
    pub content_encoding: &'h [u8],
}

#[derive(Clone)]
enum Reader {
    /// The document, and how many further bytes of it are read.
    Json(JsonNumbers, usize),
    Events(EventStream),
    /// A response that has no number.
    Nothing,
    /// A successful response of another type; whether a part of its body has come.
    Other(bool),
    /// A body that cannot be read.
    Unreadable,
}

impl Meter {
    /// A meter for a response with these headers.
    ///
    /// - `application/json` and `application/*+json` are one JSON document, `text/event-stream` is
    ///   a stream of events. Case and parameters do not matter; the text is read as UTF-8.
    /// - A compressed body cannot be read, nor can a part of a document (206).
    /// - A body of another type has no number if it is empty or if the status is 300 or above.
    ///   Otherwise it cannot be read.
    /// - `limit`: the longest JSON body that is read in full, in bytes. Of a longer body the first
    ///   `limit` bytes are read, as if the body were cut there. An event stream may have any
    ///   length, because it ends with the number.
    #[must_use]
    pub fn new(pointers: &Pointers, head: ResponseHead, limit: usize) -> Meter {
        let encoding = head.content_encoding.trim_ascii();
        let is_encoded = !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity");
        let media_type =
            head.content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        Meter(match head.status {
            // RFC 9110: such a response has no body.
            204 | 205 | 304 => Reader::Nothing,
            206 => Reader::Unreadable,
            _ if is_encoded => Reader::Unreadable,
            _ if media_type.eq_ignore_ascii_case(b"text/event-stream") => {
                Reader::Events(EventStream::new(pointers))
            }
            _ if is_json(media_type) => Reader::Json(JsonNumbers::new(pointers), limit),
            300.. => Reader::Nothing,
            _ => Reader::Other(false),
        })
    }

    /// Reads the next bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Reader::Events(events) => events.push(bytes),
            Reader::Json(json, left) => {
                json.push(bytes.get(..*left).unwrap_or(bytes));
                match left.checked_sub(bytes.len()) {
                    Some(fewer) => *left = fewer,
                    None => json.stop(),
                }
            }
            Reader::Other(has_body) => *has_body |= !bytes.is_empty(),
            Reader::Nothing | Reader::Unreadable => {}
        }
    }

    /// The number of the body so far. Ask for it after the last chunk.
    ///
    /// `None` if the body has no number at the pointer; [`JsonNumbers`] says what has a value.
    #[must_use]
    pub fn value(&self, at: usize) -> Option<u64> {
        match &self.0 {
            Reader::Events(events) => events.value(at),
            Reader::Json(json, _) => json.value(at),
            Reader::Nothing | Reader::Other(_) | Reader::Unreadable => None,
        }
    }

    /// Whether the [value](Meter::value) is that of the response. Otherwise the response may have a
    /// number that was not read. `has_ended`: whether the body has passed to its end.
    #[must_use]
    pub fn is_final(&self, at: usize, has_ended: bool) -> bool {
        match &self.0 {
            Reader::Events(events) => events.is_final(at, has_ended),
            Reader::Json(json, _) => json.is_final(at, has_ended),
            Reader::Nothing => true,
            Reader::Other(has_body) => has_ended && !has_body,
            Reader::Unreadable => false,
        }
    }

    /// A part of the body is lost, so nothing further is read.
    pub fn lose(&mut self) {
        match &mut self.0 {
            Reader::Json(json, _) => json.stop(),
            Reader::Events(_) | Reader::Other(_) => self.0 = Reader::Unreadable,
            Reader::Nothing | Reader::Unreadable => {}
        }
    }

    /// Whether further bytes change nothing, so that the host need not copy them.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Reader::Events(_) => false,
            Reader::Json(json, _) => json.is_done(),
            Reader::Nothing | Reader::Unreadable => true,
            Reader::Other(has_body) => *has_body,
        }
    }
}

/// Whether the media type is `application/json` or `application/*+json` (RFC 6838 §4.2 has the
/// characters).
pub(crate) fn is_json(media_type: &[u8]) -> bool {
    let Some((kind, subtype)) = media_type.split_at_checked(b"application/".len()) else {
        return false;
    };
    // Several types in one line are none: each reader takes another one.
    let is_token = subtype.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(byte));
    let suffix = subtype.len().checked_sub(b"+json".len()).and_then(|start| subtype.get(start..));
    is_token
        && kind.eq_ignore_ascii_case(b"application/")
        && (subtype.eq_ignore_ascii_case(b"json")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json")))
}
