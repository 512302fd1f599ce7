//! `diana replay`: checks the arguments, replays the logs, and prints the summary. `diana-replay`
//! decides and sums up.

mod args;
mod progress;

pub use args::{Args, field};

use crate::{output, valid};
use diana_replay::number::{count, plural};
use diana_replay::printable::printable;
use diana_replay::summary::{EndedEarly, LogSummary, Summary, Totals};
use diana_replay::{Document, Error, Replay, report, text, total_bytes};
use miette::{IntoDiagnostic, Report, Result, WrapErr, bail, miette};
use progress::Bar;
use std::fs;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    reads_standard_input_once(args)?;
    if let Some(path) = &args.report {
        is_no_input(path, args)?;
        is_in_a_folder(path)?;
    }
    let summary = replay(args)?;
    has_requests(&summary)?;
    if let Some(path) = &args.report {
        let written = fs::write(path, report::html(&summary));
        written.into_diagnostic().wrap_err_with(|| format!("cannot write `{}`", path.display()))?;
    }
    match args.json {
        true => output::print_json(&summary)?,
        false => output::print(&text::report(&summary, args.suggest))?,
    }
    if let Some(path) = &args.report {
        // `eprintln!` panics if nobody reads the message.
        let _ = writeln!(stderr(), "wrote `{}`", printable(&path.display().to_string()));
    }
    is_complete(&summary.log, args)?;
    // What cannot be replayed passes no gate.
    let Totals { requests, refused, undecided, .. } = summary.totals;
    let refused = refused.saturating_add(undecided);
    let is_above = |percent: f64| refused as f64 * 100.0 > percent * requests as f64;
    Ok(if args.fail_above.is_some_and(is_above) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Replays the logs of the arguments.
pub fn replay(args: &Args) -> Result<Summary> {
    let document = |path: &PathBuf| Document::of(&valid::document(path)?).into_diagnostic();
    let first = document(&args.file)?;
    let other = args.against.as_ref().map(document).transpose()?;
    let replay = Replay::open(first, other, &args.log, args.format.as_deref(), &args.field, args.tries());
    let named = |error| match error {
        Error::Format(why) if args.format.is_some() => miette!("`--format`: {why}"),
        error => Report::from_err(error),
    };
    let bar = Bar::new(total_bytes(args.log.iter().map(PathBuf::as_path)));
    let mut requests = 0u64;
    let summary = replay.map_err(named)?.run(
        |_, _, _| {},
        |bytes, count| {
            requests = requests.saturating_add(count);
            bar.show(bytes, requests);
        },
    );
    bar.finish();
    let mut summary = summary.into_diagnostic()?;
    let name = |path: &PathBuf| path.display().to_string();
    summary.document = name(&args.file);
    summary.log.files = args.log.iter().map(name).collect();
    if let (Some(comparison), Some(path)) = (&mut summary.against, &args.against) {
        comparison.document = name(path);
    }
    Ok(summary)
}

/// A replay without requests says nothing about the document: a check of it must not pass.
fn has_requests(summary: &Summary) -> Result<()> {
    let log = &summary.log;
    if summary.totals.requests > 0 {
        return Ok(());
    }
    match (log.examples.first(), log.ended_early.first()) {
        (Some(first), _) => bail!(
            "no line can be read as a request (format {}); {}:{}: {}; name another format with `--format`",
            log.format,
            first.file,
            first.line,
            first.why
        ),
        (None, Some(ended)) => bail!(
            "no request can be read: `{}` ended early, after line {}: {}",
            ended.file,
            ended.line,
            ended.why
        ),
        (None, None) => {
            let files: Vec<String> = log.files.iter().map(|file| format!("`{file}`")).collect();
            bail!("no requests in {}", files.join(", "))
        }
    }
}

/// The exit code tells a report on a part of the log from a report on the whole log.
fn is_complete(log: &LogSummary, args: &Args) -> Result<()> {
    if let Some(EndedEarly { file, line, why }) = log.ended_early.first() {
        let line = count(*line);
        bail!("`{file}` ended early, after line {line}: {why}; the report leaves out the rest");
    }
    let (unreadable, lines, max) = (log.unreadable, log.lines, args.max_unreadable);
    // All lines of such a file are unreadable, however few they are among the lines of all files.
    if let (Some(file), true) = (log.unmatched.first(), max < 100.0) {
        bail!(
            "`{file}` has no line in the format {}; all logs of one command have the same format",
            log.format
        );
    }
    if unreadable as f64 * 100.0 > max * lines as f64 {
        let (unreadable, lines) = (count(unreadable), plural(lines, "line"));
        bail!("{unreadable} of {lines} cannot be read, but `--max-unreadable` permits only {max} %");
    }
    Ok(())
}

/// Standard input ends after its first reader: a second one would find nothing.
fn reads_standard_input_once(args: &Args) -> Result<()> {
    let inputs = args.log.iter().chain([&args.file]).chain(&args.against);
    if inputs.filter(|path| **path == Path::new("-")).count() > 1 {
        bail!("only one of the files can be `-`, standard input");
    }
    Ok(())
}

/// The replay may take minutes: a report that cannot be written must be known before.
fn is_in_a_folder(report: &Path) -> Result<()> {
    let folder = report.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        bail!("`--report`: the folder of `{}` does not exist", report.display());
    }
    if report.is_dir() {
        bail!("`--report`: `{}` is a folder", report.display());
    }
    Ok(())
}

/// The report must not replace a document or a log.
fn is_no_input(report: &Path, args: &Args) -> Result<()> {
    let same = |path: &PathBuf| fs::canonicalize(path).ok().zip(fs::canonicalize(report).ok());
    let mut inputs = args.log.iter().chain([&args.file]).chain(&args.against);
    match inputs.find(|path| same(path).is_some_and(|(input, report)| input == report)) {
        Some(path) => bail!("`--report` would replace `{}`: name another file", path.display()),
        None => Ok(()),
    }
}
