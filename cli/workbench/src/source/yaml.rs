//! Reads YAML with the place of each value.

use super::content::SyntaxError;
use super::value::{Entry, Kind, Value};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};
use std::collections::HashMap;
use std::ops::Range;

/// How deep values may be nested. Envoy's own bound is 100.
const MAX_DEPTH: usize = 100;

/// How many values aliases may add to a text. Nested aliases multiply.
const MAX_COPIES: usize = 1_000_000;

/// The documents of a YAML text. Scalars without quotes stay [`Kind::Plain`].
pub fn documents(text: &str) -> Result<Vec<Value>, SyntaxError> {
    let mut reader = Reader::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => reader.event(event, span)?,
            Err(error) => {
                let at = reader.byte(error.marker());
                return Err(SyntaxError { at, why: format!("not valid YAML: {}", error.info()) });
            }
        }
    }
    Ok(reader.documents)
}

struct Reader<'a> {
    text: &'a str,
    /// The byte of each character; empty if all characters are one byte.
    bytes: Vec<usize>,
    documents: Vec<Value>,
    open: Vec<Open>,
    anchors: HashMap<usize, Value>,
    copies: usize,
}

/// A list or an object that has not ended.
struct Open {
    start: usize,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Value>),
    /// The entries, and the key whose value comes next.
    Object(Vec<Entry>, Option<(String, Range<usize>)>),
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        let bytes = match text.is_ascii() {
            true => Vec::new(),
            false => text.char_indices().map(|(at, _)| at).collect(),
        };
        Reader { text, bytes, documents: Vec::new(), open: Vec::new(), anchors: HashMap::new(), copies: 0 }
    }

    fn byte(&self, marker: &Marker) -> usize {
        match self.bytes.is_empty() {
            true => marker.index().min(self.text.len()),
            false => self.bytes.get(marker.index()).copied().unwrap_or(self.text.len()),
        }
    }

    /// The end of a quoted scalar. The parser's span reaches to the next token.
    fn end_of_quoted(&self, start: usize, quote: char) -> Option<usize> {
        let mut chars = self.text.get(start..)?.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            let is_doubled = |next: Option<&(usize, char)>| next.is_some_and(|(_, next)| *next == quote);
            if c == '\\' && quote == '"' || c == quote && quote == '\'' && is_doubled(chars.peek()) {
                chars.next();
            } else if c == quote {
                return Some(start.saturating_add(at).saturating_add(1));
            }
        }
        None
    }

    fn event(&mut self, event: Event, span: Span) -> Result<(), SyntaxError> {
        let range = self.byte(&span.start)..self.byte(&span.end);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = match &tag {
                    None => style != ScalarStyle::Plain,
                    // Envoy types a scalar with any other tag as if it were plain.
                    Some(tag) => is_text(tag),
                };
                let text = text.into_owned();
                let kind = if is_text { Kind::Text(text) } else { Kind::Plain(text) };
                let quote = match style {
                    ScalarStyle::SingleQuoted => Some('\''),
                    ScalarStyle::DoubleQuoted => Some('"'),
                    ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => None,
                };
                let range = match quote {
                    Some(quote) => range.start..self.end_of_quoted(range.start, quote).unwrap_or(range.end),
                    None => range,
                };
                self.anchored(anchor, Value { range, kind, quote })
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                let value = value.ok_or_else(|| wrong(range.start, "the alias is inside its own anchor"))?;
                self.copies = self.copies.saturating_add(size(&value));
                if self.copies > MAX_COPIES {
                    return Err(wrong(range.start, "aliases expand to more than 1,000,000 values"));
                }
                self.add(value)
            }
            Event::SequenceStart(anchor, _) => self.start(range.start, anchor, Items::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                self.start(range.start, anchor, Items::Object(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(range),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn start(&mut self, start: usize, anchor: usize, items: Items) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(wrong(start, "values are nested more than 100 deep"));
        }
        if let Some(Open { items: Items::Object(_, None), .. }) = self.open.last() {
            return Err(wrong(start, "a key must be text"));
        }
        self.open.push(Open { start, anchor, items });
        Ok(())
    }

    fn end(&mut self, end: Range<usize>) -> Result<(), SyntaxError> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let (last, kind) = match open.items {
            Items::List(items) => (items.last().map(|item| item.range.end), Kind::List(items)),
            Items::Object(entries, _) => {
                (entries.last().map(|entry| entry.value.range.end), Kind::Object(entries))
            }
        };
        // A block has no closing bracket: it ends with its last value.
        let end = if end.is_empty() { last.unwrap_or(end.end) } else { end.end };
        let value = Value { range: open.start..end.max(open.start), kind, quote: None };
        self.anchored(open.anchor, value)
    }

    fn anchored(&mut self, anchor: usize, value: Value) -> Result<(), SyntaxError> {
        if anchor > 0 {
            self.anchors.insert(anchor, value.clone());
        }
        self.add(value)
    }

    fn add(&mut self, mut value: Value) -> Result<(), SyntaxError> {
        match self.open.last_mut().map(|open| &mut open.items) {
            None => self.documents.push(value),
            Some(Items::List(items)) => items.push(value),
            Some(Items::Object(entries, key)) => match key.take() {
                Some((key, key_range)) => {
                    // An absent value is shown at its key.
                    if value.range.is_empty() {
                        value.range = key_range.clone();
                    }
                    entries.push(Entry { key, key_range, value });
                }
                None => {
                    let text = value.text().ok_or_else(|| wrong(value.range.start, "a key must be text"))?;
                    *key = Some((text.into(), value.range.clone()));
                }
            },
        }
        Ok(())
    }
}

