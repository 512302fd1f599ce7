//! Envoy's functions for modules: each checks what Envoy demands of its caller.

use super::bridges;
use super::config_callbacks as config;
use super::exchange::{copy, lend, lines};
use super::flow;
use super::metrics;
use super::world::{Owner, Stream, rung, with};
use diana_envoy_module::abi::{Bytes, Exports, Header, attribute, header_map, log_level};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

type Pointer = *mut c_void;

/// All of Envoy 1.40's functions.
pub fn all() -> Exports {
    Exports {
        log_v2: Some(log),
        log: None,
        log_enabled,
        is_validation_mode,
        get_concurrency,
        http_get_header,
        http_add_header,
        http_set_header,
        http_send_response,
        http_send_response_headers,
        http_send_response_data,
        http_get_body_size,
        http_get_body_chunks_size,
        http_get_body_chunks,
        http_filter_get_attribute_string,
        http_filter_get_attribute_int,
        http_filter_get_attribute_bool,
        http_get_metadata_string,
        http_get_metadata_number,
        http_get_metadata_bool,
        http_get_filter_state_bytes,
        http_set_filter_state_bytes,
        http_set_dynamic_metadata_string,
        http_clear_route_cache,
        http_get_active_span,
        http_span_set_tag,
        http_filter_continue_decoding,
        get_most_specific_route_config,
        http_filter_scheduler_new,
        http_filter_scheduler_commit: scheduler_commit,
        http_filter_scheduler_delete: scheduler_delete,
        http_filter_config_scheduler_new,
        http_filter_config_scheduler_commit: scheduler_commit,
        http_filter_config_scheduler_delete: scheduler_delete,
        http_filter_config_http_callout: config::http_filter_config_http_callout,
        http_filter_config_define_counter: metrics::define,
        http_filter_config_define_gauge: metrics::define,
        http_filter_config_define_histogram: metrics::define,
        http_filter_increment_counter: metrics::tell_by_stream::<{ metrics::OTHER }>,
        http_filter_increment_gauge: metrics::tell_by_stream::<{ metrics::ADD }>,
        http_filter_decrement_gauge: metrics::tell_by_stream::<{ metrics::SUBTRACT }>,
        http_filter_set_gauge: metrics::tell_by_stream::<{ metrics::SET }>,
        http_filter_record_histogram_value: metrics::tell_by_stream::<{ metrics::OTHER }>,
        get_runtime_number: Some(config::get_runtime_number),
        http_get_metadata_list_size: None,
        http_get_metadata_list_string: None,
        http_filter_config_increment_counter: Some(metrics::tell::<{ metrics::OTHER }>),
        http_filter_config_increment_gauge: Some(metrics::tell::<{ metrics::ADD }>),
        http_filter_config_decrement_gauge: Some(metrics::tell::<{ metrics::SUBTRACT }>),
        http_filter_config_set_gauge: Some(metrics::tell::<{ metrics::SET }>),
        http_filter_config_record_histogram_value: Some(metrics::tell::<{ metrics::OTHER }>),
        http_filter_config_generic_secret_subscribe: Some(config::secret_subscribe),
        http_filter_config_get_generic_secret: Some(config::get_secret),
        upstream_http_tcp_bridge_get_request_buffer_chunks_size: Some(bridges::request_chunks),
        upstream_http_tcp_bridge_get_request_buffer: Some(bridges::request),
        upstream_http_tcp_bridge_get_response_buffer_chunks_size: Some(bridges::reply_chunks),
        upstream_http_tcp_bridge_get_response_buffer: Some(bridges::reply),
        upstream_http_tcp_bridge_send_upstream_data: Some(bridges::send),
        upstream_http_tcp_bridge_send_response: Some(bridges::answer),
    }
}

unsafe extern "C" fn log(level: u32, line: Bytes, file: Bytes, _: u32) {
    // SAFETY: the module lends the name.
    if unsafe { copy(file) }.is_empty() {
        with(|world| world.mistake("a line of the log names no file"));
    }
    if level == log_level::CRITICAL {
        // SAFETY: the module lends the line.
        let line = unsafe { copy(line) };
        with(|world| world.mistake(String::from_utf8_lossy(&line)));
    }
}

