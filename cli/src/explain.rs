//! Shows which limits apply to a request, and what each rule decides. The engine decides, over a
//! store in memory and on a virtual clock.

mod args;
mod arguments;
mod line;
mod ticket;

pub use args::Args;
pub use diana_workbench::explain::*;
pub use ticket::{TicketRule, TicketView};

use crate::output::{self, Format};
use crate::valid;
use miette::{Result, bail, miette};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::{fs, io};

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let document = valid::document(&args.file)?;
    if let Some(ticket) = &args.ticket {
        let view = read_ticket(args, ticket, &document)?;
        match args.output.format {
            Format::Text => output::print(&ticket_text(&view))?,
            Format::Json => output::print_json(&view)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let explanation = explain(args, &document)?;
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
    let value = diana_document::parse(document).map_err(|error| miette!("{error}"))?;
    let document = document::Document::of(&value);
    let (incoming, simulation) = match (&args.log, args.line) {
        (Some(log), Some(line)) => {
            let (incoming, simulation) = line::of_line(&document, log, args, line)?;
            (Rc::new(incoming), simulation)
        }
        _ => {
            let body = args.body.as_deref().map(|path| read_body(path, args)).transpose()?;
            let mut incoming = arguments::incoming(args, body.as_deref())?;
            if let Some(body) = &body {
                incoming.read_body(body, &document::compile(&value)?);
            }
            let incoming = Rc::new(incoming);
            let simulation = simulation::run(&document, &incoming)?;
            (incoming, simulation)
        }
    };
    of_decisions(&document, &incoming, &simulation, &name(&args.file), args.all)
}

/// The bytes of the file with the request's body.
fn read_body(path: &Path, args: &Args) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return fs::read(path).map_err(|error| miette!("--body: cannot read `{}`: {error}", path.display()));
    }
    if args.file == Path::new("-") {
        bail!("only one of the files can be `-`, standard input");
    }
    let mut body = Vec::new();
    io::stdin().read_to_end(&mut body).map_err(|error| miette!("--body: {error}"))?;
    Ok(body)
}

/// What the ticket of a refusal says, for a document in JSON.
pub fn read_ticket(args: &Args, ticket: &str, document: &[u8]) -> Result<TicketView> {
    ticket::read(args, ticket, document)
}

/// What a ticket says, as text for a terminal.
#[must_use]
pub fn ticket_text(view: &TicketView) -> String {
    ticket::render(view)
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
