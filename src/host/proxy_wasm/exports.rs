//! What the module exports, as the proxy-wasm ABI, version 0.2.1, names it.
//!
//! It does not know: what happens. [`Filter`] does it; one per VM, and a VM has one thread.
//!
//! Every callback that is exported costs a gateway some half a microsecond for each request, so a build
//! removes those from the module that its gateway can do without; see [`Callbacks`](super::Callbacks).

use super::calls::{self, Level};
use super::{Action, Filter, memory};

thread_local! {
    static FILTER: Filter = Filter::default();
}

// What a linker puts in front of a program's `main`; a module without one has to call it.
unsafe extern "C" {
    fn __wasm_call_ctors();
}

/// The module's entry, called by the host once before anything else.
#[unsafe(no_mangle)]
pub extern "C" fn _initialize() {
    // SAFETY: the linker's own constructor function, which a reactor's entry has to call once.
    unsafe { __wasm_call_ctors() };
    std::panic::set_hook(Box::new(|info| calls::log(Level::Critical, &info.to_string())));
}

/// Tells the host which ABI this is by its name.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_abi_version_0_2_1() {}

/// Memory for what the host returns. Called in the middle of host calls.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    memory::allocate(size)
}

/// nginx insists on it. The VM has no configuration of its own.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_vm_start(_root: u32, _size: usize) -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_configure(root: u32, size: usize) -> u32 {
    FILTER.with(|filter| filter.on_configure(root, size)).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_context_create(id: u32, parent: u32) {
    FILTER.with(|filter| filter.on_context_create(id, parent));
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_request_headers(id: u32, _lines: u32, _ends: u32) -> u32 {
    FILTER.with(|filter| filter.on_request_headers(id)) as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_request_body(id: u32, _size: u32, _ends: u32) -> u32 {
    FILTER.with(|filter| filter.on_request_more(id)) as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_request_trailers(id: u32, _lines: u32) -> u32 {
    FILTER.with(|filter| filter.on_request_more(id)) as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_response_headers(id: u32, _lines: u32, _ends: u32) -> u32 {
    FILTER.with(|filter| filter.on_response_headers(id)) as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_tick(root: u32) {
    FILTER.with(|filter| filter.on_tick(root));
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_http_call_response(
    _root: u32,
    token: u32,
    _lines: u32,
    size: usize,
    _trailers: u32,
) {
    FILTER.with(|filter| filter.on_http_call_response(token, size));
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_grpc_receive(_root: u32, token: u32, size: usize) {
    FILTER.with(|filter| filter.on_grpc_receive(token, size));
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_grpc_close(_root: u32, token: u32, status: u32) {
    FILTER.with(|filter| filter.on_grpc_close(token, status));
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_delete(id: u32) {
    FILTER.with(|filter| filter.on_delete(id));
}

// What follows is for nginx, whose module calls them without looking whether they are there.

/// `1`: the context may be deleted.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_done(_id: u32) -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_log(_id: u32) {}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_response_body(_id: u32, _size: u32, _ends: u32) -> u32 {
    Action::Continue as u32
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_response_trailers(_id: u32, _lines: u32) -> u32 {
    Action::Continue as u32
}
