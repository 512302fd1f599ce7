//! Prints the JSON Schema of documents. The schema accepts every document that the filter accepts,
//! and describes the keys in the table of `diana-config`.

mod json;

use crate::output::{self, Output};
use diana_config::keys;
use miette::Result;
use serde_json::Value;
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
/// let rpu = &schema["$defs"]["quota"]["properties"]["rpu"]["anyOf"][0];
/// assert_eq!(rpu["maximum"], 999_999_999_999_999_u64);
/// ```
#[must_use]
pub fn schema() -> Value {
    json::schema(keys::definitions())
}
