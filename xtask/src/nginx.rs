//! `cargo xtask nginx --source FOLDER`: a real nginx with ngx_wasm_module, and the tests of Diana
//! in it. Nothing is fetched: whoever runs this brings the sources.
//!
//! ```text
//!   FOLDER/nginx            nginx's source: github.com/nginx/nginx, tag release-1.27.4
//!   FOLDER/ngx_wasm_module  github.com/Kong/ngx_wasm_module, commit 3bed2783
//!   FOLDER/wasmtime         wasmtime's C API, version 25 or 26: lib/libwasmtime.so, include/wasmtime.h, …
//! ```

mod build;
mod server;
mod tests;

use crate::programs;
use anyhow::{Result, bail};
use gateway::filter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Builds nginx and the filter, and runs the tests whose names contain `filter`.
pub fn run(source: &Path, filter: Option<&str>) -> Result<()> {
    let program = build::nginx(source)?;
    println!("nginx: {}", program.display());
    programs::install_fetchers()?;
    filter::build()?;
    let (mut failed, mut ran) = (Vec::new(), 0);
    for (name, test) in tests::ALL {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        ran += 1;
        // A test fails with an error, or with an assertion.
        let result = catch_unwind(AssertUnwindSafe(|| test(&program)));
        let is_ok = matches!(result, Ok(Ok(())));
        println!("{:>6}  {name}", if is_ok { "ok" } else { "FAILED" });
        if let Ok(Err(error)) = result {
            println!("{error:#}");
        }
        failed.extend((!is_ok).then_some(*name));
    }
    println!("{} of {ran} tests passed", ran - failed.len());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}
