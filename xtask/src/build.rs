//! `cargo xtask build`: the filter and the native module as they ship.

use anyhow::{Result, bail};
use gateway::filter::{self, ARTEFACTS};

/// The largest file, in bytes. Every worker of a gateway compiles the file at each start and
/// reload, and some operators distribute the file over the network.
const LARGEST: u64 = 900_000;

/// Builds the files, and prints the place and the size of each.
pub fn run() -> Result<()> {
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
    Ok(())
}