unsafe extern "C" fn log_enabled(_: u32) -> bool {
    true
}

unsafe extern "C" fn is_validation_mode() -> bool {
    with(|world| world.check_main("is_validation_mode"));
    false
}

unsafe extern "C" fn get_concurrency() -> u32 {
    with(|world| world.check_main("get_concurrency"));
    super::world::WORKERS as u32
}

unsafe extern "C" fn http_get_header(
    stream: Pointer,
    map: u32,
    name: Bytes,
    value: *mut Bytes,
    index: usize,
    count: *mut usize,
) -> bool {
    flow::interrupt();
    // SAFETY: the module lends the name.
    let name = unsafe { copy(name) };
    let lines: Vec<Vec<u8>> = with(|world| {
        let stream = world.stream(stream, "get_header")?;
        let headers = if map == header_map::REQUEST { &stream.request } else { &stream.response };
        Some(headers.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.clone()).collect())
    })
    .unwrap_or_default();
    // SAFETY: the module has room for a number and a value.
    unsafe {
        *count = lines.len();
        lend(value, lines.get(index).cloned())
    }
}

unsafe fn change(stream: Pointer, map: u32, name: Bytes, value: Bytes, replaces: bool) -> bool {
    let is_none = value.start.is_null();
    // SAFETY: the module lends both texts.
    let (name, value) = unsafe { (copy(name), copy(value)) };
    with(|world| {
        let Some(stream) = world.stream(stream, "a change of a header") else { return false };
        let (is_response, has_response) = (map == header_map::RESPONSE, stream.has_response);
        if !is_response {
            // Trailers are none of the simulation's.
            if map == header_map::REQUEST {
                stream.request.retain(|(known, _)| *known != name);
                if !is_none {
                    stream.request.push((name, value));
                }
            }
            return replaces;
        }
        if is_response && has_response {
            stream.response.retain(|(known, _)| !replaces || *known != name);
            stream.response.push((name, value));
        } else {
            world.mistake(format!("a header changes in map {map} before there is one"));
        }
        is_response && has_response
    })
}

unsafe extern "C" fn http_add_header(stream: Pointer, map: u32, name: Bytes, value: Bytes) -> bool {
    // SAFETY: as for this function.
    unsafe { change(stream, map, name, value, false) }
}

unsafe extern "C" fn http_set_header(stream: Pointer, map: u32, name: Bytes, value: Bytes) -> bool {
    // SAFETY: as for this function.
    unsafe { change(stream, map, name, value, true) }
}

unsafe extern "C" fn http_send_response(
    pointer: Pointer,
    status: u32,
    headers: *const Header,
    count: usize,
    body: Bytes,
    details: Bytes,
) {
    // SAFETY: the module lends the headers and both texts.
    let (headers, _) = unsafe { (lines(headers, count), (copy(body), copy(details))) };
    let is_well_formed =
        |(name, _): &(Vec<u8>, Vec<u8>)| !name.is_empty() && name.to_ascii_lowercase() == *name;
    let ends = with(|world| {
        if !(200..600).contains(&status) || !headers.iter().all(is_well_formed) {
            world.mistake(format!("a response with the status {status} and {headers:?}"));
        }
        let stream = world.stream(pointer, "send_response")?;
        let is_wrong = stream.is_answered || stream.has_response;
        let ends = stream.ends_at_once;
        (stream.is_answered, stream.is_held, stream.is_stopped) = (true, false, false);
        if is_wrong {
            world.mistake("a second response");
        }
        Some(ends)
    });
    if ends == Some(true) {
        flow::end(pointer as usize, true);
    }
}

unsafe extern "C" fn http_send_response_headers(
    pointer: Pointer,
    headers: *const Header,
    count: usize,
    ends: bool,
) {
    // SAFETY: the module lends the headers.
    let headers = unsafe { lines(headers, count) };
    let status = headers.iter().find(|(name, _)| name == b":status").map(|(_, value)| value.clone());
    let status = status.and_then(|status| String::from_utf8(status).ok()?.parse().ok());
    if status.is_none() {
        with(|world| world.mistake(format!("a response without a status: {headers:?}")));
    }
    if ends {
        // SAFETY: no header and no text is lent.
        unsafe { http_send_response(pointer, status.unwrap_or(0), null(), 0, Bytes::NONE, Bytes::NONE) };
    }
}

