//! The arguments of `diana test`.

use crate::output::{Format, Output};
use std::path::PathBuf;

/// The arguments of `diana test`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Test files, or folders with `*.test.yaml` or `*.test.json`. The default is the current
    /// folder
    pub files: Vec<PathBuf>,
    /// Write the results to this file as JUnit XML, too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Print the results in the Test Anything Protocol
    #[arg(long, conflicts_with = "format")]
    pub tap: bool,
    /// Exit with code 1 if a rule never refused, delayed, marked or ran without its store, although
    /// it could
    #[arg(long)]
    pub require_coverage: bool,
    /// Run again whenever a test file or its document changes
    #[arg(long)]
    pub watch: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
}

/// The form of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Text,
    /// The Test Anything Protocol.
    Tap,
    /// One JSON value.
    Json,
}

impl Args {
    /// The form of the results.
    pub(super) fn form(&self) -> Form {
        match (self.tap, self.output.format) {
            (true, _) => Form::Tap,
            (false, Format::Text) => Form::Text,
            (false, Format::Json) => Form::Json,
        }
    }
}
