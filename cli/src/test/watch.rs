//! Runs the tests again whenever a file in their folders changes.

use super::args::Args;
use super::{TestFile, run_once, test_files};
use crate::files::read_at;
use crate::output::print;
use miette::{IntoDiagnostic, Result};
use notify::{Event, RecursiveMode, Watcher, recommended_watcher};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// Editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(50);

/// Waits for changes, and runs the tests after each. Ends only by an error or by a signal.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (sender, changes) = mpsc::channel();
    // A receiver that is gone ends the command anyway.
    let mut watcher = recommended_watcher(move |event| _ = sender.send(event)).into_diagnostic()?;
    for folder in folders(args)? {
        watcher.watch(&folder, RecursiveMode::NonRecursive).into_diagnostic()?;
    }
    loop {
        let event: Event = changes.recv().into_diagnostic()?.into_diagnostic()?;
        if event.kind.is_access() {
            continue;
        }
        while changes.recv_timeout(QUIET).is_ok() {}
        print("\n")?;
        // A file that is half written is no reason to stop.
        if let Err(error) = run_once(args) {
            crate::print_error(&error);
        }
    }
}

/// The folders of the test files and of their documents.
fn folders(args: &Args) -> Result<BTreeSet<PathBuf>> {
    let mut folders = BTreeSet::new();
    let folder = |path: &Path| {
        let folder = path.parent().unwrap_or(Path::new(""));
        if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_path_buf() }
    };
    for path in test_files(&args.files)? {
        folders.insert(folder(&path));
        if let Ok((test, _)) = read_at(&path)
            && let Ok(read) = TestFile::of(test)
        {
            folders.insert(folder(&read.document(&path)));
        }
    }
    folders.extend(args.files.iter().filter(|path| path.is_dir()).cloned());
    Ok(folders)
}
