//! Finds the values at several pointers in a JSON document that arrives in chunks: the parts of a
//! request's body by which limits count.
//!
//! Parsers disagree about doubtful documents, and a client may choose one that the filter reads
//! otherwise than the backend. A document has values only if all parsers read the same ones.

use crate::fingerprint::Fingerprint;
use crate::meter::is_json;
use crate::pointer::{Name, Pointers};
use crate::syntax::{Event, Syntax};

/// Reads one JSON document (RFC 8259) in chunks of any size, for the values at up to
/// [`MAX_POINTERS`](JsonValues::MAX_POINTERS) pointers. Memory is constant, apart from the values,
/// each of at most 1,024 bytes.
///
/// A document has values only if it is read to its end. It is unreadable if
/// - it is no JSON in UTF-8, is nested more than 64 levels deep, or something follows it;
/// - on the way of a pointer, an object has a key twice, or one that differs from the pointer's
///   name only in the case of ASCII letters: some parsers take the first, some the last, and some
///   ignore case;
/// - a key contains NUL, or half of a surrogate pair.
///
/// ```
/// use diana_response_meter::{JsonValue, JsonValues, Pointers};
///
/// let pointers = Pointers::parse(["/model", "/n", "/user"]).expect("pointers");
/// let mut values = JsonValues::new(&pointers);
/// values.push(br#"{"mo\u0064el": "sm"#);
/// values.push(br#"all", "n": 2e1, "messages": [{"model": 1}]}"#);
/// let small = JsonValue::Text((*b"small").into());
/// let twenty = JsonValue::Literal((*b"20").into());
/// assert_eq!(values.finish(), Some(vec![small, twenty, JsonValue::Absent]));
///
/// let mut values = JsonValues::new(&pointers);
/// values.push(br#"{"model": "small", "Model": "large"}"#);
/// assert!(values.is_failed());
/// assert_eq!(values.finish(), None);
/// ```
#[derive(Clone, Debug)]
pub struct JsonValues {
    pointers: Pointers,
    values: Vec<JsonValue>,
    syntax: Syntax,
    /// The open objects and lists, the innermost one last.
    open: Vec<Open>,
    /// A bit for each pointer that leads to the current value, or to the value of the current key.
    hits: u64,
    /// A bit for each pointer whose value gets a fingerprint.
    fingerprinted: u64,
    /// The fingerprints of values that are open, the innermost one last.
    fingerprints: Vec<OpenValue>,
    /// The key or text that is being read, if it is needed.
    text: Option<Text>,
    tail: Tail,
    /// The first half of a surrogate pair, whose other half has to follow; 0 if there is none.
    high: u16,
}

/// The value at a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum JsonValue {
    /// No value: an object on the pointer's path lacks the key, a list is too short, or `null` is
    /// in their place.
    #[default]
    Absent,
    /// `null`.
    Null,
    /// Text with its escapes decoded, or a fingerprint.
    Text(Box<[u8]>),
    /// A whole number from -2^53 to 2^53 in its shortest decimal form, `true` or `false`.
    Literal(Box<[u8]>),
    /// Another number, an object, a list, or text that is too long, or has NUL or half of a
    /// surrogate pair. Also if the pointer goes on at a scalar, or at a list in which its next name
    /// is no index: a backend may look for the value elsewhere, for example in each message of a
    /// batch.
    Unreadable,
}

/// Tokens for the end of a key or a text, and for what parsers read differently in a text.
const TEXT_END: u8 = 0xff;
const SPOILT: u8 = 0xfe;

/// An open object or list.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// A bit for each pointer that leads here.
    hits: u64,
    /// A bit for each pointer whose name this object has had as a key.
    seen: u64,
    /// The index of the current element of a list.
    index: u32,
}

/// An open value that gets a fingerprint.
#[derive(Clone, Copy, Debug)]
struct OpenValue {
    /// A bit for each pointer that ends here and is fingerprinted.
    pointers: u64,
    /// How many objects and lists were open before the value.
    depth: usize,
    fingerprint: Fingerprint,
}

/// Text as it arrives.
#[derive(Clone, Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    /// Whether the text has no value: see [`JsonValue::Unreadable`].
    is_unreadable: bool,
}

/// The bytes that must follow within a character of several bytes (RFC 3629, section 4).
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    left: u8,
    /// The range of the next byte.
    from: u8,
    to: u8,
}

impl JsonValues {
    /// The most pointers of a reader.
    pub const MAX_POINTERS: usize = 64;

    /// The longest value, in bytes. Names of keys that are longer equal no name of a pointer.
    pub const MAX_VALUE_BYTES: usize = 1_024;

    /// A reader before the first byte of a document. Of more than `MAX_POINTERS` pointers, the
    /// others lead to nothing.
    #[must_use]
    pub fn new(pointers: &Pointers) -> JsonValues {
        JsonValues::fingerprinting(pointers, 0)
    }

