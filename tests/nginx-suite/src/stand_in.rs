//! What nginx-tests takes for nginx: it reads the same arguments, starts an Envoy with the
//! translated configuration, writes the same files, and ends by the same signals.

use crate::translate::{Translation, translate};
use anyhow::{Context, Result, bail};
use gateway::{envoy, wait_until};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What the suite looks for: the version, and which modules nginx has.
const VERSION: &str = "nginx version: nginx/1.29.0 (Envoy with Diana)\n\
                       configure arguments: --with-http_v2_module";

/// How long Envoy may take; the suite itself waits for five seconds.
const START: Duration = Duration::from_secs(30);
/// How long Envoy may take to write its logs.
const END: Duration = Duration::from_secs(5);

/// Does what nginx would with these arguments, until a signal.
pub fn stand_in(filter: &Path, arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|argument| argument == "-V") {
        eprintln!("{VERSION}");
        return Ok(());
    }
    let of = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).with_context(|| format!("no `{name}` among the arguments"))
    };
    let folder = PathBuf::from(of("-p")?);
    let text = fs::read_to_string(folder.join(of("-c")?))?;
    let log = File::create(folder.join("error.log"))?;
    let translation = translate(&text, &folder, filter)?;
    let mut process = start(&translation, &folder, filter, &log)?;
    // Envoy must not inherit this: it was started before.
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block()?;
    let served = serve(&translation, &folder, &mut process, &signals);
    end(process)?;
    served
}

fn start(translation: &Translation, folder: &Path, filter: &Path, log: &File) -> Result<Child> {
    let bootstrap = folder.join("envoy.json");
    fs::write(&bootstrap, translation.bootstrap.to_string())?;
    let mut command = Command::new(envoy::find()?);
    command.arg("-c").arg(&bootstrap);
    command.args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"]);
    command.args(["--file-flush-interval-msec", "50"]);
    // Where Envoy finds the native module.
    command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", filter.parent().context("a file without folder")?);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    command.spawn().context("cannot run Envoy")
}

/// Writes the file of the process' number when all ports are open, and waits for a signal.
fn serve(translation: &Translation, folder: &Path, process: &mut Child, signals: &SigSet) -> Result<()> {
    let is_open = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
    let started = wait_until("Envoy to listen", START, || match process.try_wait() {
        Ok(None) => translation.ports.iter().all(is_open).then_some(true),
        _ => Some(false),
    })?;
    if !started {
        bail!("Envoy ended:\n{}", fs::read_to_string(folder.join("error.log"))?);
    }
    // By a rename, because the suite reads the file as soon as it exists.
    let (fresh, pid) = (folder.join("nginx.pid.new"), folder.join("nginx.pid"));
    fs::write(&fresh, std::process::id().to_string())?;
    fs::rename(fresh, pid)?;
    signals.wait()?;
    Ok(())
}

/// Ends Envoy by a signal, so that it writes its access log.
fn end(mut process: Child) -> Result<()> {
    // Both calls fail only if the process has already ended.
    let _ = kill(Pid::from_raw(process.id().try_into()?), Signal::SIGTERM);
    if wait_until("Envoy to end", END, || process.try_wait().ok().flatten()).is_err() {
        let _ = process.kill();
        process.wait()?;
    }
    Ok(())
}
