//! Prints the JSON Schema of documents.

use miette::Result;
use std::process::ExitCode;

/// The arguments of `diana schema`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