    /// The same reader, but for each pointer with a bit in `fingerprinted` (the lowest bit is the
    /// first pointer) it returns a fingerprint, text of 8 bytes that identifies the value. This may
    /// be an object, a list, text of any length or any number. White space, escapes and the
    /// spelling of numbers make no difference, but the order of keys does. Clients can craft values
    /// with the same fingerprint.
    ///
    /// ```
    /// use diana_response_meter::{JsonValues, Pointers};
    ///
    /// let pointers = Pointers::parse(["/params"]).expect("a pointer");
    /// let values = |document: &[u8]| {
    ///     let mut values = JsonValues::fingerprinting(&pointers, 1);
    ///     values.push(document);
    ///     values.finish()
    /// };
    /// let search = values(br#"{"params": {"q": "a", "n": [1.5]}}"#);
    /// assert_eq!(search, values(br#"{"id":2,"params":{"\u0071":"\u0061","n":[15e-1]}}"#));
    /// assert_ne!(search, values(br#"{"params": {"q": "a", "n": [1.6]}}"#));
    /// ```
    #[must_use]
    pub fn fingerprinting(pointers: &Pointers, fingerprinted: u64) -> JsonValues {
        debug_assert!(pointers.len() <= JsonValues::MAX_POINTERS, "each pointer is a bit");
        let all = u32::try_from(pointers.len()).ok().and_then(|count| 1_u64.checked_shl(count));
        JsonValues {
            pointers: pointers.clone(),
            values: vec![JsonValue::Absent; pointers.len()],
            syntax: Syntax::START,
            open: Vec::new(),
            hits: all.map_or(u64::MAX, |bit| bit.wrapping_sub(1)),
            fingerprinted,
            fingerprints: Vec::new(),
            text: None,
            tail: Tail::default(),
            high: 0,
        }
    }

    /// Whether a body with these headers is a JSON document in UTF-8 that can be read:
    /// `application/json` or `application/*+json` in any case, but none of gRPC's or Connect's
    /// streams, with no parameters around a `charset`, which is UTF-8 or ASCII, and not encoded.
    /// Each is the value of its header; empty if there is none.
    #[must_use]
    pub fn can_read(content_type: &[u8], content_encoding: &[u8]) -> bool {
        let content_type = content_type.to_ascii_lowercase();
        let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
        let (media_type, parameters) = content_type.split_at_checked(end).unwrap_or_default();
        let media_type = media_type.trim_ascii();
        let is_stream =
            media_type.starts_with(b"application/grpc") || media_type.starts_with(b"application/connect+");
        let encoding = content_encoding.trim_ascii();
        let is_encoded = !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity");
        is_json(media_type) && !is_stream && !is_encoded && are_harmless(parameters)
    }

