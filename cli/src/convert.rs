//! Converts the configuration of another rate limiter to a document, and says line by line what is
//! kept, what changes and what is lost, and why.

mod address;
mod args;
mod draft;
mod envoy;
mod envoy_gateway;
mod ingress_nginx;
mod input;
mod kong;
mod local_ratelimit;
mod nginx;
mod notes;
mod places;
mod rate;
mod ratelimit;
mod shape;

pub use args::{Args, SourceKind};
pub use notes::{Fate, Note};

use crate::output::{self, Format};
use crate::source;
use draft::Draft;
use input::Input;
use miette::{IntoDiagnostic, Result, WrapErr, bail, miette};
use notes::{Notes, Spot};
use places::{Counter, Place};
use serde_json::{Value, json};
use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit code if something is lost.
const LOST: u8 = 1;

/// A document, and what became of its source.
#[derive(Debug)]
pub struct Conversion {
    /// The document.
    pub document: Value,
    /// The document as YAML, with the lines of the source as comments.
    pub yaml: String,
    /// What became of the source.
    pub notes: Vec<Note>,
}

impl Conversion {
    /// The notes as text.
    #[must_use]
    pub fn text(&self) -> String {
        notes::text(&self.notes)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let conversion = convert(args.from, &args.files)?;
    match (args.output.format, &args.file) {
        (Format::Json, None) => {
            output::print_json(&json!({"document": conversion.document, "notes": conversion.notes}))?;
        }
        (Format::Json, Some(_)) => {
            bail!("--format json prints the document with the notes: leave `--output FILE` out")
        }
        (Format::Text, None) => output::print(&conversion.yaml)?,
        (Format::Text, Some(file)) => write(file, &conversion.yaml)?,
    }
    if args.output.format == Format::Text {
        // Writing fails if nobody reads the notes, which is fine.
        let _ = stderr().write_all(conversion.text().as_bytes());
    }
    Ok(match notes::count(&conversion.notes, Fate::Lost) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(LOST),
    })
}

/// Converts files. The error shows a file that cannot be read, with the place.
pub fn convert(from: SourceKind, files: &[PathBuf]) -> Result<Conversion> {
    let inputs: Vec<Input> = files.iter().map(|file| Input::read(file)).collect::<Result<_>>()?;
    let (mut draft, mut notes) = (Draft::default(), Notes::default());
    match from {
        SourceKind::EnvoyLocal => local_ratelimit::convert(&inputs, &mut draft, &mut notes)?,
        SourceKind::EnvoyRatelimit => ratelimit::convert(&inputs, &mut draft, &mut notes)?,
        SourceKind::EnvoyGateway => envoy_gateway::convert(&inputs, &mut draft, &mut notes)?,
        SourceKind::IngressNginx => ingress_nginx::convert(&inputs, &mut draft, &mut notes)?,
        SourceKind::Nginx => nginx::convert(&inputs, &mut draft, &mut notes)?,
        SourceKind::Kong => kong::convert(&inputs, &mut draft, &mut notes)?,
    }
    let document = draft.document();
    // A document that the filter would refuse is a mistake of the conversion, not of its source.
    source::configuration(document.to_string().as_bytes()).map_err(|error| {
        miette!("{error}").wrap_err(format!(
            "the conversion of this file is wrong, which is a bug of `diana convert`: please report it with the file, and \
             convert by hand with docs/migrate/{}",
            from.page()
        ))
    })?;
    let names: Vec<String> = inputs.iter().map(|input| input.file.name.clone()).collect();
    Ok(Conversion { yaml: draft.yaml(), document, notes: notes.sorted(&names) })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).into_diagnostic().wrap_err_with(|| format!("cannot write `{}`", path.display()))
}

/// Adds the limits of places to the document, with notes about what they cannot keep. `spots` are
/// those of the places.
fn finish(
    places: &[Place],
    spots: &[Spot],
    mut counters: Vec<Counter>,
    draft: &mut Draft,
    notes: &mut Notes,
) {
    hoist_response(&mut counters, draft);
    let limits = places::limits(places, &counters);
    for counter in limits.split.iter().filter_map(|rule| counters.get(*rule)) {
        let name = counter.rule.name();
        notes.lost(
            &counter.spot,
            format!(
                "its places have different conditions, so `{name}` is in several limits, which count apart"
            ),
        );
    }
    for counter in limits.contradictory.iter().filter_map(|rule| counters.get(*rule)) {
        let name = counter.rule.name();
        notes.lost(
            &counter.spot,
            format!("a limit has one condition for each name, but `{name}` and its place have two"),
        );
    }
    for (one, other) in &limits.overlapping {
        if let (Some(one), Some(other)) = (spots.get(*one), spots.get(*other)) {
            let why = format!(
                "a request that fits this and line {} counts by the more specific url, or in both limits",
                one.line
            );
            notes.changed(other, "a limit of its own", why);
        }
    }
    draft.limits.extend(limits.limits);
}

/// Writes a response that all rules share once, at the top.
fn hoist_response(counters: &mut [Counter], draft: &mut Draft) {
    // 429 is the default.
    let default = json!({"status": 429});
    let first = counters.first().and_then(|counter| counter.response.clone());
    let is_shared = counters.iter().all(|counter| counter.response == first);
    if let Some(first) = first.filter(|_| is_shared) {
        counters.iter_mut().for_each(|counter| counter.response = None);
        if first != default {
            draft.top.insert("response".into(), first);
        }
    }
    for counter in counters {
        counter.response.take_if(|response| *response == default);
    }
}

/// The store of rules with `scope: global`, and what it needs.
fn store(draft: &mut Draft) -> &'static str {
    let redis = json!({"cluster": "redis", "secret": {"env": "DIANA_SECRET"}});
    draft.top.insert("store".into(), json!({"redis": redis}));
    "the rules count in Redis: give Envoy a cluster `redis` and the variable `DIANA_SECRET`, and set `replicas` \
        (docs/configuration/global.md)"
}
