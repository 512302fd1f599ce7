//! One Envoy process and its folder.

use crate::admin::Admin;
use crate::{envoy, target, wait_until};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Envoy compiles the filter at its start, and the machine may be busy.
const START: Duration = Duration::from_secs(60);
/// The same for an Envoy under another program. Valgrind makes an Envoy 50 times slower.
const START_UNDER: Duration = Duration::from_secs(300);
const LOG: &str = "envoy.log";
const ADMIN: &str = "admin.address";

/// A folder below `target/gateway/`, removed at the end unless a test failed and its files may be
/// of use.
pub struct Folder(PathBuf);

impl Folder {
    pub(crate) fn create() -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = target().join("gateway").join(name);
        if path.exists() {
            fs::remove_dir_all(&path)?; // Left by an earlier process of this number.
        }
        fs::create_dir_all(&path).with_context(|| format!("cannot create `{}`", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file atomically, so that a watcher of the folder never sees a part of the file.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        let fresh = self.0.join(format!("{name}.new"));
        fs::write(&fresh, text)
            .and_then(|()| fs::rename(&fresh, &path))
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the gateway's files are left in `{}`", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// How to start an Envoy.
pub(crate) struct Start<'a> {
    /// The bootstrap's file.
    pub bootstrap: &'a Path,
    /// The folder at which relative paths in the bootstrap begin.
    pub directory: &'a Path,
    pub concurrency: u32,
    pub drain: Duration,
    pub log_level: &'a str,
    /// A program that runs Envoy, and the program's arguments.
    pub under: &'a [String],
    pub env: &'a [(String, String)],
}

/// A running Envoy; killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) admin: Admin,
    // After `child`: the process must be gone before its folder is.
    pub(crate) folder: Folder,
}

impl Process {
    /// Starts an Envoy and waits until it reports that it is ready.
    pub(crate) fn start(folder: Folder, start: &Start<'_>) -> Result<Self> {
        let binary = envoy::find()?;
        let log = File::create(folder.path().join(LOG))?;
        let (level, components) = start.log_level.split_once(',').unwrap_or((start.log_level, ""));
        let mut command = match start.under {
            [] => Command::new(&binary),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&binary);
                command
            }
        };
        command.arg("-c").arg(start.bootstrap);
        command.arg("--admin-address-path").arg(folder.path().join(ADMIN));
        command.args(["--disable-hot-restart", "--concurrency", &start.concurrency.to_string()]);
        command.args([
            "--drain-time-s",
            &start.drain.as_secs().to_string(),
            "--file-flush-interval-msec",
            "50",
        ]);
        command.args(["--log-level", level]);
        if !components.is_empty() {
            command.args(["--component-log-level", components]);
        }
        // Where Envoy finds the native module.
        command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", target());
        command.current_dir(start.directory).envs(start.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let nowhere = Admin { address: ([127, 0, 0, 1], 0).into() };
        let mut process = Self { child, admin: nowhere, folder };
        process.wait_ready(if start.under.is_empty() { START } else { START_UNDER })?;
        Ok(process)
    }

    fn wait_ready(&mut self, limit: Duration) -> Result<()> {
        let file = self.folder.path().join(ADMIN);
        let started = wait_until("Envoy to be ready", limit, || {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(Err(status));
            }
            let address = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
            self.admin = Admin { address };
            self.admin.ready().then_some(Ok(()))
        });
        match started {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => bail!("Envoy ended at once ({status}):\n{}", self.complaints(0)),
            Err(error) => Err(error.context(self.complaints(0))),
        }
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.folder.path().join(LOG)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        fs::read(self.folder.path().join(LOG)).map_or_else(
            |error| format!("the log cannot be read: {error}"),
            |bytes| String::from_utf8_lossy(&bytes).into_owned(),
        )
    }

    /// The warnings and errors in the log after its first `from` bytes; without any, its last
    /// lines.
    pub(crate) fn complaints(&self, from: usize) -> String {
        let log = self.log();
        let log = log.get(from..).unwrap_or_default();
        // `main` warns at each start that connections are not limited.
        let marks = [
            "[warning][config]",
            "[warning][upstream]",
            "[warning][wasm]",
            "[warning][dynamic_modules]",
            "[error]",
            "[critical]",
        ];
        let bad = |line: &&str| marks.iter().any(|mark| line.contains(mark));
        let mut lines: Vec<&str> = log.lines().filter(bad).collect();
        if lines.is_empty() {
            lines = log.lines().collect();
        }
        let skipped = lines.len().saturating_sub(12);
        lines.split_off(skipped).join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
