//! The module's exports, named by the proxy-wasm ABI, version 0.2.1, which forward to the VM's one
//! [`Filter`]. Each costs the gateway about 0.5 µs a request, so a build removes those that its
//! host does not need; see [`Exports`](super::Exports).

use super::{ProxyWasm, calls, logger, memory};
use diana_filter::{Action, Filter};

/// The host's level for a panic.
const CRITICAL: u32 = 5;

// The numbers of proxy-wasm-cpp-host for what a host does after a callback, which Envoy takes from
// its own filters. A held request takes those that stop the client at the buffer's limit, for
// other numbers answer 413 there; 2 also hands each part of a body on once, as it comes. Without
// `allow_on_headers_stop_iteration`, Envoy takes 1 at the headers as 4. nginx never holds a request.

/// `FilterHeadersStatus`: `StopIteration`, or `StopAllIterationAndWatermark`.
fn headers_status(action: Action) -> u32 {
    match action {
        Action::Continue => 0,
        Action::Stop | Action::Read => 1,
        Action::Hold => 4,
    }
}

/// `FilterDataStatus`: `StopIterationAndBuffer`, or `StopIterationAndWatermark`.
fn data_status(action: Action) -> u32 {
    match action {
        Action::Continue => 0,
        Action::Stop => 1,
        Action::Hold | Action::Read => 2,
    }
}

/// `FilterTrailersStatus`: `StopIteration`.
fn trailers_status(action: Action) -> u32 {
    u32::from(action != Action::Continue)
}

thread_local! {
    static FILTER: Filter<ProxyWasm> = Filter::new(ProxyWasm::default());
}

// The linker calls this function before a program's `main`. A module without `main` has to call it.
unsafe extern "C" {
    fn __wasm_call_ctors();
}

/// The module's entry; the host calls it once before any other export.
#[unsafe(no_mangle)]
pub extern "C" fn _initialize() {
    // SAFETY: this is the linker's own constructor function. A reactor's entry has to call it once.
    unsafe { __wasm_call_ctors() };
    logger::install();
    std::panic::set_hook(Box::new(|info| calls::log(CRITICAL, &info.to_string())));
}

/// Tells the host the ABI version by its name.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_abi_version_0_2_1() {}

/// Allocates memory for a value that the host returns. The host calls it in the middle of host
/// calls.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    memory::allocate(size)
}

/// Some hosts require this callback. The VM has no configuration of its own.
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
pub extern "C" fn proxy_on_request_headers(id: u32, _lines: u32, ends: u32) -> u32 {
    headers_status(FILTER.with(|filter| filter.on_request_headers(id, ends != 0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_request_body(id: u32, size: usize, ends: u32) -> u32 {
    data_status(FILTER.with(|filter| filter.on_request_body(id, size, ends != 0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_request_trailers(id: u32, _lines: u32) -> u32 {
    trailers_status(FILTER.with(|filter| filter.on_request_trailers(id)))
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_response_headers(id: u32, _lines: u32, ends: u32) -> u32 {
    headers_status(FILTER.with(|filter| filter.on_response_headers(id, ends != 0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_response_body(id: u32, size: usize, ends: u32) -> u32 {
    data_status(FILTER.with(|filter| filter.on_response_body(id, size, ends != 0)))
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_response_trailers(id: u32, _lines: u32) -> u32 {
    trailers_status(FILTER.with(|filter| filter.on_response_trailers(id)))
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
pub extern "C" fn proxy_on_delete(id: u32) {
    FILTER.with(|filter| filter.on_delete(id));
}

// The callbacks below are for hosts that call them without a check whether they exist.

/// `1`: the host may delete the context.
#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_done(_id: u32) -> u32 {
    1
}

#[unsafe(no_mangle)]
pub extern "C" fn proxy_on_log(_id: u32) {}
