//! `cargo xtask build`: the filter as it ships.

use anyhow::Result;
use gateway::filter;

/// Builds it and says where it lies and how large it is.
pub fn run() -> Result<()> {
    let file = filter::build()?;
    let size = file.metadata()?.len();
    println!(
        "{}  {} KiB",
        file.strip_prefix(gateway::root()).unwrap_or(&file).display(),
        size.div_ceil(1024)
    );
    Ok(())
}
