//! Shows running gateways on a page of this machine.

use crate::gateways::{Gateways, runtime};
use diana_console::server::Console;
use miette::{IntoDiagnostic, Result, WrapErr};
use std::io::{Write, stderr};
use std::net::SocketAddr;
use std::process::ExitCode;

/// The arguments of `diana console`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The address of the page. Port 0 is any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The gateways
    #[command(flatten)]
    pub gateways: Gateways,
}

/// Runs the command, until it is interrupted.
pub fn run(args: &Args) -> Result<ExitCode> {
    let fleet = args.gateways.fleet()?;
    runtime()?.block_on(async {
        let console = Console::bind(args.listen, fleet).await.into_diagnostic();
        let console = console.wrap_err_with(|| format!("cannot listen on `{}`", args.listen))?;
        crate::output::print(&format!("{}\n", console.link()))?;
        let mut about =
            "open this link; it holds the key of this start, and Ctrl-C ends the console\n".to_owned();
        if !args.listen.ip().is_loopback() {
            about.push_str("warning: the page is open to the network, and the connection is not encrypted\n");
        }
        // `eprintln!` panics if nobody reads the message.
        let _ = stderr().write_all(about.as_bytes());
        console.serve().await.into_diagnostic()
    })?;
    Ok(ExitCode::SUCCESS)
}
