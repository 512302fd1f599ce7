//! The events of a route's configuration.

use crate::abi::Bytes;
use crate::guard::guarded;
use crate::hooks::start;
use crate::namespace::Namespace;
use crate::request;
use crate::routes::{self, Route};
use std::ffi::c_void;
use std::ptr::null;

/// Takes the document of a route; null refuses it. Whether the document fits a listener's document
/// shows at the first request that uses both.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    name: Bytes,
    document: Bytes,
) -> *const c_void {
    guarded(null(), || {
        if start().is_err() {
            return null();
        }
        // SAFETY: Envoy lends both texts until the event ends.
        let (name, document) = unsafe { (String::from_utf8_lossy(name.get()), document.get()) };
        let checked = diana_filter::check_route(document, |known| request::refusals(&known.policy).collect());
        match checked {
            Ok(()) => routes::add(&name, document).address(),
            Err(why) => {
                log::error!("{} refused, {why}", Route::described(&name));
                null()
            }
        }
    })
}

/// Forgets the document of a route, on any thread.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(route: *const c_void) {
    guarded((), || {
        if routes::remove(route) {
            // The main thread frees the document's memory in idle workers.
            Namespace::route_has_gone();
        }
    });
}
