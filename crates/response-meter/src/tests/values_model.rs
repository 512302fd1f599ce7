//! A slow model of `JsonValues`: `serde_json` says what is JSON, and a tree has all keys.

use serde::de::IgnoredAny;

/// The longest text, and the deepest nesting.
const MAX_BYTES: usize = 1_024;
const MAX_DEPTH: usize = 64;

/// A value: `Err` if it cannot be read, `Ok(None)` if it is absent.
pub type Value = Result<Option<Vec<u8>>, ()>;

enum Tree {
    Scalar(Value),
    List(Vec<Tree>),
    Object(Vec<(Vec<u8>, Tree)>),
}

/// The values at these pointers; `None` if the document is unreadable.
pub fn values_in(document: &[u8], pointers: &[&str]) -> Option<Vec<Value>> {
    std::str::from_utf8(document).ok()?;
    serde_json::from_slice::<IgnoredAny>(document).ok()?;
    let tree = Parser { bytes: document, at: 0 }.value(0)?;
    let names = |pointer: &str| {
        let name = |name: &str| name.replace("~1", "/").replace("~0", "~");
        pointer.split('/').skip(1).map(name).collect::<Vec<String>>()
    };
    pointers.iter().map(|pointer| find(&tree, &names(pointer))).collect()
}

fn find(tree: &Tree, names: &[String]) -> Option<Value> {
    let Some((name, rest)) = names.split_first() else {
        return Some(match tree {
            Tree::Scalar(value) => value.clone(),
            Tree::List(_) | Tree::Object(_) => Err(()),
        });
    };
    match tree {
        Tree::Scalar(Ok(None)) => Some(Ok(None)),
        Tree::Scalar(_) => Some(Err(())),
        Tree::List(items) => {
            let is_index = |index: &u32| index.to_string() == *name && *index < u32::MAX;
            match name.parse().ok().filter(is_index) {
                Some(index) => items.get(index as usize).map_or(Some(Ok(None)), |item| find(item, rest)),
                None => Some(Err(())),
            }
        }
        Tree::Object(entries) => {
            let alike = |key: &[u8]| key.len() <= MAX_BYTES && folded(key) == folded(name.as_bytes());
            let found: Vec<_> = entries.iter().filter(|(key, _)| alike(key)).collect();
            match found.as_slice() {
                [] => Some(Ok(None)),
                [(key, tree)] if key == name.as_bytes() => find(tree, rest),
                _ => None,
            }
        }
    }
}

fn folded(text: &[u8]) -> String {
    let fold = |letter| match letter {
        'ſ' => 's',
        '\u{212a}' => 'k',
        'İ' | 'ı' => 'i',
        letter => letter.to_ascii_lowercase(),
    };
    String::from_utf8(text.to_vec()).unwrap().chars().map(fold).collect()
}

/// Reads a document that is JSON.
struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> u8 {
        while b" \t\r\n".contains(&self.bytes[self.at]) {
            self.at += 1;
        }
        self.bytes[self.at]
    }

    /// `None` if it is nested too deep, or has a key that is read differently.
    fn value(&mut self, depth: usize) -> Option<Tree> {
        let first = self.peek();
        if matches!(first, b'[' | b'{') {
            self.at += 1;
            let depth = depth + 1;
            let (mut items, mut entries) = (Vec::new(), Vec::new());
            while !matches!(self.peek(), b']' | b'}') {
                if first == b'{' {
                    let key = self.text().ok().filter(|key| !key.contains(&0))?;
                    self.peek();
                    self.at += 1;
                    entries.push((key, self.value(depth)?));
                } else {
                    items.push(self.value(depth)?);
                }
                if self.peek() == b',' {
                    self.at += 1;
                }
            }
            self.at += 1;
            let tree = if first == b'{' { Tree::Object(entries) } else { Tree::List(items) };
            return Some(tree).filter(|_| depth <= MAX_DEPTH);
        }
        Some(Tree::Scalar(match first {
            b'"' => {
                let text = self.text();
                text.ok().filter(|text| text.len() <= MAX_BYTES && !text.contains(&0)).map(Some).ok_or(())
            }
            _ => {
                let start = self.at;
                while self.bytes.get(self.at).is_some_and(|byte| !b",]} \t\r\n".contains(byte)) {
                    self.at += 1;
                }
                match &self.bytes[start..self.at] {
                    b"null" => Ok(None),
                    word @ (b"true" | b"false") => Ok(Some(word.to_vec())),
                    number => whole(std::str::from_utf8(number).unwrap()).map(Some).ok_or(()),
                }
            }
        }))
    }

    /// A string; `Err` if it has half of a surrogate pair.
    fn text(&mut self) -> Result<Vec<u8>, ()> {
        let start = self.at;
        self.at += 1;
        while self.bytes[self.at] != b'"' {
            self.at += if self.bytes[self.at] == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        let text = serde_json::from_slice::<String>(&self.bytes[start..self.at]);
        text.map(String::into_bytes).map_err(|_| ())
    }
}

/// The shortest form of a whole number up to 2^53, digit by digit.
fn whole(number: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let behind = behind.trim_end_matches('0');
    let digits = [before, behind].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(b"0".to_vec());
    }
    // An exponent that does not fit is far beyond all others.
    let negative = exponent.starts_with('-');
    let shift: i64 = exponent.parse().unwrap_or(if negative { i64::MIN / 2 } else { i64::MAX / 2 });
    let shift = shift - behind.len() as i64;
    let (digits, zeros) = match usize::try_from(shift) {
        Ok(zeros) => (digits, zeros.min(20)),
        Err(_) => {
            let significant = digits.trim_end_matches('0');
            let spare = (digits.len() - significant.len()) as i64;
            (shift >= -spare).then(|| (&digits[..digits.len() - shift.unsigned_abs() as usize], 0))?
        }
    };
    let text = [digits, &"0".repeat(zeros)].concat();
    let value: u64 = text.parse().ok().filter(|value| *value <= 1 << 53)?;
    Some([sign, &value.to_string()].concat().into_bytes())
}
