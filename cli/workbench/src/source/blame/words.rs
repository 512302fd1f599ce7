//! The YAML parser's own errors in words.

/// What the parser says, and the same in words.
const WORDS: [(&str, &str); 13] = [
    ("did not find expected key", "expected a key with a colon, or the end of this object"),
    ("did not find expected '-' indicator", "expected `- `, which begins each item of this list"),
    ("mapping values are not allowed", "a key cannot begin here, because the value before has not ended"),
    ("did not find expected ',' or '}'", "expected `,` or `}` in this object"),
    ("expected ',' or ']'", "expected `,` or `]` in this list"),
    ("did not find expected node content", "expected a value"),
    ("simple key expect", "expected a colon after the key"),
    ("illegal placement of ':'", "a colon cannot stand here"),
    ("misplaced bracket", "a bracket closes nothing; remove the bracket"),
    (
        "invalid trailing content after double-quoted",
        "text follows the closing quote; put the whole value in quotes",
    ),
    ("found unknown anchor", "an alias names no anchor; put text that begins with `*` in quotes"),
    ("unexpected end of stream", "a quote is not closed"),
    ("invalid indentation", "the line is indented less than the value that it continues"),
];

/// The message in words; unchanged if it is another one.
#[must_use]
pub fn in_words(why: &str) -> String {
    let known = WORDS.iter().find(|(known, _)| why.contains(known));
    known.map_or_else(|| why.into(), |(_, words)| format!("not valid YAML: {words}"))
}
