//! Shows which limits a request meets and what each rule says. The engine decides, over a store in
//! memory and on a virtual clock; this command only asks and shows.

mod actors;
mod conditions;
mod document;
mod limits;
mod lists;
mod near;
mod outcome;
mod report;
mod request;
mod rules;
mod runs;
mod simulation;
mod text;
mod visible;

pub use report::*;

use crate::output::{self, Format, Output};
use crate::source;
use miette::{Result, miette};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `diana explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The file with the document
    pub file: PathBuf,
    /// The method of the request
    #[arg(long, default_value = "GET")]
    pub method: String,
    /// The path with its query, or a whole URL
    #[arg(long)]
    pub url: String,
    /// The address of the peer, as the gateway reports it
    #[arg(long, default_value = "127.0.0.1")]
    pub ip: String,
    /// A header, as in `-H 'x-user-id: 7'`; a header may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The host that the request asks for
    #[arg(long)]
    pub host: Option<String>,
    /// The scheme of the request
    #[arg(long)]
    pub scheme: Option<String>,
    /// The size of the request's body in bytes, or `unknown` for a chunked body
    #[arg(long, value_name = "BYTES")]
    pub body_size: Option<String>,
    /// An attribute of the gateway, as in `--property xds.route_name=main`
    #[arg(long = "property", value_name = "PATH=VALUE")]
    pub properties: Vec<String>,
    /// How often the request comes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_TIMES))]
    pub times: u32,
    /// The time between two requests, such as `100ms`
    #[arg(long, default_value = "0s", value_name = "SPAN")]
    pub every: String,
    /// How long each request is in flight, such as `2s`
    #[arg(long, default_value = "0s", value_name = "SPAN")]
    pub lasts: String,
    /// The instant of the first request: RFC 3339, or seconds since 1970; now by default
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// The status of the upstream's responses, for rules that depend on it
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(100..=599))]
    pub status: u16,
    /// The size of each response's body in bytes, for rules that depend on it
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub response_bytes: u64,
    /// Decide as while the global store is down
    #[arg(long)]
    pub store_down: bool,
    /// List all limits that do not apply, not only the nearest
    #[arg(long)]
    pub all: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
}

/// The most requests of one call.
const MAX_TIMES: i64 = 100_000;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    // Mistakes are reported as `diana check` reports them.
    source::configuration(&args.file)?;
    let explanation = explain(args, &source::document(&args.file)?)?;
    match args.output.format {
        Format::Text => output::print(&text(&explanation))?,
        Format::Json => output::print_json(&explanation)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Explains the request of `args` under a document in JSON.
///
/// ```
/// use clap::Parser;
/// use diana_cli::{Arguments, Command, explain};
///
/// let document = br#"{"url": "/orders", "rules": [
///     {"name": "per-ip", "actor": "ip", "rpu": 2, "unit": "minute"}
/// ]}"#;
/// let arguments = ["diana", "explain", "-", "--url", "/orders/17", "--times", "3"];
/// let Command::Explain(args) = Arguments::parse_from(arguments).command else { return };
/// let explanation = explain::explain(&args, document).expect("a valid document");
/// let rule = &explanation.limits[0].rules[0];
/// assert_eq!((&*rule.name, rule.actor.value.as_deref()), ("per-ip", Some("127.0.0.1")));
/// assert_eq!(explanation.refused.expect("the third request").request, 3);
/// ```
pub fn explain(args: &Args, document: &[u8]) -> Result<Explanation> {
    let incoming = request::Incoming::of(args)?;
    let value = diana_document::parse(document).map_err(|error| miette!("{error}"))?;
    let document = document::Document::of(&value);
    let simulation = simulation::run(&document, &incoming)?;
    let matched = limits::matched(&document, &incoming)?;
    let list = lists::entry(&document, &incoming, &simulation)?;
    let actors = actors::of_rules(&document, &matched.applying, &incoming);
    let limits = rules::views(&document, &matched, actors, &simulation);
    let (nearly, others) = near::limits(&document, &matched, &incoming, args.all);
    Ok(Explanation {
        document: name(&args.file),
        request: incoming.view(),
        notes: simulation.notes(&document, &incoming),
        list,
        plan: simulation.plan.clone(),
        is_important: simulation.is_important,
        limits,
        nearly,
        others,
        outcomes: outcome::runs(&simulation),
        admitted: simulation.admitted,
        refused: simulation.refused,
    })
}

/// The explanation as text for a terminal.
#[must_use]
pub fn text(explanation: &Explanation) -> String {
    text::render(explanation)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
