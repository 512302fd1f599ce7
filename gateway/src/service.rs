//! One program that serves on a loopback port, with a folder of its own.
//!
//! A line of the program's log reports that it listens. A connection attempt would not show whether
//! another program has the port.

use crate::process::Folder;
use crate::{free_port, wait_until};
use anyhow::{Context, Error, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const START: Duration = Duration::from_secs(20);
const LOG: &str = "log";
/// Another program may take a free port before this one listens there.
const ATTEMPTS: u32 = 5;

/// A program and how to start it.
pub trait Program {
    /// The name of the program and of its Debian package.
    const NAME: &'static str;
    /// The text in the log once the program listens.
    const LISTENS: &'static str;
    /// What to do if the program is missing.
    const INSTALL: &'static str = "install it with `apt-get install redis-server`";
    /// The arguments to listen on this port of 127.0.0.1. The program's output is its log.
    fn arguments(&self, port: u16, folder: &Folder) -> Result<Vec<String>>;
}

/// A running program; killed when this is dropped.
pub struct Service<P: Program> {
    program: P,
    child: Child,
    port: u16,
    // After `child`: the process must be gone before its folder is.
    folder: Folder,
}

impl<P: Program> Service<P> {
    /// Starts the program on a free port and waits until it listens.
    pub(crate) fn run(program: P) -> Result<Self> {
        let folder = Folder::create()?;
        let mut attempt = 1;
        loop {
            let port = free_port()?;
            match start(&program, port, &folder) {
                Ok(child) => return Ok(Self { program, child, port, folder }),
                Err(error) if attempt == ATTEMPTS || is_missing(&error) => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The id of its process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the program, with all its state, and waits until it is gone: connections to it are
    /// refused.
    pub fn kill(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether the program has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Restarts the program without its state, on the same port.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.child = start(&self.program, self.port, &self.folder)?;
        Ok(())
    }

    /// Stops the program without ending it: the system still accepts connections, but the program
    /// reads nothing.
    pub fn stop_answering(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        // On a busy machine the other threads go on answering until the one with the signal runs.
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        waitid(Id::Pid(self.pid()?), flags).with_context(|| format!("{} does not stop", P::NAME))?;
        Ok(())
    }

    /// Resumes the program. It replies to earlier requests as well.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(self.child.id().try_into()?))
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid()?, signal).with_context(|| format!("cannot send {signal} to {}", P::NAME))
    }
}

impl<P: Program> Drop for Service<P> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start<P: Program>(program: &P, port: u16, folder: &Folder) -> Result<Child> {
    let name = P::NAME;
    let path = folder.path().join(LOG);
    let log = File::create(&path)?;
    let mut command = Command::new(name);
    command.args(program.arguments(port, folder)?).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Error::new(error).context(format!("`{name}` is missing: {}", P::INSTALL)));
        }
        spawned => spawned.with_context(|| format!("cannot run `{name}`"))?,
    };
    let said = || fs::read_to_string(&path).unwrap_or_default();
    let started = wait_until("it to listen", START, || match child.try_wait() {
        Ok(None) => said().contains(P::LISTENS).then_some(true),
        _ => Some(false),
    });
    if matches!(started, Ok(true)) {
        return Ok(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    bail!("`{name}` does not listen on port {port}:\n{}", said())
}

fn is_missing(error: &Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Whether there is a program of this name.
pub fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Program for Nothing {
        const NAME: &'static str = "diana-no-such-program";
        const LISTENS: &'static str = "";

        fn arguments(&self, _: u16, _: &Folder) -> Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_missing_program_is_named_with_its_packages() {
        let error = Service::run(Nothing).err().unwrap().to_string();
        let expected = "`diana-no-such-program` is missing: install it with `apt-get install redis-server`";
        assert_eq!(error, expected);
        assert!(!is_installed("diana-no-such-program") && is_installed("cargo"));
    }

    struct Ending;

    impl Program for Ending {
        const NAME: &'static str = "cargo";
        const LISTENS: &'static str = "never";

        fn arguments(&self, _: u16, _: &Folder) -> Result<Vec<String>> {
            Ok(vec!["--no-such-argument".to_owned()])
        }
    }

    #[test]
    fn one_that_ends_at_once_says_why() {
        let error = Service::run(Ending).err().unwrap().to_string();
        assert!(error.contains("`cargo` does not listen") && error.contains("--no-such-argument"), "{error}");
    }
}
