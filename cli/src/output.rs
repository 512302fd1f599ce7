//! The form of a command's output, for people or for programs.

use clap::{Args, ValueEnum};
use diana_replay::printable::is_hidden;
use miette::{IntoDiagnostic, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

/// The options of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Output {
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people
    #[default]
    Text,
    /// One JSON value, for programs
    Json,
}

/// Writes to standard output. If the reader closes the pipe, as `head` does, this is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.into_diagnostic(),
    }
}

/// Writes a value as indented JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    let mut text = escaped(&serde_json::to_string_pretty(value).into_diagnostic()?);
    text.push('\n');
    print(&text)
}

/// The same JSON without characters that a terminal obeys or does not show. JSON has them only in
/// its texts, where it can write them as numbers.
fn escaped(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '\n' || !is_hidden(character) {
            safe.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // A `String` takes any text.
            let _ = write!(safe, "\\u{unit:04x}");
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_safe_for_a_terminal_and_means_the_same() {
        let value = serde_json::json!({"a\u{9b}2J": "\u{1b}[2J\u{202e}gpj\u{e0041}\u{7f}\n é 🦀"});
        let json = escaped(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(json, "{\n  \"a\\u009b2J\": \"\\u001b[2J\\u202egpj\\udb40\\udc41\\u007f\\n é 🦀\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }
}
