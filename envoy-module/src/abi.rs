//! Envoy's ABI for dynamic modules, version 0.2.0, as far as this module uses it:
//! `source/extensions/dynamic_modules/abi/abi.h`, with the same signatures in Envoy 1.38 to 1.40.
//! When an Envoy loads the module, the module checks what it exports.

mod callbacks;
mod types;

pub use callbacks::{Exports, OPTIONAL, REQUIRED};
pub use types::*;

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The version of the ABI that this module is written for. An Envoy with another version logs a
/// warning and loads the module if it knows both.
pub const VERSION: &CStr = c"v0.2.0";

/// The callbacks of the Envoy that has loaded the module.
static ENVOY: OnceLock<Exports> = OnceLock::new();

/// What stands in for an Envoy in tests.
static SIMULATED: OnceLock<Exports> = OnceLock::new();

/// The callbacks of the Envoy that has loaded the module; `None` before [`load`] succeeds.
#[must_use]
pub fn envoy() -> Option<&'static Exports> {
    ENVOY.get()
}

/// Looks the callbacks up in the process. Fails with the names of those that the process lacks.
pub fn load() -> Result<&'static Exports, Vec<&'static str>> {
    if let Some(known) = envoy() {
        return Ok(known);
    }
    let found = match SIMULATED.get() {
        Some(simulated) => *simulated,
        // SAFETY: `symbol` finds a callback by the name that Envoy gives it, so it has the
        // signature of Envoy's header.
        None => unsafe { Exports::find(symbol) }?,
    };
    Ok(ENVOY.get_or_init(|| found))
}

/// Makes [`load`] find these callbacks in place of an Envoy's, for tests. The first call wins.
pub fn simulate(callbacks: Exports) {
    SIMULATED.get_or_init(|| callbacks);
}

/// The address of a symbol of this process, or null.
fn symbol(name: &CStr) -> *const c_void {
    // SAFETY: the name ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Keeps the module in memory until the process ends. Envoy closes a module with its last
/// configuration, but its workers keep values whose destructors are code of the module.
pub fn pin() {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the address is that of a function of the module, and the call fills `info` in.
    let found = unsafe { libc::dladdr(pin as *const c_void, info.as_mut_ptr()) };
    if found != 0 {
        // SAFETY: the call has filled `info` in. Its name ends with a zero byte and lives while the
        // module does. A module that is loaded already is not loaded again.
        unsafe {
            libc::dlopen(
                info.assume_init().dli_fname,
                libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            )
        };
    }
}

/// Writes a line to Envoy's log, also if other callbacks are missing. Without an Envoy, does
/// nothing.
pub fn log_refusal(line: &str) {
    type Log = unsafe extern "C" fn(u32, Bytes);
    let address = symbol(c"envoy_dynamic_module_callback_log");
    if !address.is_null() {
        // SAFETY: the symbol of this name has this signature in every Envoy with dynamic modules.
        let log = unsafe { std::mem::transmute::<*const c_void, Log>(address) };
        // SAFETY: the line lives through the call.
        unsafe { log(log_level::ERROR, Bytes::of(line.as_bytes())) };
    }
}
