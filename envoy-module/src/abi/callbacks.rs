//! The functions that Envoy exports for modules. To add a function, add a line to the list below.

use super::types::*;
use std::ffi::{CStr, c_void};
use std::mem::transmute;

/// Declares the callbacks. Envoy's names have the prefix `envoy_dynamic_module_callback_`.
macro_rules! callbacks {
    (
        required { $($(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }
        optional { $($(#[doc = $other_doc:literal])+ fn $other:ident($($other_argument:ident: $other_type:ty),*) $(-> $other_result:ty)?;)* }
    ) => {
        /// Envoy's functions for modules.
        #[derive(Clone, Copy)]
        pub struct Exports {
            $($(#[doc = $doc])+ pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
            $($(#[doc = $other_doc])+ pub $other:
                Option<unsafe extern "C" fn($($other_argument: $other_type),*) $(-> $other_result)?>,)*
        }

        /// Envoy's names of the functions without which the module does not load.
        pub const REQUIRED: &[&str] = &[$(concat!("envoy_dynamic_module_callback_", stringify!($name))),*];

        /// Envoy's names of the functions without which the module lacks a feature.
        pub const OPTIONAL: &[&str] = &[$(concat!("envoy_dynamic_module_callback_", stringify!($other))),*];

        impl Exports {
            /// Looks all functions up. Fails with the names of the required ones that are missing.
            ///
            /// # Safety
            /// An address that `find` returns is null, or that of the function that Envoy's header
            /// declares under this name.
            pub unsafe fn find(find: impl Fn(&CStr) -> *const c_void) -> Result<Exports, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(let $name = find(c_name(concat!("envoy_dynamic_module_callback_", stringify!($name), "\0")));
                if $name.is_null() {
                    missing.push(concat!("envoy_dynamic_module_callback_", stringify!($name)));
                })*
                if !missing.is_empty() {
                    return Err(missing);
                }
                $(let $other =
                    find(c_name(concat!("envoy_dynamic_module_callback_", stringify!($other), "\0")));)*
                Ok(Exports {
                    // SAFETY: the address is not null, and by the caller's promise it is that of a
                    // function with this signature.
                    $($name: unsafe {
                        transmute::<*const c_void, unsafe extern "C" fn($($type),*) $(-> $result)?>($name)
                    },)*
                    // SAFETY: the same; null is `None`.
                    $($other: unsafe {
                        transmute::<
                            *const c_void,
                            Option<unsafe extern "C" fn($($other_type),*) $(-> $other_result)?>,
                        >($other)
                    },)*
                })
            }
        }
    };
}

/// A name with a zero byte at its end, as C wants it.
fn c_name(name: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default()
}

callbacks! {
    required {
        /// Whether Envoy's log takes lines of this level.
        fn log_enabled(level: u32) -> bool;
        /// Whether Envoy only checks its configuration. Only on the main thread.
        fn is_validation_mode() -> bool;
        /// The number of workers. Only on the main thread.
        fn get_concurrency() -> u32;

        /// One line of a header, and how many lines there are.
        fn http_get_header(
            stream: StreamPtr, map: u32, name: Bytes, value: *mut Bytes, index: usize, lines: *mut usize
        ) -> bool;
        /// Adds a header line.
        fn http_add_header(stream: StreamPtr, map: u32, name: Bytes, value: Bytes) -> bool;
        /// Replaces all lines of a header; without a value, removes them.
        fn http_set_header(stream: StreamPtr, map: u32, name: Bytes, value: Bytes) -> bool;
        /// Sends a response in place of the upstream's.
        fn http_send_response(
            stream: StreamPtr, status: u32, headers: *const Header, count: usize, body: Bytes, details: Bytes
        );
        /// Begins a response in place of the upstream's.
        fn http_send_response_headers(
            stream: StreamPtr, headers: *const Header, count: usize, ends: bool
        );
        /// Sends a part of the body of such a response.
        fn http_send_response_data(stream: StreamPtr, part: Bytes, ends: bool);
        /// The number of bytes of a body.
        fn http_get_body_size(stream: StreamPtr, body: u32) -> usize;
        /// The number of chunks of a body.
        fn http_get_body_chunks_size(stream: StreamPtr, body: u32) -> usize;
        /// The chunks of a body.
        fn http_get_body_chunks(stream: StreamPtr, body: u32, chunks: *mut Bytes) -> bool;

        /// An attribute that is text.
        fn http_filter_get_attribute_string(stream: StreamPtr, attribute: u32, value: *mut Bytes) -> bool;
        /// An attribute that is a number.
        fn http_filter_get_attribute_int(stream: StreamPtr, attribute: u32, value: *mut u64) -> bool;
        /// An attribute that is true or false.
        fn http_filter_get_attribute_bool(stream: StreamPtr, attribute: u32, value: *mut bool) -> bool;
        /// Text in metadata.
        fn http_get_metadata_string(
            stream: StreamPtr, source: u32, namespace: Bytes, key: Bytes, value: *mut Bytes
        ) -> bool;
        /// A number in metadata.
        fn http_get_metadata_number(
            stream: StreamPtr, source: u32, namespace: Bytes, key: Bytes, value: *mut f64
        ) -> bool;
        /// True or false in metadata.
        fn http_get_metadata_bool(
            stream: StreamPtr, source: u32, namespace: Bytes, key: Bytes, value: *mut bool
        ) -> bool;
        /// Bytes that a filter has kept with the stream.
        fn http_get_filter_state_bytes(stream: StreamPtr, key: Bytes, value: *mut Bytes) -> bool;
        /// Keeps bytes with the stream, for the access log.
        fn http_set_filter_state_bytes(stream: StreamPtr, key: Bytes, value: Bytes) -> bool;
        /// Sets text in dynamic metadata.
        fn http_set_dynamic_metadata_string(stream: StreamPtr, namespace: Bytes, key: Bytes, value: Bytes);
        /// Chooses the route again.
        fn http_clear_route_cache(stream: StreamPtr);
        /// The span of the stream; null if the stream is not traced.
        fn http_get_active_span(stream: StreamPtr) -> SpanPtr;
        /// Sets a tag of a span.
        fn http_span_set_tag(span: SpanPtr, key: Bytes, value: Bytes);

        /// Resumes a held request.
        fn http_filter_continue_decoding(stream: StreamPtr);
        /// The configuration of the stream's route; null if there is none.
        fn get_most_specific_route_config(stream: StreamPtr) -> *const c_void;

        /// A handle to call back on the worker of a stream.
        fn http_filter_scheduler_new(stream: StreamPtr) -> StreamScheduler;
        /// Calls back on the worker, unless the stream has ended.
        fn http_filter_scheduler_commit(scheduler: StreamScheduler, event: u64);
        /// Gives the handle back.
        fn http_filter_scheduler_delete(scheduler: StreamScheduler);
        /// A handle to call back on the main thread.
        fn http_filter_config_scheduler_new(config: ConfigPtr) -> ConfigScheduler;
        /// Calls back on the main thread, unless the configuration has ended.
        fn http_filter_config_scheduler_commit(scheduler: ConfigScheduler, event: u64);
        /// Gives the handle back.
        fn http_filter_config_scheduler_delete(scheduler: ConfigScheduler);

        /// Sends an HTTP request to a cluster. Only on the main thread.
        fn http_filter_config_http_callout(
            config: ConfigPtr, id: *mut u64, cluster: Bytes, headers: *const Header, count: usize, body: Bytes,
            timeout_ms: u64
        ) -> u32;

        /// Defines a counter; only while the configuration is made.
        fn http_filter_config_define_counter(
            config: ConfigPtr, name: Bytes, labels: *const Bytes, count: usize, id: *mut usize
        ) -> u32;
        /// Defines a gauge; only while the configuration is made.
        fn http_filter_config_define_gauge(
            config: ConfigPtr, name: Bytes, labels: *const Bytes, count: usize, id: *mut usize
        ) -> u32;
        /// Defines a histogram; only while the configuration is made.
        fn http_filter_config_define_histogram(
            config: ConfigPtr, name: Bytes, labels: *const Bytes, count: usize, id: *mut usize
        ) -> u32;
        /// Adds to a counter.
        fn http_filter_increment_counter(
            stream: StreamPtr, id: usize, labels: *const Bytes, count: usize, by: u64
        ) -> u32;
        /// Adds to a gauge.
        fn http_filter_increment_gauge(
            stream: StreamPtr, id: usize, labels: *const Bytes, count: usize, by: u64
        ) -> u32;
        /// Subtracts from a gauge.
        fn http_filter_decrement_gauge(
            stream: StreamPtr, id: usize, labels: *const Bytes, count: usize, by: u64
        ) -> u32;
        /// Sets a gauge.
        fn http_filter_set_gauge(
            stream: StreamPtr, id: usize, labels: *const Bytes, count: usize, value: u64
        ) -> u32;
        /// Adds a value to a histogram.
        fn http_filter_record_histogram_value(
            stream: StreamPtr, id: usize, labels: *const Bytes, count: usize, value: u64
        ) -> u32;
    }
    optional {
        /// Writes a line to Envoy's log, with the file and the line of the code. Since Envoy 1.40.
        fn log_v2(level: u32, line: Bytes, file: Bytes, number: u32);
        /// Writes a line to Envoy's log. Deprecated since Envoy 1.40.
        fn log(level: u32, line: Bytes);
        /// A number of Envoy's runtime, or `otherwise` if there is none. Workers always get
        /// `otherwise`. Since Envoy 1.40.
        fn get_runtime_number(key: Bytes, otherwise: f64) -> f64;
        /// The number of elements of a list in metadata.
        fn http_get_metadata_list_size(
            stream: StreamPtr, source: u32, namespace: Bytes, key: Bytes, size: *mut usize
        ) -> bool;
        /// An element of a list in metadata that is text.
        fn http_get_metadata_list_string(
            stream: StreamPtr, source: u32, namespace: Bytes, key: Bytes, index: usize, value: *mut Bytes
        ) -> bool;
        /// Adds to a counter, without a stream. Since Envoy 1.39.
        fn http_filter_config_increment_counter(
            config: ConfigPtr, id: usize, labels: *const Bytes, count: usize, by: u64
        ) -> u32;
        /// Adds to a gauge, without a stream. Since Envoy 1.39.
        fn http_filter_config_increment_gauge(
            config: ConfigPtr, id: usize, labels: *const Bytes, count: usize, by: u64
        ) -> u32;
        /// Subtracts from a gauge, without a stream. Since Envoy 1.39.
        fn http_filter_config_decrement_gauge(
            config: ConfigPtr, id: usize, labels: *const Bytes, count: usize, by: u64
        ) -> u32;
        /// Sets a gauge, without a stream. Since Envoy 1.39.
        fn http_filter_config_set_gauge(
            config: ConfigPtr, id: usize, labels: *const Bytes, count: usize, value: u64
        ) -> u32;
        /// Adds a value to a histogram, without a stream. Since Envoy 1.39.
        fn http_filter_config_record_histogram_value(
            config: ConfigPtr, id: usize, labels: *const Bytes, count: usize, value: u64
        ) -> u32;
        /// Follows a secret of the secret discovery service; 0 if there is none. Only while the
        /// configuration is made. Since Envoy 1.40.
        fn http_filter_config_generic_secret_subscribe(config: ConfigPtr, name: Bytes, source: Bytes) -> usize;
        /// The present value of such a secret. Since Envoy 1.40.
        fn http_filter_config_get_generic_secret(config: ConfigPtr, id: usize, value: *mut Bytes) -> bool;

        /// The number of chunks of a call's body that have just arrived. Since Envoy 1.39.
        fn upstream_http_tcp_bridge_get_request_buffer_chunks_size(bridge: BridgePtr) -> usize;
        /// These chunks, and how many there are. Envoy 1.38 has another function of this name.
        fn upstream_http_tcp_bridge_get_request_buffer(bridge: BridgePtr, chunks: *mut Bytes, count: *mut usize);
        /// The number of chunks that have just arrived from the connection. Since Envoy 1.39.
        fn upstream_http_tcp_bridge_get_response_buffer_chunks_size(bridge: BridgePtr) -> usize;
        /// These chunks, and how many there are. Envoy 1.38 has another function of this name.
        fn upstream_http_tcp_bridge_get_response_buffer(bridge: BridgePtr, chunks: *mut Bytes, count: *mut usize);
        /// Writes to the connection; `ends` closes the connection's half. Since Envoy 1.39.
        fn upstream_http_tcp_bridge_send_upstream_data(bridge: BridgePtr, bytes: Bytes, ends: bool);
        /// Answers the call. Since Envoy 1.39.
        fn upstream_http_tcp_bridge_send_response(
            bridge: BridgePtr, status: u32, headers: *const Header, count: usize, body: Bytes
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{dangling, null};

    #[test]
    fn a_process_without_required_callbacks_is_refused_by_name() {
        // SAFETY: no address is called.
        let found = unsafe { Exports::find(|_| null()) };
        assert_eq!(found.err().unwrap(), REQUIRED);
        let lacks = c"envoy_dynamic_module_callback_http_get_header";
        // SAFETY: no address is called.
        let found =
            unsafe { Exports::find(|name| if name == lacks { null() } else { dangling::<c_void>() }) };
        assert_eq!(found.err().unwrap(), ["envoy_dynamic_module_callback_http_get_header"]);
    }

    #[test]
    fn a_process_may_lack_optional_callbacks() {
        let optional = |name: &CStr| OPTIONAL.contains(&name.to_str().unwrap());
        // SAFETY: no address is called.
        let found =
            unsafe { Exports::find(|name| if optional(name) { null() } else { dangling::<c_void>() }) };
        let found = found.ok().unwrap();
        assert!(found.http_filter_config_increment_counter.is_none());
        // SAFETY: no address is called.
        let found = unsafe { Exports::find(|_| dangling::<c_void>()) };
        assert!(found.ok().unwrap().http_filter_config_generic_secret_subscribe.is_some());
    }
}