unsafe extern "C" fn http_send_response_data(pointer: Pointer, part: Bytes, ends: bool) {
    // SAFETY: the module lends the bytes.
    _ = unsafe { copy(part) };
    if !ends {
        with(|world| world.mistake("a response in several parts"));
    }
    // SAFETY: no header and no text is lent.
    unsafe { http_send_response(pointer, 200, null(), 0, Bytes::NONE, Bytes::NONE) };
}

/// The chunks of the part that is arriving, if it is of this kind.
fn chunks(stream: Pointer, body: u32) -> Vec<Vec<u8>> {
    with(|world| {
        let chunk = world.stream(stream, "get_body")?.chunk.clone();
        Some(chunk.filter(|(kind, _)| *kind == body).map(|(_, chunks)| chunks).unwrap_or_default())
    })
    .unwrap_or_default()
}

unsafe extern "C" fn http_get_body_size(stream: Pointer, body: u32) -> usize {
    chunks(stream, body).iter().map(Vec::len).sum()
}

unsafe extern "C" fn http_get_body_chunks_size(stream: Pointer, body: u32) -> usize {
    chunks(stream, body).len()
}

unsafe extern "C" fn http_get_body_chunks(stream: Pointer, body: u32, into: *mut Bytes) -> bool {
    for (index, chunk) in chunks(stream, body).into_iter().enumerate() {
        // SAFETY: the module has room for all chunks, as many as Envoy has told it.
        unsafe { lend(into.add(index), Some(chunk)) };
    }
    true
}

unsafe extern "C" fn http_filter_get_attribute_string(stream: Pointer, id: u32, value: *mut Bytes) -> bool {
    flow::interrupt();
    let found = with(|world| {
        let stream = world.stream(stream, "get_attribute")?;
        let header = |name: &[u8]| stream.request.iter().find(|(known, _)| known == name);
        match id {
            attribute::SOURCE_ADDRESS => header(b"x-address").map(|(_, value)| value.clone()),
            attribute::REQUEST_METHOD => header(b":method").map(|(_, value)| value.clone()),
            _ => None,
        }
    });
    // SAFETY: the module has room for a value.
    unsafe { lend(value, found) }
}

unsafe extern "C" fn http_filter_get_attribute_int(stream: Pointer, _: u32, value: *mut u64) -> bool {
    // SAFETY: the module has room for a number.
    unsafe { *value = 7 };
    with(|world| world.stream(stream, "get_attribute").is_some())
}

unsafe extern "C" fn http_filter_get_attribute_bool(stream: Pointer, _: u32, value: *mut bool) -> bool {
    // SAFETY: the module has room for a `bool`.
    unsafe { *value = true };
    with(|world| world.stream(stream, "get_attribute").is_some())
}

unsafe extern "C" fn http_get_metadata_string(
    stream: Pointer,
    _: u32,
    _: Bytes,
    key: Bytes,
    value: *mut Bytes,
) -> bool {
    // SAFETY: the module lends the key.
    let is_text = unsafe { copy(key) } == b"text";
    let found = with(|world| world.stream(stream, "get_metadata").is_some()) && is_text;
    // SAFETY: the module has room for a value.
    unsafe { lend(value, found.then(|| b"gold".to_vec())) }
}

unsafe extern "C" fn http_get_metadata_number(
    stream: Pointer,
    _: u32,
    _: Bytes,
    _: Bytes,
    _: *mut f64,
) -> bool {
    with(|world| _ = world.stream(stream, "get_metadata"));
    false
}

unsafe extern "C" fn http_get_metadata_bool(
    stream: Pointer,
    _: u32,
    _: Bytes,
    _: Bytes,
    _: *mut bool,
) -> bool {
    with(|world| _ = world.stream(stream, "get_metadata"));
    false
}

