//! `cargo xtask build`: the filter and the native module as they ship.

use crate::programs;
use anyhow::{Context, Result, bail, ensure};
use gateway::filter::{self, ARTEFACTS};
use std::fs;

/// The largest file, in bytes. A gateway compiles the file whenever it starts, and some operators
/// distribute the file over the network.
const LARGEST: u64 = 940_000;

/// The newest glibc 2 that the native module may need, by its minor number.
const GLIBC: u32 = 34;

/// Builds the files, and prints the place and the size of each.
pub fn run() -> Result<()> {
    programs::install_fetchers()?;
    filter::build()?;
    for artefact in &ARTEFACTS {
        let size = gateway::target().join(artefact.name).metadata()?.len();
        println!("target/{:<17} {size} bytes, {} KB", artefact.name, size.div_ceil(1000));
        if size > LARGEST {
            bail!("`{}` has {size} bytes, {LARGEST} are allowed", artefact.name);
        }
    }
    let module = filter::build_module()?;
    let size = module.metadata()?.len();
    println!("target/{:<17} {size} bytes, {} KB", filter::MODULE, size.div_ceil(1000));
    let minor = glibc(&fs::read(&module)?).context("the native module names no version of glibc")?;
    println!("target/{:<17} needs glibc 2.{minor}", filter::MODULE);
    ensure!(
        minor <= GLIBC,
        "the native module needs glibc 2.{minor}, but docs/native-module.md promises 2.{GLIBC}"
    );
    Ok(())
}

/// The minor number of the newest glibc 2 of which a shared object needs symbols.
pub fn glibc(object: &[u8]) -> Option<u32> {
    const VERSION: &[u8] = b"GLIBC_2.";
    let versions = object.windows(VERSION.len()).enumerate().filter(|(_, part)| *part == VERSION);
    let minor = |(at, _): (usize, &[u8])| {
        let digits: Vec<u8> =
            object[at + VERSION.len()..].iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse().ok()
    };
    versions.filter_map(minor).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        assert_eq!(glibc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0"), Some(34));
        assert_eq!(glibc(b"GLIBC_2."), None);
    }

    #[test]
    fn the_page_names_the_version() {
        let page = include_str!("../../docs/native-module.md");
        assert!(page.contains(&format!("glibc 2.{GLIBC} or later")));
    }
}
