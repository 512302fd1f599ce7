//! The files around a file that is checked, which a host without files lacks.

use std::path::{Path, PathBuf};

/// Looks for files.
pub trait Files {
    /// Whether the file exists.
    fn exists(&self, path: &Path) -> bool;

    /// Whether there is a folder at this path.
    fn is_folder(&self, path: &Path) -> bool;

    /// The names in a folder, in any order; none if it cannot be read.
    fn names(&self, folder: &Path) -> Vec<String>;

    /// The text of a file of at most so many bytes. `None` if it cannot be read.
    fn text(&self, path: &Path, most: u64) -> Option<String>;

    /// The path from the root.
    fn absolute(&self, path: &Path) -> PathBuf;
}

/// The path of a file that is checked, and the files around it.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The path.
    pub path: &'a Path,
    /// The files.
    pub files: &'a dyn Files,
}
