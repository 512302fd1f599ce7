//! The command `diana`: checks, explains and replays rate limits without a gateway, over the same
//! engine as the filter, and asks running gateways. A command is a module with `Args` and `run`,
//! and a line in [`Command`].
//!
//! Exit codes: 0 on success, 1 if a command found mistakes, 2 if the command could not run.
#![forbid(unsafe_code)]

pub mod check;
pub mod console;
pub mod convert;
pub mod ctl;
pub mod explain;
pub mod files;
pub mod gateways;
pub mod init;
pub mod number;
pub mod output;
pub mod replay;
pub mod schema;
pub mod shell;
pub mod source;
pub mod test;
pub mod valid;

pub use diana_workbench::secrets;

use clap::{CommandFactory, Parser, Subcommand};
use miette::{MietteHandlerOpts, Report};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

/// Check, explain and replay rate limits without a gateway, and look into running gateways
#[derive(Debug, Parser)]
#[command(name = "diana", version = diana_filter::VERSION, max_term_width = 100)]
pub struct Arguments {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find mistakes in documents, and in the gateway's configuration around them
    Check(check::Args),
    /// Show which limits apply to a request, and what each rule decides
    Explain(Box<explain::Args>),
    /// Run the requests in an access log through the limits, and report which would be refused
    Replay(replay::Args),
    /// Run the test cases of documents: requests on a virtual clock, and what they expect
    Test(test::Args),
    /// Print the JSON Schema of documents
    Schema(schema::Args),
    /// Write a first document and the gateway's configuration around it
    Init(Box<init::Args>),
    /// Convert another rate limiter's configuration, and say what is kept, changed or lost
    Convert(convert::Args),
    /// Look up, reset or raise an actor in running gateways, or compare the gateways
    Ctl(Box<ctl::Args>),
    /// Show running gateways on a page of this machine
    Console(console::Args),
    /// Print the completions of a shell
    Completions(shell::Completions),
    /// Print the manual page of the program, or of a command
    Man(shell::Man),
}

/// The exit code of a command that could not run.
const COULD_NOT_RUN: u8 = 2;

/// Runs the command. Errors go to standard error.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    // A wrapped line would break the commands that errors quote. Only the first call sets the form.
    let _ = miette::set_hook(Box::new(|_| {
        Box::new(MietteHandlerOpts::new().wrap_lines(false).break_words(false).build())
    }));
    let result = match &arguments.command {
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Test(args) => test::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Init(args) => init::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Ctl(args) => ctl::run(args),
        Command::Console(args) => console::run(args),
        Command::Completions(args) => shell::completions(args, Arguments::command()),
        Command::Man(args) => shell::man(args, Arguments::command()),
    };
    result.unwrap_or_else(|report| {
        print_error(&report);
        ExitCode::from(COULD_NOT_RUN)
    })
}

/// Prints an error on standard error.
fn print_error(report: &Report) {
    let text = match report.downcast_ref::<valid::Mistakes>() {
        Some(mistakes) => mistakes.text(io::stderr().is_terminal()),
        None => format!("{:?}", printable(report)),
    };
    // `eprintln!` panics if nobody reads the errors.
    let _ = writeln!(io::stderr(), "{text}");
}

/// The error, safe for a terminal: its messages quote documents, logs and file names. Only
/// messages are kept; no command attaches source code or a help text.
fn printable(report: &Report) -> Report {
    let mut messages: Vec<String> =
        report.chain().map(|error| diana_replay::printable::printable_lines(&error.to_string())).collect();
    let cause = Report::msg(messages.pop().unwrap_or_default());
    messages.into_iter().rev().fold(cause, Report::wrap_err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use miette::miette;

    #[test]
    fn an_error_is_safe_for_a_terminal_and_keeps_its_causes() {
        let report = miette!("no `\u{1b}[2J` here,\nnor there").wrap_err("cannot read `a\u{202e}b`");
        let printable = printable(&report);
        let messages: Vec<String> = printable.chain().map(ToString::to_string).collect();
        assert_eq!(messages, ["cannot read `a\\u{202e}b`", "no `\\u{1b}[2J` here,\nnor there"]);
    }
}
