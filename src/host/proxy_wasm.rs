//! proxy-wasm hosts: Envoy and all that embed its runtime, and nginx with ngx_wasm_module.
//!
//! It does not know: what is decided. It reads what is asked for, does what comes back, and counts it.
//!
//! ```text
//!   proxy_on_configure          root    configuration, store, seed ─► Gateway, shared by all streams
//!   proxy_on_request_headers    stream  Session::start ─► pass, or send_local_response
//!   proxy_on_response_headers   stream  adds RateLimit headers
//!   proxy_on_tick               root    lets go on whose turn has come
//!   proxy_on_done               stream  Session::settle
//! ```
//!
//! The SDK dispatches callbacks. Its host calls are not used: they panic at statuses they do not expect,
//! and at header values that are not UTF-8. Those in [`calls`] return every status as a value.

mod announce;
mod calls;
mod metrics;
mod parts;
mod root;
mod stream;
mod waiting;

use calls::Level;

// The SDK's `main!` is this with a block in the middle.
unsafe extern "C" {
    fn __wasm_call_ctors();
}

/// The module's entry, called by the host once before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn _initialize() {
    // SAFETY: the linker's own constructor function, which a reactor's entry has to call once.
    unsafe { __wasm_call_ctors() };
    std::panic::set_hook(Box::new(|info| calls::log(Level::Critical, &info.to_string())));
    ::proxy_wasm::set_root_context(|_| Box::new(root::Root::default()));
}
