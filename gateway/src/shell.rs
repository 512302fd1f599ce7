//! The two shells of Diana, and what differs between them for a test.

use std::env;

/// What Envoy loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// The proxy-wasm filter, `diana.wasm`.
    Wasm,
    /// The native module, `libdiana.so`.
    Native,
}

impl Shell {
    /// The shell that this run of the tests is for: `$DIANA_SHELL` is `native`, or else the
    /// proxy-wasm filter.
    pub fn of_run() -> Shell {
        match env::var_os("DIANA_SHELL").is_some_and(|shell| shell == "native") {
            true => Shell::Native,
            false => Shell::Wasm,
        }
    }
}
