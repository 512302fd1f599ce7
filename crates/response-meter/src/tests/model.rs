//! Slow models of the readers: they read a whole body at once, into trees and lists of lines. The
//! fuzz target `response_meter` uses the models, too.

const MAX_DEPTH: usize = 64;
const LARGEST: u128 = 1 << 53;

/// A value, as far as the document was read.
enum Tree {
    Number(String),
    List(Vec<Tree>),
    /// A key that is no text in Unicode is `None`.
    Object(Vec<(Option<String>, Tree)>),
    Other,
}

/// The number at the pointer in a document that may be cut or malformed.
pub fn number_in(document: &[u8], pointer: &str) -> Option<u64> {
    let names: Vec<String> =
        pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    let mut reader = Reader { bytes: document, at: 0 };
    find(&reader.value(0).0, &names)
}

/// The number of the last event of a stream that has one.
pub fn number_in_events(stream: &[u8], pointer: &str) -> Option<u64> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut text = Vec::new();
    for (at, byte) in stream.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && stream[at - 1] == b'\r' => {}
            b'\r' => text.push(b'\n'),
            byte => text.push(*byte),
        }
    }
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let unended = lines.pop().unwrap();
    let mut events: Vec<Option<Vec<u8>>> = vec![None];
    for line in lines {
        if line.is_empty() {
            events.push(None);
        } else {
            read_field(line, events.last_mut().unwrap());
        }
    }
    if unended.contains(&b':') {
        read_field(unended, events.last_mut().unwrap());
    }
    events.into_iter().flatten().filter_map(|event| number_in(&event, pointer)).next_back()
}

fn read_field(line: &[u8], data: &mut Option<Vec<u8>>) {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    if &line[..colon] == b"data" {
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        *data = Some(match data.take() {
            None => value.to_vec(),
            Some(before) => [&before, b"\n".as_slice(), value].concat(),
        });
    }
}

fn find(tree: &Tree, names: &[String]) -> Option<u64> {
    match (tree, names) {
        (Tree::Number(text), []) => rounded_up(text)?,
        (Tree::List(items), [name, rest @ ..]) => {
            let (_, item) = items.iter().enumerate().find(|(index, _)| index.to_string() == *name)?;
            find(item, rest)
        }
        (Tree::Object(entries), [name, rest @ ..]) => {
            let (_, value) = entries.iter().rfind(|(key, _)| key.as_ref() == Some(name))?;
            find(value, rest)
        }
        _ => None,
    }
}

/// `None` if the text is no JSON number, `Some(None)` if the number has no value.
fn rounded_up(text: &str) -> Option<Option<u64>> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = [whole, fraction, exponent_digits].into_iter().all(is_digits);
    if !is_number || whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    if mantissa.starts_with('-') {
        return Some(None);
    }
    let mut digits = format!("{whole}{fraction}");
    if digits.bytes().all(|digit| digit == b'0') {
        return Some(Some(0));
    }
    // Further away, the point is as good as here.
    let most = digits.len() as i64 + 40;
    let far = if exponent.starts_with('-') { -most } else { most };
    let mut point = whole.len() as i64 + exponent.parse::<i64>().unwrap_or(far).clamp(-most, most);
    while point < 0 {
        digits.insert(0, '0');
        point += 1;
    }
    while point > digits.len() as i64 {
        digits.push('0');
    }
    let (whole, fraction) = digits.split_at(point as usize);
    let whole = format!("0{}", whole.trim_start_matches('0'));
    if whole.len() > 30 {
        return Some(None);
    }
    let is_more = fraction.bytes().any(|digit| digit != b'0');
    let value = whole.parse::<u128>().unwrap() + u128::from(is_more);
    Some((value <= LARGEST).then_some(value as u64))
}

/// Reads by recursive descent. The flag beside a tree says whether the value is complete.
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn skip_space(&mut self) {
        while self.rest().first().is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
    }

    /// Takes the byte if it comes next, behind white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.rest().first() == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> (Tree, bool) {
        self.skip_space();
        for literal in ["true", "false", "null"] {
            if self.rest().starts_with(literal.as_bytes()) {
                self.at += literal.len();
                return (Tree::Other, true);
            }
        }
        match self.rest().first() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => (Tree::Other, false),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.list(depth + 1),
            Some(b'"') => (Tree::Other, self.text().is_some()),
            Some(b'-' | b'0'..=b'9') => self.number(depth),
            _ => (Tree::Other, false),
        }
    }

    fn object(&mut self, depth: usize) -> (Tree, bool) {
        let mut entries = Vec::new();
        self.at += 1;
        if self.take(b'}') {
            return (Tree::Object(entries), true);
        }
        loop {
            self.skip_space();
            let Some(key) = self.text() else {
                return (Tree::Object(entries), false);
            };
            let has_colon = self.take(b':');
            let (value, is_complete) = if has_colon { self.value(depth) } else { (Tree::Other, false) };
            entries.push((key, value));
            if !is_complete {
                return (Tree::Object(entries), false);
            }
            if !self.take(b',') {
                let is_closed = self.take(b'}');
                return (Tree::Object(entries), is_closed);
            }
        }
    }

    fn list(&mut self, depth: usize) -> (Tree, bool) {
        let mut items = Vec::new();
        self.at += 1;
        if self.take(b']') {
            return (Tree::List(items), true);
        }
        loop {
            let (value, is_complete) = self.value(depth);
            items.push(value);
            if !is_complete {
                return (Tree::List(items), false);
            }
            if !self.take(b',') {
                let is_closed = self.take(b']');
                return (Tree::List(items), is_closed);
            }
        }
    }

    /// A number ends at what may follow a number. At the end of the document, only the number that
    /// is the document is complete.
    fn number(&mut self, depth: usize) -> (Tree, bool) {
        let length = self.rest().iter().position(|byte| b",]} \t\r\n".contains(byte));
        let run = &self.rest()[..length.unwrap_or(self.rest().len())];
        let text = String::from_utf8_lossy(run).into_owned();
        let is_complete = rounded_up(&text).is_some() && (length.is_some() || depth == 0);
        self.at += run.len();
        (if is_complete { Tree::Number(text) } else { Tree::Other }, is_complete)
    }

    /// Some text with its value, unless a part is no Unicode; `None` if the text is malformed.
    fn text(&mut self) -> Option<Option<String>> {
        let start = self.at;
        if self.rest().first() != Some(&b'"') {
            return None;
        }
        self.at += 1;
        loop {
            let length = match self.rest() {
                [b'"', ..] => break,
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
                [b'\\', b'u', digits @ ..] => {
                    digits.get(..4)?.iter().all(u8::is_ascii_hexdigit).then_some(6)?
                }
                [] | [b'\\' | 0..0x20, ..] => return None,
                _ => 1,
            };
            self.at += length;
        }
        self.at += 1;
        Some(serde_json::from_slice(&self.bytes[start..self.at]).ok())
    }
}
