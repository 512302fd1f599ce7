//! Reads files, and standard input.

use diana_workbench::source::content::{File, Unreadable};
use diana_workbench::source::files::Files;
use miette::{IntoDiagnostic, Result, WrapErr};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The name of the standard input.
const STDIN: &str = "-";

/// The files of this machine.
pub struct Disk;

impl Files for Disk {
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn names(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn text(&self, path: &Path, most: u64) -> Option<String> {
        let metadata = fs::metadata(path).ok()?;
        let is_read = metadata.is_file() && metadata.len() <= most;
        if is_read { fs::read_to_string(path).ok() } else { None }
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.into())
    }
}

/// Reads a file, or standard input if the name is `-`.
pub fn read(path: &Path) -> Result<File, Unreadable> {
    let name = path.to_string_lossy().into_owned();
    let read = if name == STDIN {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    let name = if name == STDIN { "<stdin>".into() } else { name };
    match read {
        Ok(bytes) => File::of_bytes(name, bytes),
        Err(error) => Err(Unreadable { file: File::new(name, ""), range: 0..0, why: error.to_string() }),
    }
}

/// A file, and the line at which its path ends, as in `envoy.yaml:43`.
pub fn read_at(path: &Path) -> Result<(File, Option<usize>)> {
    let (path, line) = named_line(path);
    let file = read(&path).into_diagnostic();
    let file = file.wrap_err_with(|| format!("cannot read `{}`", path.display()))?;
    Ok((file, line))
}

/// Splits the line off a path such as `envoy.yaml:43`, unless there is a file of that name.
fn named_line(path: &Path) -> (PathBuf, Option<usize>) {
    let text = path.to_string_lossy();
    let split = text.rsplit_once(':').and_then(|(name, line)| Some((name, line.parse::<usize>().ok()?)));
    match split {
        Some((name, line)) if !path.exists() => (PathBuf::from(name), Some(line)),
        _ => (path.to_path_buf(), None),
    }
}
