//! Functions that Envoy requires and the module has no use for: calls are made by configurations,
//! not by streams, whose calls would end with them.

use crate::abi::{Bytes, Header, StreamPtr};
use std::ffi::c_void;

/// The module makes no calls for a stream.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_http_callout_done(
    _: StreamPtr,
    _: *const c_void,
    _id: u64,
    _result: u32,
    _headers: *const Header,
    _headers_count: usize,
    _chunks: *const Bytes,
    _chunks_count: usize,
) {
}

/// The module makes no calls for a stream.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_headers(
    _: StreamPtr,
    _: *const c_void,
    _id: u64,
    _headers: *const Header,
    _count: usize,
    _ends: bool,
) {
}

/// The module makes no calls for a stream.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_data(
    _: StreamPtr,
    _: *const c_void,
    _id: u64,
    _chunks: *const Bytes,
    _count: usize,
    _ends: bool,
) {
}

/// The module makes no calls for a stream.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_trailers(
    _: StreamPtr,
    _: *const c_void,
    _id: u64,
    _trailers: *const Header,
    _count: usize,
) {
}

/// The module makes no calls for a stream.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_complete(
    _: StreamPtr,
    _: *const c_void,
    _id: u64,
) {
}

/// The module makes no calls for a stream.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_http_stream_reset(
    _: StreamPtr,
    _: *const c_void,
    _id: u64,
    _reason: u32,
) {
}

/// The module is no terminal filter, so it gets no such event.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(
    _: StreamPtr,
    _: *const c_void,
) {
}

/// The module is no terminal filter, so it gets no such event.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(
    _: StreamPtr,
    _: *const c_void,
) {
}
