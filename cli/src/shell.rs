//! What a shell and its user need beside the commands: completions and manual pages.

use crate::output;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man as Page;
use miette::{IntoDiagnostic, Result, miette};
use std::process::ExitCode;

/// The arguments of `diana completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The arguments of `diana man`.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// The command; without one, the page of the program lists all commands
    pub command: Option<String>,
}

/// Prints the script that completes the arguments of `program` in this shell.
pub fn completions(args: &Completions, mut program: Command) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "diana", &mut script);
    print(&script)
}

/// Prints the manual page of the program or of a command, in roff: `diana man check | man -l -`.
pub fn man(args: &Man, program: Command) -> Result<ExitCode> {
    let mut program = program.disable_help_subcommand(true);
    // Sets the names `diana-check` and so on, and passes on the version.
    program.build();
    let page = match &args.command {
        None => Page::new(program),
        Some(name) => {
            let names: Vec<&str> = program.get_subcommands().map(|command| command.get_name()).collect();
            let expected = diana_document::one_of(&names);
            let found = diana_document::quoted(name);
            let command = program.find_subcommand(name).cloned();
            let command = command.ok_or_else(|| miette!("unknown command {found}, expected {expected}"))?;

            let version = program.get_version().unwrap_or_default();
            Page::new(command.display_name(format!("diana-{name}"))).source(format!("diana {version}"))
        }
    };
    let mut roff = Vec::new();
    page.render(&mut roff).into_diagnostic()?;
    print(&roff)
}

fn print(text: &[u8]) -> Result<ExitCode> {
    output::print(&String::from_utf8_lossy(text))?;
    Ok(ExitCode::SUCCESS)
}
