//! A folder with the files of a release that an example needs, where a release has them, and a
//! command that runs there.

use gateway::{filter, root, target, wait_until};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Removed at the end unless a test failed.
pub struct Release(PathBuf);

impl Release {
    /// A release with this example, each of whose files `change` may change. It names built files
    /// as `cargo xtask dist` does.
    pub fn with(example: &str, change: impl Fn(String) -> String) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("release-{}-{}", id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = target().join("gateway").join(name);
        fs::create_dir_all(folder.join("linux-amd64")).unwrap();
        symlink(filter::filter().unwrap().canonicalize().unwrap(), folder.join("diana.wasm")).unwrap();
        symlink(filter::module().unwrap().canonicalize().unwrap(), folder.join("linux-amd64/libdiana.so"))
            .unwrap();
        let example = Path::new("examples").join(example);
        let moved =
            |text: String| text.replace("target/diana", "diana").replace("target/lib", "linux-amd64/lib");
        copy(&root().join(&example), &folder.join(&example), &|text| change(moved(text)));
        let observability = Path::new("deploy/observability");
        copy(&root().join(observability), &folder.join(observability), &|text| text);
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Starts a command in the folder.
    pub fn start(&self, mut command: Command) -> Running {
        let log = File::create(self.0.join("log")).unwrap();
        command.current_dir(&self.0).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program())))
    }

    /// What the command has printed.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.0.join("log")).unwrap()).into_owned()
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the files of the example are left in `{}`", self.0.display());
        } else {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn copy(from: &Path, to: &Path, change: &impl Fn(String) -> String) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to, change);
        } else {
            // With the mode.
            fs::copy(&from, &to).unwrap();
            fs::write(&to, change(fs::read_to_string(&from).unwrap())).unwrap();
        }
    }
}

/// A command that runs; it ends when this is dropped, as by Ctrl-C.
pub struct Running(Child);

impl Running {
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A kill would leave the processes that the command has started.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = wait_until("the command to end", Duration::from_secs(20), || self.has_ended().then_some(()));
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
