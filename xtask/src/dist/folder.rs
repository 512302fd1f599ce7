//! The folder of a release: files with fixed modes and times, and their checksums.

use super::read;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The mode of most files.
pub const PLAIN: u32 = 0o644;
/// The mode of programs.
pub const EXECUTABLE: u32 = 0o755;

/// The list of all other files.
pub const SUMS: &str = "SHA256SUMS";

pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder at this path.
    pub fn create(path: &Path) -> Result<Self> {
        if path.exists() {
            fs::remove_dir_all(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
        fs::create_dir_all(path).with_context(|| format!("cannot create `{}`", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let path = self.0.join(name);
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, bytes))
            // The umask must not show in a release.
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .with_context(|| format!("cannot write `{}`", path.display()))
    }

    pub fn copy(&self, from: &Path, name: &str, mode: u32) -> Result<()> {
        self.write(name, &read(from)?, mode)
    }

    /// The names of all files, in the order of their bytes.
    pub fn files(&self) -> Result<Vec<String>> {
        files(&self.0)
    }

    /// The names of all files with their SHA-256.
    pub fn hashes(&self) -> Result<Vec<(String, String)>> {
        self.files()?.into_iter().map(|name| Ok((name.clone(), sha256(&read(&self.0.join(name))?)))).collect()
    }

    /// Writes the checksums, and gives everything this time.
    pub fn finish(&self, time: SystemTime) -> Result<()> {
        let line = |(name, hash): (String, String)| format!("{hash}  {name}\n");
        let sums: String = self.hashes()?.into_iter().map(line).collect();
        self.write(SUMS, sums.as_bytes(), PLAIN)?;
        let mut folders = Vec::from([self.0.clone()]);
        for name in self.files()? {
            let path = self.0.join(name);
            File::open(&path)?.set_modified(time)?;
            folders.extend(path.ancestors().skip(1).take_while(|one| **one != *self.0).map(Path::to_owned));
        }
        for folder in folders {
            fs::set_permissions(&folder, fs::Permissions::from_mode(EXECUTABLE))?;
            File::open(folder)?.set_modified(time)?;
        }
        Ok(())
    }
}

/// The names of all files below a folder, in the order of their bytes.
pub fn files(below: &Path) -> Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![below.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read `{}`", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(below)?.to_str().context("a name that is no text")?;
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn two_folders_with_the_same_files_are_the_same() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, order: [&str; 3]| {
            let folder = Folder::create(&place.path().join(name)).unwrap();
            order.iter().for_each(|name| folder.write(name, name.as_bytes(), PLAIN).unwrap());
            folder.finish(time).unwrap();
            for path in folder.files().unwrap().iter().map(|name| folder.path().join(name)) {
                let meta = path.metadata().unwrap();
                assert_eq!((meta.modified().unwrap(), meta.permissions().mode() & 0o777), (time, PLAIN));
            }
            read(&folder.path().join(SUMS)).unwrap()
        };
        let sums = make("one", ["b", "a/c", "a/b"]);
        assert_eq!(sums, make("two", ["a/b", "b", "a/c"]));
        let names: Vec<&str> = std::str::from_utf8(&sums)
            .unwrap()
            .lines()
            .map(|line| line.split_once("  ").unwrap().1)
            .collect();
        assert_eq!(names, ["a/b", "a/c", "b"]);
    }

    #[test]
    fn the_hash_is_the_one_that_sha256sum_prints() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
