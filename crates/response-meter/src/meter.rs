//! Selects the reader of a response by its headers, and bounds how much of a body is read.

use crate::event_stream::EventStream;
use crate::json_number::JsonNumber;
use crate::pointer::Pointer;

/// Reads the number at a pointer in the body of one response, in chunks of any size.
///
/// ```
/// use diana_response_meter::{Meter, Pointer};
///
/// let tokens = Pointer::parse("/usage/total_tokens")?;
/// let mut meter = Meter::new(&tokens, b"application/json", None, 65_536).unwrap();
/// meter.push(br#"{"usage": {"total_"#);
/// meter.push(br#"tokens": 21}}"#);
/// assert_eq!(meter.value(), Some(21));
///
/// assert!(Meter::new(&tokens, b"text/html", None, 65_536).is_none());
/// assert!(Meter::new(&tokens, b"application/json", Some(b"gzip"), 65_536).is_none());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone)]
pub struct Meter(Reader);

#[derive(Clone)]
enum Reader {
    /// The document, and how many further bytes of it are read.
    Json(JsonNumber, usize),
    Events(EventStream),
}

impl Meter {
    /// A meter for a response with these headers, or `None` if the meter cannot read the body.
    ///
    /// - `content_type`: `application/json` and `application/*+json` are one JSON document,
    ///   `text/event-stream` is a stream of events. Case and parameters do not matter; the text is
    ///   read as UTF-8.
    /// - `content_encoding`: absent, empty or `identity`. A compressed body cannot be read.
    /// - `limit`: the longest JSON body that is read in full, in bytes. Of a longer body the first
    ///   `limit` bytes are read, as if the body were cut there. An event stream may have any
    ///   length, because it ends with the number.
    #[must_use]
    pub fn new(
        pointer: &Pointer,
        content_type: &[u8],
        content_encoding: Option<&[u8]>,
        limit: usize,
    ) -> Option<Meter> {
        let encoding = content_encoding.unwrap_or_default().trim_ascii();
        if !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity") {
            return None;
        }
        let media_type = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if media_type.eq_ignore_ascii_case(b"text/event-stream") {
            Some(Meter(Reader::Events(EventStream::new(pointer))))
        } else if is_json(media_type) {
            Some(Meter(Reader::Json(JsonNumber::new(pointer), limit)))
        } else {
            None
        }
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
        }
    }

    /// The number of the body so far. Ask for it after the last chunk.
    ///
    /// `None` if the body has no number at the pointer; [`JsonNumber`] says what has a value.
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        match &self.0 {
            Reader::Events(events) => events.value(),
            Reader::Json(json, _) => json.value(),
        }
    }

    /// Whether further bytes change nothing, so that the host need not copy them.
    ///
    /// ```
    /// use diana_response_meter::{Meter, Pointer};
    ///
    /// let n = Pointer::parse("/n")?;
    /// let mut meter = Meter::new(&n, b"application/json", None, 1_000).unwrap();
    /// meter.push(b"{\"n\": 7");
    /// assert!(!meter.is_done());
    /// meter.push(b"}");
    /// assert!(meter.is_done());
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Reader::Events(_) => false,
            Reader::Json(json, _) => json.is_done(),
        }
    }
}

/// Whether the media type is `application/json` or `application/*+json`.
fn is_json(media_type: &[u8]) -> bool {
    let Some((kind, subtype)) = media_type.split_at_checked(b"application/".len()) else {
        return false;
    };
    let suffix = subtype.len().checked_sub(b"+json".len()).and_then(|start| subtype.get(start..));
    kind.eq_ignore_ascii_case(b"application/")
        && (subtype.eq_ignore_ascii_case(b"json")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json")))
}
