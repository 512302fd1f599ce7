//! Decides the requests of an access log on a virtual clock.

pub mod report;
pub mod summary;

use crate::source;
use miette::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `diana replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file with the document
    pub file: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    source::configuration(&args.file)?;
    Ok(ExitCode::SUCCESS)
}