fn wrong(at: usize, why: &str) -> SyntaxError {
    SyntaxError { at, why: format!("not valid YAML: {why}") }
}

/// `!`, which says that a scalar is text.
fn is_text(tag: &Tag) -> bool {
    tag.suffix == "!" && tag.handle.is_empty() || tag.handle == "!" && tag.suffix.is_empty()
}

fn size(value: &Value) -> usize {
    let below: usize = match &value.kind {
        Kind::List(items) => items.iter().map(size).sum(),
        Kind::Object(entries) => entries.iter().map(|entry| size(&entry.value)).sum(),
        _ => 0,
    };
    below.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::super::resolve::resolve;
    use super::super::scalar::Dialect;
    use super::*;

    fn one(text: &str) -> Value {
        let mut documents = documents(text).unwrap();
        assert_eq!(documents.len(), 1);
        documents.remove(0)
    }

    #[test]
    fn each_value_has_its_place() {
        let text = "é: 1\nlist:\n  - {a: x, \"b\": 'y'}\n  - c: |\n      block\n    d:\nq: 'it''s'  # it's\nend: \"a\\\\\\\"\" # \"\n";
        let root = one(text);
        let of = |range: &Range<usize>| text.get(range.clone()).unwrap();
        let items = root.get("list").unwrap().items();
        assert_eq!(of(&items[0].range), "{a: x, \"b\": 'y'}");
        assert_eq!(of(&items[0].entries()[1].key_range), "\"b\"");
        assert_eq!(of(&items[0].entries()[1].value.range), "'y'");
        assert!(of(&items[1].range).starts_with("c: |"), "{:?}", of(&items[1].range));
        assert!(of(&items[1].entries()[0].value.range).starts_with("block"));
        assert_eq!(of(&items[1].entries()[1].value.range), "d");
        assert_eq!(of(&root.get("q").unwrap().range), "'it''s'");
        assert_eq!(of(&root.get("end").unwrap().range), r#""a\\\"""#);
        assert!(of(&root.range).ends_with(r#"end: "a\\\"""#));
    }

    #[test]
    fn the_json_is_what_envoy_reads() {
        let json = |text: &str, dialect| {
            let mut root = one(text);
            resolve(&mut root, dialect);
            root.to_json()
        };
        let text = "a: 1\nb: &x {c: yes, d: \"yes\"}\na: [0x10, *x, !!str 5, ! 5]\n";
        assert_eq!(
            json(text, Dialect::Envoy),
            r#"{"b":{"c":true,"d":"yes"},"a":[16,{"c":true,"d":"yes"},5,"5"]}"#
        );
        let merged = "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n";
        assert_eq!(json(merged, Dialect::Envoy), r#"{"a":{"b":1,"c":2},"d":{"<<":{"b":1,"c":2},"c":3}}"#);
        assert_eq!(json(merged, Dialect::Kubernetes), r#"{"a":{"b":1,"c":2},"d":{"c":3,"b":1}}"#);
    }

    #[test]
    fn what_is_no_yaml_has_its_place() {
        for (text, line) in [
            ("a: 1\nb: [1, 2\n", 3),
            ("a:\n  - 1\n b: 2\n", 3),
            ("a: b: c\n", 1),
            ("a: 'x\n", 1),
            ("a: *b\n", 1),
            ("{a: 1}: 2\n", 1),
        ] {
            let error = documents(text).unwrap_err();
            let at = text.get(..error.at).unwrap().matches('\n').count() + 1;
            assert_eq!(at, line, "{text:?}: {error:?}");
        }
        assert!(documents(&"[".repeat(101)).is_err());
        assert!(documents(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_ok());
        let mut bomb = String::from("a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n");
        for level in 1..10 {
            let before = format!("*a{},", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
        }
        assert!(documents(&bomb).unwrap_err().why.contains("aliases"));
        assert_eq!(documents("a: 1\n---\nb: 2\n").unwrap().len(), 2);
    }
}
