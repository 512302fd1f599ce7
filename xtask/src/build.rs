//! `cargo xtask build`: the filter as it ships.

use anyhow::{Result, bail};
use gateway::filter::{self, ARTEFACTS};

/// Bytes that a file may have: every worker of a gateway compiles it anew when it starts or
/// reloads, and it goes over the network where files are distributed.
const LARGEST: u64 = 640_000;

/// Builds it and says what lies where and how large it is.
pub fn run() -> Result<()> {
    filter::build()?;
    for artefact in &ARTEFACTS {
        let size = gateway::target().join(artefact.name).metadata()?.len();
        println!("target/{:<17} {size} bytes, {} KB", artefact.name, size.div_ceil(1000));
        if size > LARGEST {
            bail!("`{}` has {size} bytes, {LARGEST} are allowed", artefact.name);
        }
    }
    Ok(())
}
