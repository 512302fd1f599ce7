//! What a shell and its user need beside the commands: completions and the manual page.

use crate::{Arguments, output};
use clap::CommandFactory;
use clap_complete::Shell;
use miette::{IntoDiagnostic, Result};
use std::process::ExitCode;

/// The arguments of `diana completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script that completes arguments in this shell.
pub fn completions(args: &Completions) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "diana", &mut script);
    print(&script)
}

/// Prints the manual page of the program and of all commands.
pub fn man() -> Result<ExitCode> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page).into_diagnostic()?;
    print(&page)
}

fn print(text: &[u8]) -> Result<ExitCode> {
    output::print(&String::from_utf8_lossy(text))?;
    Ok(ExitCode::SUCCESS)
}
