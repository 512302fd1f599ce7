//! Decides the requests of an access log on a virtual clock, and reports what would have been
//! refused.
//!
//! ```text
//!   log ─ Records, by their starts ─► engine ─ Decision ─► tally ─► Summary ─► text, JSON
//! ```

mod args;
mod document;
pub mod engine;
pub mod log;
mod memory;
mod progress;
mod request;
pub mod run;
pub mod summary;
mod tally;
pub mod text;

pub use args::Args;

use crate::output;
use miette::Result;
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let summary = run::replay(args)?;
    match args.json {
        true => output::print_json(&summary)?,
        false => output::print(&text::report(&summary))?,
    }
    let summary::Totals { requests, refused, .. } = summary.totals;
    let is_above = |percent: f64| refused as f64 * 100.0 > percent * requests as f64;
    Ok(if args.fail_above.is_some_and(is_above) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
