//! The arguments of `diana replay`.

use std::path::PathBuf;

/// The arguments of `diana replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file with the document
    pub file: PathBuf,

    /// An access log: plain, gzip or zstd; `-` is standard input. The replay merges several
    /// logs by time
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    pub log: Vec<PathBuf>,

    /// The format of the lines: envoy, istio, nginx, json, Envoy's command operators or nginx's
    /// variables. By default, the command detects the format from the first lines
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,

    /// The key of JSON lines with a value of a body, as in `--field /usage/total_tokens=tokens`. By
    /// default, `usage.total_tokens`, or `total_tokens` in an object `usage`
    #[arg(long, value_name = "POINTER=KEY", value_parser = field)]
    pub field: Vec<(String, String)>,

    /// Compare with the decisions of another document
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,

    /// Try other quotas for each rule
    #[arg(long)]
    pub what_if: bool,

    /// Suggest a quota for each rule; includes `--what-if`
    #[arg(long)]
    pub suggest: bool,

    /// Write the report as an HTML page, which includes `--suggest`
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,

    /// Exit with code 1 if more than this share of the requests is refused
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_above: Option<f64>,

    /// Exit with code 2 if more than this share of the lines cannot be read
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "10")]
    pub max_unreadable: f64,
}

const EXAMPLES: &str = "Examples:
  diana replay limits.yaml --log access.log --report report.html
  diana replay limits.yaml --log access.log.1.gz access.log --format nginx --suggest
  diana replay new.yaml --log access.log --against old.yaml --fail-above 0.1";

/// A share in percent.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse().ok();
    number.filter(|percent| (0.0..=100.0).contains(percent)).ok_or("expected a number from 0 to 100".into())
}

/// The JSON pointer of a value, and the key of a log that has it.
pub fn field(text: &str) -> Result<(String, String), String> {
    let found = text.rsplit_once('=').filter(|(pointer, key)| pointer.starts_with('/') && !key.is_empty());
    let found = found.map(|(pointer, key)| (pointer.to_owned(), key.to_owned()));
    found.ok_or("expected a JSON pointer and a key, such as `/usage/total_tokens=tokens`".into())
}

impl Args {
    /// Whether the replay tries other quotas.
    pub(super) fn tries(&self) -> bool {
        self.what_if || self.suggest || self.report.is_some()
    }
}
