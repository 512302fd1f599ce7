//! The request of a line of a log, with the counts of those before it.

use super::args::Args;
use diana_replay::Replay;
use diana_replay::number::plural;
use diana_replay::printable::printable;
use diana_workbench::explain::document::Document;
use diana_workbench::explain::gateways::Gateways;
use diana_workbench::explain::request::Incoming;
use diana_workbench::explain::simulation::Simulation;
use miette::{IntoDiagnostic, Result, bail};
use std::path::Path;

/// Decides about the request of a line of a log, after those before it. Also returns the request.
pub fn of_line(document: &Document, log: &Path, args: &Args, line: u64) -> Result<(Incoming, Simulation)> {
    let mut simulation = Simulation::new(&Gateways::new(document, 1)?, false)?;
    let json = simulation.document();
    let decides = diana_replay::Document::of(json.as_bytes()).into_diagnostic()?;
    let format = args.log_format.as_deref();
    let replay = Replay::open(decides, None, &[log.into()], format, &args.field, false).into_diagnostic()?;
    let (slots, mut found, mut before) = (replay.slots().clone(), None, 0u64);
    let summary = replay.run(
        |record, decision, _| {
            if record.line == line {
                let incoming = Incoming::logged(record, &slots);
                simulation.note(0, decision, &incoming, record.start);
                found = Some((incoming, record.status));
            } else if found.is_none() {
                before = before.saturating_add(1);
            }
        },
        |_, _| {},
    );
    let summary = summary.into_diagnostic()?;
    let Some((incoming, status)) = found else {
        let name = printable(&log.display().to_string());
        if line > summary.log.lines {
            bail!("`{name}` has only {}, and so no line {line}", plural(summary.log.lines, "line"));
        }
        let why =
            summary.log.examples.iter().find(|example| example.line == line).map(|example| &example.why);
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        bail!("line {line} of `{name}` is no request that can be read{why}");
    };
    let logged = status.map_or(String::new(), |status| format!(" The log has the status {status}."));
    simulation.add_note(format!("The log has {} before this one.{logged}", plural(before, "request")));
    summary.log.assumptions.into_iter().for_each(|note| simulation.add_note(note));
    Ok((incoming, simulation))
}
