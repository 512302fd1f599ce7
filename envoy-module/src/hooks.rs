//! The functions that Envoy calls, by the names of its ABI. Each catches panics and hands the event
//! on.
//!
//! ```text
//!   on_program_init                any thread    the callbacks of this Envoy, or refuses to load
//!   on_http_filter_config_new      main thread   FilterConfig; refuses a wrong document
//!   on_http_filter_new             any thread    an entry for the stream
//!   on_http_filter_request_headers the stream's  Filter::on_request_headers ─► pass, hold, answer
//!   on_http_filter_scheduled       the stream's  a bell rang: timers, replies of stores
//!   on_http_filter_stream_complete the stream's  Filter::on_delete: refunds
//!   on_http_filter_config_…        main thread   calls to stores and their replies
//!   on_http_filter_per_route_…     main thread   a route's document; refuses a wrong one
//!   on_upstream_http_tcp_bridge_…  the call's    Bridge: a call to Redis, and its replies
//! ```

mod bridge;
mod config;
mod recovery;
mod route;
mod stream;
mod unused;

use crate::abi::{self, Exports, VERSION};
use crate::guard::{guarded, log_panics};
use crate::logger;
use std::ffi::c_char;
use std::ptr::null;
use std::sync::OnceLock;

/// The callbacks of this Envoy, and from the first call on its log. Fails with the names of the
/// callbacks that this Envoy lacks.
///
/// Each event that may be the module's first one begins with this. Envoy runs `on_program_init` on
/// the thread that loads the module; a worker that asks for a bridge meanwhile finds the module
/// loaded, and does not wait.
fn start() -> Result<&'static Exports, Vec<&'static str>> {
    static PREPARED: OnceLock<()> = OnceLock::new();
    let envoy = abi::load()?;
    PREPARED.get_or_init(|| {
        logger::install();
        log_panics();
        abi::pin();
    });
    Ok(envoy)
}

/// Loads the module into an Envoy that has all that the module needs.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    guarded(null(), || match start() {
        Ok(_) => VERSION.as_ptr(),
        Err(missing) => {
            abi::log_refusal(&format!(
                "diana needs Envoy 1.38 or later: this Envoy has no `{}`",
                missing.join("`, `")
            ));
            null()
        }
    })
}
