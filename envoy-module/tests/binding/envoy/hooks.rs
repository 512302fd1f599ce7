//! The functions that the module exports, as Envoy finds them.

use diana_envoy_module::abi::{BridgePtr, Bytes, ConfigPtr, Header, StreamPtr};
use std::ffi::{c_char, c_void};

/// The module's own pointers: a configuration, a stream, a route's document, a bridge.
pub type Entry = *const c_void;

macro_rules! hooks {
    ($($name:ident = $symbol:literal($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "C" {
            $(#[link_name = $symbol] pub fn $name($($argument: $type),*) $(-> $result)?;)*
        }
    };
}

hooks! {
    program_init = "envoy_dynamic_module_on_program_init"() -> *const c_char;
    config_new = "envoy_dynamic_module_on_http_filter_config_new"(
        config: ConfigPtr, name: Bytes, document: Bytes
    ) -> Entry;
    config_destroy = "envoy_dynamic_module_on_http_filter_config_destroy"(entry: Entry);
    config_scheduled = "envoy_dynamic_module_on_http_filter_config_scheduled"(
        config: ConfigPtr, entry: Entry, event: u64
    );
    call_done = "envoy_dynamic_module_on_http_filter_config_http_callout_done"(
        config: ConfigPtr, entry: Entry, id: u64, result: u32, headers: *const Header, headers_count: usize,
        chunks: *const Bytes, chunks_count: usize
    );
    route_new = "envoy_dynamic_module_on_http_filter_per_route_config_new"(name: Bytes, document: Bytes) -> Entry;
    route_destroy = "envoy_dynamic_module_on_http_filter_per_route_config_destroy"(entry: Entry);
    stream_new = "envoy_dynamic_module_on_http_filter_new"(entry: Entry, stream: StreamPtr) -> Entry;
    request_headers = "envoy_dynamic_module_on_http_filter_request_headers"(
        stream: StreamPtr, entry: Entry, ends: bool
    ) -> u32;
    request_body = "envoy_dynamic_module_on_http_filter_request_body"(
        stream: StreamPtr, entry: Entry, ends: bool
    ) -> u32;
    request_trailers = "envoy_dynamic_module_on_http_filter_request_trailers"(stream: StreamPtr, entry: Entry) -> u32;
    response_headers = "envoy_dynamic_module_on_http_filter_response_headers"(
        stream: StreamPtr, entry: Entry, ends: bool
    ) -> u32;
    response_body = "envoy_dynamic_module_on_http_filter_response_body"(
        stream: StreamPtr, entry: Entry, ends: bool
    ) -> u32;
    response_trailers = "envoy_dynamic_module_on_http_filter_response_trailers"(
        stream: StreamPtr, entry: Entry
    ) -> u32;
    scheduled = "envoy_dynamic_module_on_http_filter_scheduled"(stream: StreamPtr, entry: Entry, event: u64);
    stream_complete = "envoy_dynamic_module_on_http_filter_stream_complete"(stream: StreamPtr, entry: Entry);
    bridge_config_new = "envoy_dynamic_module_on_upstream_http_tcp_bridge_config_new"(
        config: *mut c_void, name: Bytes, document: Bytes
    ) -> Entry;
    bridge_config_destroy = "envoy_dynamic_module_on_upstream_http_tcp_bridge_config_destroy"(entry: Entry);
    bridge_new = "envoy_dynamic_module_on_upstream_http_tcp_bridge_new"(entry: Entry, call: BridgePtr) -> Entry;
    bridge_destroy = "envoy_dynamic_module_on_upstream_http_tcp_bridge_destroy"(entry: Entry);
    bridge_headers = "envoy_dynamic_module_on_upstream_http_tcp_bridge_encode_headers"(
        call: BridgePtr, entry: Entry, ends: bool
    );
    bridge_data = "envoy_dynamic_module_on_upstream_http_tcp_bridge_encode_data"(
        call: BridgePtr, entry: Entry, ends: bool
    );
    bridge_trailers = "envoy_dynamic_module_on_upstream_http_tcp_bridge_encode_trailers"(call: BridgePtr, entry: Entry);
    bridge_reply = "envoy_dynamic_module_on_upstream_http_tcp_bridge_on_upstream_data"(
        call: BridgePtr, entry: Entry, ends: bool
    );
    stream_destroy = "envoy_dynamic_module_on_http_filter_destroy"(entry: Entry);
}
