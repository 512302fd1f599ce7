//! Which gateways a command asks, and with what token.

use crate::number::within;
use diana_console::fleet::{Address, Fleet, Unusable};
use miette::{IntoDiagnostic, Result, WrapErr, bail, miette};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The options of the commands that ask gateways.
#[derive(Clone, Debug, clap::Args)]
pub struct Gateways {
    /// A gateway's address with the path of `inspect`, by default `/.diana`; can be repeated
    #[arg(
        long = "gateway",
        value_name = "URL",
        env = "DIANA_GATEWAYS",
        hide_env_values = true,
        value_delimiter = ',',
        global = true,
        display_order = 100
    )]
    pub gateways: Vec<Address>,
    /// The file with the token of `inspect`, the same for all gateways
    #[arg(
        long,
        value_name = "FILE",
        env = "DIANA_TOKEN_FILE",
        hide_env_values = true,
        global = true,
        display_order = 101
    )]
    pub token_file: Option<PathBuf>,
    /// How many seconds a gateway may take to answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = within(1..=300u64), global = true, display_order = 102)]
    pub timeout: u64,
}

/// The longest token, and a line end.
const LARGEST_TOKEN_FILE: u64 = 4_096 + 2;

impl Gateways {
    /// The gateways, which are not asked yet.
    pub fn fleet(&self) -> Result<Fleet> {
        if self.gateways.is_empty() {
            bail!(
                "no gateway is named: `--gateway http://localhost:10000/.diana`, or several in `DIANA_GATEWAYS`, with \
                 commas between them"
            );
        }
        let Some(file) = &self.token_file else {
            bail!(
                "no token is named: `--token-file FILE`, or `DIANA_TOKEN_FILE`, names a file with the token of `inspect`"
            );
        };
        let mut addresses: Vec<Address> = Vec::new();
        for address in &self.gateways {
            // A change of one gateway must not happen twice.
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
        let fleet = Fleet::new(addresses, &token(file)?, Duration::from_secs(self.timeout));
        fleet.map_err(|why| match why {
            Unusable::Token => miette!("{why}").wrap_err(cannot_use(file)),
            Unusable::Tls(_) => miette!("{why}"),
        })
    }
}

/// Runs what waits for gateways.
pub fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().into_diagnostic()
}

/// Runs what asks gateways once, and returns when it has its answers.
pub fn block_on<T>(asking: impl Future<Output = T>) -> Result<T> {
    let runtime = runtime()?;
    let answers = runtime.block_on(asking);
    // Resolving a name blocks a thread, possibly for longer than the timeout. Dropping the runtime
    // would wait for that thread.
    runtime.shutdown_background();
    Ok(answers)
}

fn token(file: &Path) -> Result<String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|open| open.take(LARGEST_TOKEN_FILE + 1).read_to_string(&mut text));
    let length = read.into_diagnostic().wrap_err_with(|| cannot_use(file))?;
    if length as u64 > LARGEST_TOKEN_FILE {
        return Err(miette!("it is larger than a token")).wrap_err_with(|| cannot_use(file));
    }
    Ok(text)
}

fn cannot_use(file: &Path) -> String {
    format!("cannot use the token file `{}`", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// As a resolver does that has no answer for minutes.
    #[test]
    fn a_thread_that_hangs_holds_no_answer_up() {
        let (release, held) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let asked = block_on(async {
                let (begin, begun) = mpsc::channel();
                tokio::task::spawn_blocking(move || {
                    begin.send(()).unwrap();
                    held.recv()
                });
                // Threads that have not begun are not waited for.
                begun.recv().unwrap();
                7
            });
            tell.send(asked.unwrap()).unwrap();
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(7));
        drop(release);
    }
}
