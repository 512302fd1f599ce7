//! Finds mistakes in documents and in the gateway's configuration around them.

mod redis;

pub use diana_workbench::check::*;

use crate::files::{self, Disk};
use crate::number::within;
use crate::output::{Format, Output, print, print_json};
use code::Severity;
use diana_workbench::source::files::Around;
use miette::Result;
use report::{Fleet, Report, Version};
use serde_json::json;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `diana check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Documents of Diana, configurations of Envoy or nginx, or Kubernetes manifests; `-` is
    /// standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Exit with code 1 if there are warnings
    #[arg(long)]
    pub deny_warnings: bool,
    /// The number of gateways with this configuration. By default, the `replicas` of the only
    /// workload in the same file
    #[arg(long, value_name = "N", value_parser = within(1..=1_000_000u64))]
    pub replicas: Option<u64>,
    /// A Redis that counts rules, `HOST:PORT`, to warn of evictions; its password in
    /// `REDISCLI_AUTH`
    #[arg(long, value_name = "ADDRESS")]
    pub redis: Option<String>,
    /// The version of the gateways' Envoy, such as 1.38. By default, any that Diana supports
    #[arg(long, value_name = "VERSION")]
    pub envoy: Option<Version>,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
}

/// The exit code if there are findings.
const FINDINGS: u8 = 1;

/// The exit code if a file cannot be read.
const UNREADABLE: u8 = 2;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let evicting = args.redis.as_deref().map(redis::evicting).transpose()?.flatten();
    let fleet = Fleet { replicas: args.replicas, envoy: args.envoy, evicting };
    let reports: Vec<Report> = args.files.iter().map(|path| report_of(path, fleet)).collect();
    let count = |severity| reports.iter().map(|report| report.count(severity)).sum::<usize>();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    match args.output.format {
        Format::Text => {
            let mut text = render::text(&reports, stdout().is_terminal());
            text.push_str(&render::counts(errors, warnings));
            print(&text)?;
        }
        Format::Json => print_json(&json!({
            "findings": reports.iter().flat_map(render::findings).collect::<Vec<_>>(),
            "documents": reports.iter().flat_map(render::documents).collect::<Vec<_>>(),
            "errors": errors,
            "warnings": warnings,
        }))?,
    }
    let is_fine = errors == 0 && (warnings == 0 || !args.deny_warnings);
    Ok(match reports.iter().any(Report::is_unreadable) {
        true => ExitCode::from(UNREADABLE),
        false if is_fine => ExitCode::SUCCESS,
        false => ExitCode::from(FINDINGS),
    })
}

/// Checks a file. If the file cannot be read, this is the only finding.
#[must_use]
pub fn report_of(path: &Path, fleet: Fleet) -> Report {
    match files::read(path) {
        Ok(file) => Report::around(file, fleet, Some(Around { path, files: &Disk })),
        Err(unreadable) => Report::unreadable(unreadable),
    }
}
