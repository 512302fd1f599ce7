//! Packages of pip and npm with all that they need, in pinned versions, for programs that only
//! judge or play a client: nothing of them is shipped. A folder that is there is complete.

use crate::target;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, id};

/// Installs packages such as `grpcio==1.85.3` by pip unless they are there. The folder belongs into
/// `$PYTHONPATH`.
pub fn of_python(packages: &[&str]) -> Result<PathBuf> {
    let why = "is there a python3 with pip (Debian: `apt-get install python3-pip`)?";
    install(packages, why, |work| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--only-binary=:all:", "--root-user-action=ignore", "--target"]).arg(work);
        pip
    })
}

/// Installs packages such as `@grpc/grpc-js@1.14.7` by npm unless they are there. `node_modules` in
/// the folder belongs into `$NODE_PATH`.
pub fn of_node(packages: &[&str]) -> Result<PathBuf> {
    install(packages, "is there npm (Debian: `apt-get install npm`)?", |work| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
        npm.arg(work);
        npm
    })
}

fn install(packages: &[&str], why: &str, command: impl Fn(&Path) -> Command) -> Result<PathBuf> {
    let name = packages.join("-").replace("==", "-").replace(['@', '/'], "_");
    let folder = target().join("tools").join(name);
    if !folder.exists() {
        println!("installing {} at {}", packages.join(", "), folder.display());
        let work = folder.with_extension(format!("{}.new", id()));
        fs::create_dir_all(&work).with_context(|| format!("cannot create `{}`", work.display()))?;
        let mut command = command(&work);
        let program = command.get_program().to_string_lossy().into_owned();
        let output = command.args(packages).output().with_context(|| format!("cannot run `{program}`"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("{} cannot be fetched: {said}\n  {why}", packages.join(", "));
        }
        fs::rename(&work, &folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    }
    Ok(folder)
}
