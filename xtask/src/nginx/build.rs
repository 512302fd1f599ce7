//! Builds nginx with ngx_wasm_module, in a copy of the sources under `target/nginx`.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

/// The files that show that a folder of the sources is what it should be, and where to get it.
const NEEDED: [(&str, &str); 6] = [
    ("nginx/auto/configure", "nginx's source, from github.com/nginx/nginx, tag release-1.27.4"),
    ("nginx/src/core/nginx.h", "nginx's source, from github.com/nginx/nginx, tag release-1.27.4"),
    ("ngx_wasm_module/config", "github.com/Kong/ngx_wasm_module, commit 3bed2783"),
    ("wasmtime/include/wasmtime.h", "the headers of wasmtime's C API, version 25 or 26"),
    ("wasmtime/include/wasmtime/conf.h", "a header that wasmtime's CMake makes; release archives have it"),
    ("wasmtime/lib/libwasmtime.so", "the library of wasmtime's C API, version 25 or 26"),
];

/// The modules that the tests use.
const MODULES: [&str; 4] = [
    "--with-http_v2_module",
    "--with-http_ssl_module",
    "--with-http_auth_request_module",
    "--with-http_addition_module",
];

/// The nginx that is built from these sources; an earlier build of the same sources is kept.
pub fn nginx(source: &Path) -> Result<PathBuf> {
    let source = source.canonicalize().with_context(|| format!("no folder `{}`", source.display()))?;
    for (file, what) in NEEDED {
        ensure!(source.join(file).exists(), "`{}` is missing: {what}", source.join(file).display());
    }
    let target = gateway::target().join("nginx");
    let (program, stamp) = (target.join("nginx/objs/nginx"), target.join("source"));
    let sources = format!("{}\n{}\n", source.display(), newest(&source)?);
    let is_built = fs::read_to_string(&stamp).is_ok_and(|of| of == sources);
    if is_built && program.exists() {
        return Ok(program);
    }
    _ = fs::remove_dir_all(&target);
    fs::create_dir_all(&target)?;
    for folder in ["nginx", "ngx_wasm_module"] {
        run("cp", &[OsStr::new("-r"), source.join(folder).as_os_str(), target.as_os_str()], &target, &[])?;
    }
    allow_version(&target.join("ngx_wasm_module/src/wasm/wrt/ngx_wrt.h"))?;
    let wasmtime = |folder: &str| source.join("wasmtime").join(folder).into_os_string();
    let env = [
        ("NGX_WASM_RUNTIME", "wasmtime".into()),
        ("NGX_WASM_RUNTIME_INC", wasmtime("include")),
        ("NGX_WASM_RUNTIME_LIB", wasmtime("lib")),
        ("NGX_WASM_CARGO", "0".into()),
        ("NGX_IPC", "0".into()),
    ];
    let module = format!("--add-module={}", target.join("ngx_wasm_module").display());
    let arguments = MODULES.into_iter().chain([&*module, "--with-cc-opt=-O1 -Wno-error"]);
    let arguments: Vec<&OsStr> = arguments.map(OsStr::new).collect();
    let folder = target.join("nginx");
    println!("building nginx in {}", folder.display());
    run("auto/configure", &arguments, &folder, &env)?;
    let jobs = std::thread::available_parallelism().map_or(1, Into::into);
    run("make", &[OsStr::new(&format!("-j{jobs}"))], &folder, &env)?;
    fs::write(stamp, sources)?;
    Ok(program)
}

/// The newest modification in a folder, in nanoseconds since 1970.
fn newest(path: &Path) -> Result<u128> {
    let metadata = fs::symlink_metadata(path)?;
    let mut newest = metadata.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            newest = newest.max(self::newest(&entry?.path())?);
        }
    }
    Ok(newest)
}

/// The module's check of the version takes only 26, but it works with 25 as well.
fn allow_version(header: &Path) -> Result<()> {
    let text = fs::read_to_string(header)?;
    fs::write(header, text.replace("WASMTIME_VERSION_MAJOR != 26", "WASMTIME_VERSION_MAJOR < 25"))?;
    Ok(())
}

fn run(program: &str, arguments: &[&OsStr], folder: &Path, env: &[(&str, std::ffi::OsString)]) -> Result<()> {
    let path = folder.join(program);
    let mut command = Command::new(if path.exists() { path.as_os_str() } else { OsStr::new(program) });
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let output = command.output().with_context(|| format!("cannot run `{program}`"))?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default();
        bail!("`{program}` failed:\n{}", last.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_change_in_a_folder_is_seen() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("diana-newest-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/b"))?;
        fs::write(folder.join("a/b/c"), "")?;
        let before = newest(&folder)?;
        assert_eq!(newest(&folder)?, before);
        let later = UNIX_EPOCH + Duration::from_nanos(u64::try_from(before)?) + Duration::from_secs(1);
        fs::File::options().write(true).open(folder.join("a/b/c"))?.set_modified(later)?;
        let after = newest(&folder)?;
        fs::remove_dir_all(&folder)?;
        assert_eq!(after, before + 1_000_000_000);
        Ok(())
    }
}
