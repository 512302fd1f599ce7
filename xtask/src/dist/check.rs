//! `cargo xtask dist --check`: the finished release, read by tools that are not ours.

use super::folder::{Folder, SUMS, files, sha256};
use super::image::{IMAGES, Image, LAYER, USER, tag};
use super::{agreement, output, read};
use crate::programs;
use anyhow::{Context, Result, bail, ensure};
use gateway::{envoy, target};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Checks checksums, signing, images, and the command and the filter in them.
pub fn run(folder: &Folder, version: &str) -> Result<()> {
    programs::install_skopeo()?;
    output(Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(folder.path()))?;
    println!("sha256sum: the checksums are right");
    let work = Folder::create(&target().join("dist-check"))?;
    signature(folder, work.path())?;
    for image in &IMAGES {
        for architecture in image.architectures() {
            self::image(folder, work.path(), image, architecture, version)?;
        }
    }
    command(&work.path().join("diana-amd64-rootfs"), version)?;
    start(folder)?;
    fs::remove_dir_all(work.path()).context("cannot remove what was unpacked")
}

/// Signs and verifies as docs/guide.md and docs/internals/working.md say, with a key of this moment.
fn signature(folder: &Folder, work: &Path) -> Result<()> {
    const SCRIPT: &str = "
        ssh-keygen -q -t ed25519 -N '' -C '' -f key
        ssh-keygen -Y sign -f key -n diana SHA256SUMS
        (printf 'diana '; cat key.pub) > allowed_signers
        verify() { ssh-keygen -Y verify -f allowed_signers -I diana -n diana -s SHA256SUMS.sig; }
        verify < SHA256SUMS
        ! verify < key.pub";
    fs::copy(folder.path().join(SUMS), work.join(SUMS))?;
    output(Command::new("bash").args(["-e", "-c", SCRIPT]).current_dir(work))?;
    println!("ssh-keygen: signs the checksums, and refuses others");
    Ok(())
}

/// Copies an image by skopeo, which checks all digests, and compares the file in its last layer.
/// Istio (`pkg/wasm/imagefetcher.go`) and Envoy Gateway (`internal/wasm/imagefetcher.go`) take the
/// filter from one manifest for one platform, whose last layer has exactly this type.
fn image(folder: &Folder, work: &Path, image: &Image, architecture: &str, version: &str) -> Result<()> {
    let Image { name, from, to, is_command, .. } = image;
    let skopeo = |arguments: &[&str]| {
        // Debian's package brings the policy only in a package that it recommends.
        output(
            Command::new("skopeo")
                .args(["--insecure-policy", "--override-arch", architecture])
                .args(arguments),
        )
    };
    let json = |text: String| Ok::<Value, anyhow::Error>(serde_json::from_str(&text)?);
    let original = format!("oci:{}:{}", folder.path().join("oci").join(name).display(), tag(version));
    let tagged = skopeo(&["inspect", "--raw", &original])?;
    let digest = sha256(tagged.as_bytes());
    let reference = format!("{}{name}:{}@sha256:{digest}", agreement::REGISTRY, tag(version));
    let mut grep = Command::new("grep");
    grep.args(["--recursive", "--fixed-strings", "--quiet", &reference, "examples"]);
    output(grep.current_dir(folder.path())).with_context(|| format!("no example names {reference}"))?;
    let tagged = json(tagged)?;
    ensure!(tagged["manifests"].is_array() == from.contains("ARCH"), "`{name}` is for other platforms");
    let copied = work.join(format!("{name}-{architecture}"));
    skopeo(&["copy", "--quiet", &original, &format!("dir:{}", copied.display())])?;
    let manifest = json(skopeo(&["inspect", "--raw", &format!("dir:{}", copied.display())])?)?;
    let layer = manifest["layers"].as_array().and_then(|layers| layers.last()).context("no layer")?;
    ensure!(layer["mediaType"] == LAYER, "`{name}` has a layer of another type: {}", layer["mediaType"]);
    let digest = layer["digest"].as_str().unwrap_or_default().trim_start_matches("sha256:");
    let rootfs = work.join(format!("{name}-{architecture}-rootfs"));
    fs::create_dir(&rootfs)?;
    output(Command::new("tar").arg("-xzf").arg(copied.join(digest)).arg("-C").arg(&rootfs))?;
    ensure!(files(&rootfs)? == [*to], "`{name}` has other files: {:?}", files(&rootfs)?);
    let file = read(&folder.path().join(from.replace("ARCH", architecture)))?;
    ensure!(read(&rootfs.join(to))? == file, "`{name}` has another file than the release");
    let config = &json(skopeo(&["inspect", "--config", &original])?)?["config"];
    ensure!(config["Labels"]["org.opencontainers.image.version"] == version, "`{name}` has no version");
    let runs = config["Entrypoint"] == json!([format!("/{to}")]) && config["User"] == USER;
    ensure!(runs == *is_command, "`{name}` runs {} as {}", config["Entrypoint"], config["User"]);
    println!("skopeo: copies {name} for {architecture}, which has the release's file");
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
    ensure!((ways.len(), requests.len()) == (2, 1), "the page has other commands");
    for way in ways {
        let start =
            way.replacen("envoy -c", &format!("{} --log-level warning -c", envoy::find()?.display()), 1);
        // curl waits for the listener, and another Envoy may have answered it.
        let script = format!(
            "{start} >&2 & trap \"kill $!\" EXIT
            curl --silent --retry-connrefused --retry 60 --retry-delay 1 http://127.0.0.1:9901/ready >&2
            kill -0 $!
            {}",
            requests[0]
        );
        let mut bash = Command::new("/bin/bash");
        let said = output(bash.args(["-e", "-c", &script]).env_clear().current_dir(folder.path()))?;
        // The bucket of 20 refills by ten a second, and the requests take milliseconds.
        let passed = said.split(' ').take_while(|status| *status == "200").count();
        ensure!(passed >= 20 && said.contains("429"), "`{way}` limits wrongly: {said}");
        println!("envoy: `{way}` limits after {passed} requests");
    }
    Ok(())
}