unsafe extern "C" fn http_get_filter_state_bytes(stream: Pointer, key: Bytes, value: *mut Bytes) -> bool {
    // SAFETY: the module lends the key.
    let key = unsafe { copy(key) };
    let found = with(|world| world.stream(stream, "get_filter_state")?.filter_state.get(&key).cloned());
    // SAFETY: the module has room for a value.
    unsafe { lend(value, found) }
}

unsafe extern "C" fn http_set_filter_state_bytes(stream: Pointer, key: Bytes, value: Bytes) -> bool {
    // SAFETY: the module lends both texts.
    let (key, value) = unsafe { (copy(key), copy(value)) };
    let set = |stream: &mut Stream| _ = stream.filter_state.insert(key, value);
    with(|world| world.stream(stream, "set_filter_state").map(set).is_some())
}

unsafe extern "C" fn http_set_dynamic_metadata_string(stream: Pointer, _: Bytes, _: Bytes, _: Bytes) {
    with(|world| _ = world.stream(stream, "set_dynamic_metadata"));
}

unsafe extern "C" fn http_clear_route_cache(stream: Pointer) {
    with(|world| _ = world.stream(stream, "clear_route_cache"));
}

/// Requests with an even number of headers are traced. A span has the address of its stream.
unsafe extern "C" fn http_get_active_span(stream: Pointer) -> Pointer {
    let headers = with(|world| world.stream(stream, "get_active_span").map(|stream| stream.request.len()));
    if headers.is_some_and(|headers| headers % 2 == 0) { stream } else { null_mut() }
}

unsafe extern "C" fn http_span_set_tag(span: Pointer, key: Bytes, value: Bytes) {
    // SAFETY: the module lends both texts.
    let (key, value) = unsafe { (copy(key), copy(value)) };
    with(|world| {
        let state = [b"wasm.", &*key].concat();
        let stream = world.stream(span, "set_tag")?;
        let is_attribute = stream.filter_state.get(&state) == Some(&value);
        if !is_attribute {
            world.mistake("a tag is no attribute of its stream");
        }
        Some(())
    });
}

unsafe extern "C" fn http_filter_continue_decoding(pointer: Pointer) {
    let is_waiting = with(|world| {
        let stream = world.stream(pointer, "continue_decoding")?;
        let is_waiting = stream.is_held || stream.is_stopped;
        (stream.is_held, stream.is_stopped) = (false, false);
        if !is_waiting {
            world.mistake("a request continues that was not stopped");
        }
        Some(is_waiting)
    });
    if is_waiting == Some(true) {
        flow::continued(pointer as usize);
    }
}

unsafe extern "C" fn get_most_specific_route_config(stream: Pointer) -> *const c_void {
    let route = with(|world| world.stream(stream, "get_route")?.route);
    route.unwrap_or(0) as *const c_void
}

unsafe extern "C" fn http_filter_scheduler_new(stream: Pointer) -> Pointer {
    with(|world| {
        world.stream(stream, "scheduler_new");
        let scheduler = world.address();
        world.schedulers.insert(scheduler, Owner::Stream(stream as usize));
        scheduler as Pointer
    })
}

unsafe extern "C" fn http_filter_config_scheduler_new(config: Pointer) -> Pointer {
    with(|world| {
        world.config(config, "config_scheduler_new");
        let scheduler = world.address();
        world.schedulers.insert(scheduler, Owner::Config(config as usize));
        scheduler as Pointer
    })
}

/// Any thread may call this.
unsafe extern "C" fn scheduler_commit(scheduler: Pointer, _: u64) {
    with(|world| match world.schedulers.get(&(scheduler as usize)) {
        Some(owner) => world.events.push(*owner),
        None => world.mistake("a ring of a scheduler that has gone"),
    });
    rung();
}

/// Any thread may call this.
unsafe extern "C" fn scheduler_delete(scheduler: Pointer) {
    with(|world| {
        if world.schedulers.remove(&(scheduler as usize)).is_none() {
            world.mistake("a scheduler is deleted that has gone");
        }
    });
}
