//! Decides the requests of an access log on a virtual clock, and reports what would have been
//! refused.
//!
//! ```text
//!   log ─ Records by their starts ─► engine ─ Decision ─► tally ─► Summary ─► text, JSON, HTML
//! ```

mod document;
pub mod engine;
pub mod log;
mod memory;
mod progress;
pub mod report;
mod request;
pub mod run;
pub mod summary;
mod tally;
pub mod text;

use crate::output;
use miette::{IntoDiagnostic, Result, WrapErr};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `diana replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file with the document
    pub file: PathBuf,

    /// An access log: plain, gzip or zstd; `-` is the standard input. Several logs are merged by
    /// time
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub log: Vec<PathBuf>,

    /// The format of the lines: envoy, istio, nginx, json, Envoy's command operators or nginx'
    /// variables. Found out from the first lines by default
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,

    /// Compare with the decisions of another document
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,

    /// Try other quotas for each rule, and suggest quotas
    #[arg(long)]
    pub what_if: bool,

    /// Write the report as a page of HTML, which includes `--what-if`
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,

    /// End with exit code 1 if more than this share of the requests is refused
    #[arg(long, value_name = "PERCENT")]
    pub fail_above: Option<f64>,
}

const EXAMPLES: &str = "Examples:
  diana replay limits.yaml --log access.log --report report.html
  diana replay limits.yaml --log access.log.1.gz access.log --format nginx --what-if
  diana replay new.yaml --log access.log --against old.yaml --fail-above 0.1";

impl Args {
    /// Whether the replay tries other quotas.
    fn tries(&self) -> bool {
        self.what_if || self.report.is_some()
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let summary = run::replay(args)?;
    if let Some(path) = &args.report {
        let written = fs::write(path, report::html(&summary));
        written.into_diagnostic().wrap_err_with(|| format!("cannot write `{}`", path.display()))?;
    }
    match args.json {
        true => output::print_json(&summary)?,
        false => output::print(&text::report(&summary))?,
    }
    let summary::Totals { requests, refused, .. } = summary.totals;
    let is_above = |percent: f64| refused as f64 * 100.0 > percent * requests as f64;
    Ok(if args.fail_above.is_some_and(is_above) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
