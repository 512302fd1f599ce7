//! The folder of a release: files with fixed modes and times, and their checksums.

use super::{output, read};
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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

    /// The names of all files with their SHA-256.
    pub fn hashes(&self) -> Result<Vec<(String, String)>> {
        files(&self.0)?
            .into_iter()
            .map(|name| Ok((name.clone(), sha256(&read(&self.0.join(name))?))))
            .collect()
    }

    /// Writes the checksums, and gives everything this time, in seconds since 1970.
    pub fn finish(&self, epoch: u64) -> Result<()> {
        let line = |(name, hash): (String, String)| format!("{hash}  {name}\n");
        let sums: String = self.hashes()?.into_iter().map(line).collect();
        self.write(SUMS, sums.as_bytes(), PLAIN)?;
        let find = |arguments: &[&str]| output(Command::new("find").arg(&self.0).args(arguments));
        find(&["-type", "d", "-exec", "chmod", "755", "{}", "+"])?;
        find(&["-exec", "touch", "--date", &format!("@{epoch}"), "{}", "+"]).map(drop)
    }
}

/// The names of all files below a folder, in the order of their bytes.
pub fn files(below: &Path) -> Result<Vec<String>> {
    let found = output(Command::new("find").arg(below).args(["!", "-type", "d", "-printf", "%P\\n"]))?;
    let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
    files.sort();
    Ok(files)
}

/// The SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn two_folders_with_the_same_files_are_the_same() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, order: [&str; 3]| {
            let folder = Folder::create(&place.path().join(name)).unwrap();
            order.iter().for_each(|name| folder.write(name, b"abc", PLAIN).unwrap());
            folder.finish(1_700_000_000).unwrap();
            let meta = folder.path().join("a/b").metadata().unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            assert_eq!((meta.modified().unwrap(), meta.permissions().mode() & 0o777), (time, PLAIN));
            String::from_utf8(read(&folder.path().join(SUMS)).unwrap()).unwrap()
        };
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let sums: String = ["a/b", "a/c", "b"].map(|name| format!("{hash}  {name}\n")).concat();
        assert_eq!(
            [make("one", ["b", "a/c", "a/b"]), make("two", ["a/b", "b", "a/c"])],
            [sums.clone(), sums]
        );
    }
}