    /// Reads the next bytes of the document.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_failed() {
            let (event, rest) = self.syntax.read(bytes);
            bytes = rest;
            match event {
                Event::Nothing => {}
                Event::Scalar(byte) => self.begin_scalar(byte),
                Event::Open { is_object } => self.open(is_object),
                Event::Close => {
                    self.open.pop();
                    self.hits = 0;
                    self.note(b'}');
                    self.end_fingerprint();
                }
                Event::Element => self.next_element(),
                Event::Key => {
                    let is_needed = self.open.last().is_some_and(|open| open.hits != 0);
                    self.text = is_needed.then(Text::default);
                    self.note(b'"');
                }
                Event::Run(run) => self.run(run),
                Event::Unit(unit) => self.unit(unit),
                Event::KeyEnd => {
                    if self.is_text_whole() {
                        self.note(TEXT_END);
                        self.end_key();
                    }
                }
                Event::TextEnd => {
                    if self.is_text_whole() {
                        let value = match self.text.take() {
                            Some(Text { bytes, is_unreadable: false }) => JsonValue::Text(bytes.into()),
                            _ => JsonValue::Unreadable,
                        };
                        self.found(&value);
                        self.note(TEXT_END);
                        self.end_fingerprint();
                    }
                }
                Event::LiteralEnd => {
                    self.hits = 0;
                    self.end_fingerprint();
                }
                Event::NumberEnd(number) => {
                    self.found(&number.whole().map_or(JsonValue::Unreadable, JsonValue::Literal));
                    for open in &mut self.fingerprints {
                        open.fingerprint.number(&number);
                    }
                    self.end_fingerprint();
                }
            }
        }
    }

    /// Whether the document is unreadable, whatever follows.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.syntax.is_failed()
    }

    /// The values at the pointers, in their order, if the document ends here. `None`: it is
    /// unreadable.
    #[must_use]
    pub fn finish(mut self) -> Option<Vec<JsonValue>> {
        // White space ends a number, and changes nothing else.
        self.push(b" ");
        self.syntax.is_over().then_some(self.values)
    }

    fn begin_scalar(&mut self, byte: u8) {
        let literal = |text: &'static [u8]| JsonValue::Literal(text.into());
        match byte {
            b'"' => self.text = (self.ending() != 0).then(Text::default),
            b't' => self.set_scalar(&literal(b"true")),
            b'f' => self.set_scalar(&literal(b"false")),
            b'n' => self.set(self.ending(), &JsonValue::Null),
            _ => {}
        }
        // `null` has no fingerprint of its own.
        if byte != b'n' {
            self.begin_fingerprint();
        }
        self.note(if matches!(byte, b'-' | b'0'..=b'9') { b'0' } else { byte });
    }

    /// The current value begins.
    fn begin_fingerprint(&mut self) {
        let pointers = self.ending() & self.fingerprinted;
        if pointers != 0 {
            let (depth, fingerprint) = (self.open.len(), Fingerprint::START);
            self.fingerprints.push(OpenValue { pointers, depth, fingerprint });
        }
    }

    /// The current value has ended.
    #[inline(never)]
    fn end_fingerprint(&mut self) {
        let depth = self.open.len();
        if let Some(ended) = self.fingerprints.pop_if(|open| open.depth == depth) {
            self.set(ended.pointers, &JsonValue::Text(ended.fingerprint.bytes().into()));
        }
    }

    /// Adds a token to the fingerprints of all open values. No token within a text is UTF-8.
    #[inline(never)]
    fn note(&mut self, token: u8) {
        self.note_text(&[token]);
    }

    fn note_text(&mut self, text: &[u8]) {
        for open in &mut self.fingerprints {
            open.fingerprint.push(text);
        }
    }

    fn open(&mut self, is_object: bool) {
        let ending = self.ending();
        self.set(ending, &JsonValue::Unreadable);
        self.begin_fingerprint();
        self.note(if is_object { b'{' } else { b'[' });
        let hits = self.hits & !ending;
        self.open.push(Open { hits, seen: 0, index: 0 });
        self.hits = 0;
        if !is_object {
            self.set(self.matching(hits, &|name| name.index.is_none()), &JsonValue::Unreadable);
            self.find_element();
        }
    }

    fn next_element(&mut self) {
        if let Some(list) = self.open.last_mut() {
            list.index = list.index.saturating_add(1);
        }
        self.find_element();
    }

    /// Finds the pointers that lead to the current element of the innermost list.
    fn find_element(&mut self) {
        if let Some(Open { hits, index, .. }) = self.open.last().copied() {
            self.hits = self.matching(hits, &|name| name.index == Some(index));
        }
    }

    /// The current value is this one, which ends here.
    fn found(&mut self, value: &JsonValue) {
        self.set_scalar(value);
        self.hits = 0;
    }

    /// The current value is this one, and no `null`: a pointer that goes on is in doubt.
    fn set_scalar(&mut self, value: &JsonValue) {
        let ending = self.ending();
        self.set(self.hits & !ending, &JsonValue::Unreadable);
        self.set(ending, value);
    }

    /// The pointers that end at the current value.
    fn ending(&self) -> u64 {
        let depth = self.open.len();
        self.pointers(self.hits, &|names| names.len() == depth)
    }

    /// The pointers of `among` whose names pass `test`.
    fn pointers(&self, among: u64, test: &dyn Fn(&[Name]) -> bool) -> u64 {
        let (mut found, mut bit) = (0, 1_u64);
        if among == 0 {
            return found;
        }
        for names in self.pointers.iter() {
            if among & bit != 0 && test(names) {
                found |= bit;
            }
            bit = bit.wrapping_shl(1);
        }
        found
    }

    fn set(&mut self, pointers: u64, value: &JsonValue) {
        let mut bit = 1_u64;
        if pointers == 0 {
            return;
        }
        for place in &mut self.values {
            if pointers & bit != 0 {
                place.clone_from(value);
            }
            bit = bit.wrapping_shl(1);
        }
    }

    /// The pointers of `among` whose name in the innermost object or list passes `test`.
    fn matching(&self, among: u64, test: &dyn Fn(&Name) -> bool) -> u64 {
        let depth = self.open.len().checked_sub(1);
        self.pointers(among, &|names| depth.and_then(|depth| names.get(depth)).is_some_and(test))
    }

    fn run(&mut self, run: &[u8]) {
        if self.tail.takes(run) {
            self.end_pair();
            self.append(run);
        } else {
            self.syntax.fail();
        }
    }

    /// Whether the key or text that ends has only whole characters and, if it is a key, only some
    /// that all parsers read alike.
    fn is_text_whole(&mut self) -> bool {
        self.end_pair();
        if self.tail.left > 0 {
            self.syntax.fail();
        }
        !self.is_failed()
    }

    /// Half of a pair stays alone, if there is one.
    fn end_pair(&mut self) {
        if std::mem::take(&mut self.high) != 0 {
            self.spoil();
        }
    }

    /// The text has something that parsers read differently.
    fn spoil(&mut self) {
        if self.syntax.is_key() {
            self.syntax.fail();
        } else if let Some(text) = &mut self.text {
            text.is_unreadable = true;
        }
        self.note(SPOILT);
    }

    fn append(&mut self, run: &[u8]) {
        self.note_text(run);
        if let Some(Text { bytes, is_unreadable }) = &mut self.text {
            match bytes.len().saturating_add(run.len()) <= JsonValues::MAX_VALUE_BYTES {
                true => bytes.extend_from_slice(run),
                false => *is_unreadable = true,
            }
        }
    }

    fn end_key(&mut self) {
        let key = self.text.take().unwrap_or_default();
        let Some(Open { hits, seen, .. }) = self.open.last().copied().filter(|open| open.hits != 0) else {
            return;
        };
        // A key that is too long equals no name of a pointer that is not.
        let is_alike = |name: &Name| !key.is_unreadable && is_alike(&key.bytes, &name.key);
        let alike = self.matching(hits, &is_alike);
        self.hits = self.matching(alike, &|name| *name.key == *key.bytes);
        if alike != self.hits || seen & alike != 0 {
            self.syntax.fail();
        }
        if let Some(object) = self.open.last_mut() {
            object.seen |= alike;
        }
    }

    /// Appends a code unit of UTF-16, from an escape.
    fn unit(&mut self, unit: u16) {
        if self.tail.left > 0 {
            return self.syntax.fail();
        }
        let high = std::mem::take(&mut self.high);
        let is_low = matches!(unit, 0xdc00..=0xdfff);
        if high != 0 && !is_low {
            self.spoil();
        }
        if matches!(unit, 0xd800..=0xdbff) {
            self.high = unit;
            return;
        }
        let units = if high != 0 && is_low { [high, unit] } else { [unit, 0] };
        match char::decode_utf16(units).next() {
            // Parsers in C end the text at NUL.
            None | Some(Ok('\0') | Err(_)) => self.spoil(),
            Some(Ok(letter)) => self.append(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

impl Tail {
    /// Whether the bytes, which follow those before, are UTF-8, whose last character may be cut.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.takes_byte(*byte))
    }

    fn takes_byte(&mut self, byte: u8) -> bool {
        if self.left > 0 {
            let is_next = (self.from..=self.to).contains(&byte);
            *self = Tail { left: self.left.saturating_sub(1), from: 0x80, to: 0xbf };
            return is_next;
        }
        let (left, from, to) = match byte {
            0..=0x7f => return true,
            0xc2..=0xdf => (1, 0x80, 0xbf),
            0xe0 => (2, 0xa0, 0xbf),
            0xed => (2, 0x80, 0x9f),
            0xe1..=0xef => (2, 0x80, 0xbf),
            0xf0 => (3, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x80, 0xbf),
            0xf4 => (3, 0x80, 0x8f),
            _ => return false,
        };
        *self = Tail { left, from, to };
        true
    }
}

/// Whether the parameters of a media type, in lower case, let the text be read as UTF-8.
fn are_harmless(parameters: &[u8]) -> bool {
    match parameters.trim_ascii_start() {
        b";charset=utf-8" | b"; charset=utf-8" | b"; charset=\"utf-8\"" | b"; charset=us-ascii" => true,
        // Behind a comma, another type may follow.
        _ => {
            !parameters.contains(&b',')
                && !parameters.windows(b"charset".len()).any(|window| window == b"charset")
        }
    }
}

/// Whether a parser that ignores case may take the key for this name.
fn is_alike(key: &[u8], name: &[u8]) -> bool {
    folded(key).eq(folded(name))
}

/// The text with its ASCII letters in lower case, and with those beyond that some parsers take for
/// them: `ſ` and the Kelvin sign as Unicode does, `İ` as `Character.toLowerCase` of Java, `ı` as
/// its `equalsIgnoreCase`. Other letters beyond ASCII are alike only if they are equal.
fn folded(mut text: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (first, rest) = text.split_first()?;
        let (letter, behind) = match text {
            [0xc5, 0xbf, behind @ ..] => (b's', behind),
            [0xe2, 0x84, 0xaa, behind @ ..] => (b'k', behind),
            [0xc4, 0xb0 | 0xb1, behind @ ..] => (b'i', behind),
            _ => (first.to_ascii_lowercase(), rest),
        };
        text = behind;
        Some(letter)
    })
}
