//! Prints the JSON Schema of documents. The schema accepts every document that the filter accepts;
//! the tests probe the filter's reader for each key, range and choice.

mod document;
mod json;
mod limit;
mod rule;
pub mod shape;
mod store;

use crate::output::{self, Output};
use miette::Result;
use serde_json::Value;
use shape::Shape;
use std::process::ExitCode;

/// The arguments of `diana schema`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The form of the output: a schema is JSON in either form
    #[command(flatten)]
    pub output: Output,
}

/// Runs the command.
pub fn run(_: &Args) -> Result<ExitCode> {
    output::print_json(&schema())?;
    Ok(ExitCode::SUCCESS)
}

/// The JSON Schema (draft 2020-12) of a document in any of its three forms.
///
/// ```
/// let schema = diana_cli::schema::schema();
/// assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
/// assert_eq!(schema["$defs"]["rule"]["properties"]["rpu"]["anyOf"][0]["maximum"], 1_000_000_000);
/// ```
#[must_use]
pub fn schema() -> Value {
    json::schema(&definitions())
}

/// The objects of a document, by name. The name is that of a definition in the schema.
#[must_use]
pub fn definitions() -> Vec<(&'static str, Shape)> {
    [document::definitions(), limit::definitions(), rule::definitions(), store::definitions()].concat()
}
