//! The host functions of the proxy-wasm ABI, version 0.2.1, as raw imports. [`calls`](super::calls)
//! wraps them. On targets other than wasm32, the host of `diana-testing` implements them.

#[cfg(not(target_arch = "wasm32"))]
pub(super) use diana_testing::host::functions::*;

// All functions return a status. The host returns bytes through `*mut *mut u8`. It allocates these
// bytes in the filter's memory by `proxy_on_memory_allocate`, which is `memory::allocate`.
#[cfg(target_arch = "wasm32")]
unsafe extern "C" {
    pub(super) fn proxy_log(level: u32, message: *const u8, size: usize) -> u32;
    pub(super) fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    pub(super) fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        max: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    pub(super) fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    pub(super) fn proxy_get_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    pub(super) fn proxy_add_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        size: usize,
    ) -> u32;
    pub(super) fn proxy_replace_header_map_value(
        map: u32,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        size: usize,
    ) -> u32;
    pub(super) fn proxy_remove_header_map_value(map: u32, key: *const u8, key_size: usize) -> u32;
    pub(super) fn proxy_get_property(
        path: *const u8,
        path_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    pub(super) fn proxy_set_property(path: *const u8, path_size: usize, value: *const u8, size: usize)
    -> u32;
    pub(super) fn proxy_get_shared_data(
        key: *const u8,
        key_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
        cas: *mut u32,
    ) -> u32;
    pub(super) fn proxy_set_shared_data(
        key: *const u8,
        key_size: usize,
        value: *const u8,
        size: usize,
        cas: u32,
    ) -> u32;
    pub(super) fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
    pub(super) fn proxy_http_call(
        upstream: *const u8,
        upstream_size: usize,
        headers: *const u8,
        headers_size: usize,
        body: *const u8,
        body_size: usize,
        trailers: *const u8,
        trailers_size: usize,
        timeout: u32,
        token: *mut u32,
    ) -> u32;
    pub(super) fn proxy_call_foreign_function(
        name: *const u8,
        name_size: usize,
        argument: *const u8,
        argument_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    pub(super) fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    pub(super) fn proxy_set_effective_context(id: u32) -> u32;
    pub(super) fn proxy_continue_stream(stream: u32) -> u32;
    pub(super) fn proxy_define_metric(kind: u32, name: *const u8, size: usize, id: *mut u32) -> u32;
    pub(super) fn proxy_increment_metric(id: u32, offset: i64) -> u32;
    pub(super) fn proxy_record_metric(id: u32, value: u64) -> u32;
    pub(super) fn proxy_get_metric(id: u32, value: *mut u64) -> u32;
}

#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    pub(super) fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
}

/// Random bits from the host's WASI, through the keys of a standard hasher.
#[cfg(target_arch = "wasm32")]
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0u8)
}
