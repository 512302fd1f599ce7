//! The form of a command's output, for people or for programs.

use clap::{Args, ValueEnum};
use miette::{IntoDiagnostic, Result};
use serde::Serialize;
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
    let mut text = serde_json::to_string_pretty(value).into_diagnostic()?;
    text.push('\n');
    print(&text)
}
