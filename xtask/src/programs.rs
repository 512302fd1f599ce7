//! Installs Redis and webdis, which tests run, by apt-get if apt-get needs no password.
//!
//! A package may start its service. Tests do not use such a service: each test starts its own.

use anyhow::{Context, Result, bail};
use gateway::{redis, service};
use std::env;
use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};

/// Installs the missing programs, or says what to install.
pub fn install() -> Result<()> {
    let Some(wanted) = wanted() else { return Ok(()) };
    let packages = wanted.join(" ");
    let Some(apt) = Apt::found() else {
        bail!("missing: {packages}, not to be installed without a password; {}", service::INSTALL);
    };
    println!("installing {packages} by apt-get");
    // The list of packages may be empty or out of date.
    let installed = apt.install(&wanted).or_else(|_| {
        apt.run(&["update"])?;
        apt.install(&wanted)
    });
    installed.with_context(|| format!("missing: {packages}; {}", service::INSTALL))?;
    match self::wanted() {
        None => Ok(()),
        Some(still) => bail!("installed, but not in $PATH: {}", still.join(" ")),
    }
}

fn wanted() -> Option<Vec<&'static str>> {
    let missing: Vec<_> = redis::PROGRAMS.into_iter().filter(|name| !service::is_installed(name)).collect();
    (!missing.is_empty()).then_some(missing)
}

/// How apt-get is run.
struct Apt {
    /// Whether sudo is necessary.
    sudo: bool,
}

impl Apt {
    /// The way to run apt-get without a password, if there is one.
    fn found() -> Option<Self> {
        let says = |program, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        says("apt-get", &["--version"])?;
        let is_root = says("id", &["-u"]).is_some_and(|id| id == "0");
        (is_root || says("sudo", &["-n", "true"]).is_some()).then_some(Self { sudo: !is_root })
    }

    fn install(&self, packages: &[&str]) -> Result<()> {
        self.run(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let words = ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"];
        let line = if self.sudo { &words[..] } else { &words[2..] };
        let (program, before) = line.split_first().context("no command")?;
        let output = Command::new(program)
            .args(before)
            .args(arguments)
            .env("PATH", with_sbin(&env::var_os("PATH").unwrap_or_default()))
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run `{program}`"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("`apt-get {}` failed:\n{said}", arguments.join(" "));
        }
        Ok(())
    }
}

/// dpkg runs administrators' programs, which are not in every user's path.
fn with_sbin(path: &OsStr) -> OsString {
    let mut path = path.to_owned();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}
