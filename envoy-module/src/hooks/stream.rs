//! The events of a stream, on its thread: a worker, or the main thread for requests of Envoy's own.

use super::recovery;
use crate::abi::body;
use crate::abi::{StreamPtr, body_status, headers_status, trailers_status};
use crate::calls::{Reader, StreamBell};
use crate::config::{FilterConfig, can_flush};
use crate::guard::guarded;
use crate::host::Module;
use crate::vm::Context;
use crate::vms::{self, Stream};
use diana_filter::{Action, Filter};
use std::ptr::null;

/// An entry of a stream as Envoy keeps it.
type Entry = *const Stream;

/// Begins a stream. No bug may lead to null, because Envoy would close the connection.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config: *const FilterConfig,
    envoy: StreamPtr,
) -> Entry {
    guarded(null(), || {
        // SAFETY: Envoy keeps the configuration while it has streams.
        let Some(config) = (unsafe { config.as_ref() }) else {
            return null();
        };
        let stream = vms::of_this_thread(config).and_then(|vm| {
            // SAFETY: this thread has the VM.
            unsafe { vm.in_turn(|| vm.streams.open(vm, envoy, config)) }
        });
        stream.map_or(null(), |stream| stream)
    })
}

/// The result of `work` in an event of a stream that the filter knows; `fallback` otherwise, and
/// after a panic: the request has been decided.
fn event<R: Copy>(
    entry: Entry,
    fallback: R,
    work: impl FnOnce(&'static Stream, &'static Filter<Module>) -> R,
) -> R {
    // SAFETY: entries are never freed.
    let Some(stream) = (unsafe { entry.as_ref() }) else {
        return fallback;
    };
    // Most streams have no state. Only the stream's thread sets the mark, so it needs no turn to
    // read the mark.
    if !stream.is_known.get() {
        return fallback;
    }
    let event = || {
        let within = || stream.vm.within(Context::of_stream(stream), || work(stream, stream.vm.filter()));
        // SAFETY: events of a stream come on the thread where it began, which has the VM.
        unsafe { stream.vm.in_turn(within) }
    };
    stream.vm.caught(event).unwrap_or(fallback)
}

/// Decides about a request.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    _: StreamPtr,
    entry: Entry,
    ends: bool,
) -> u32 {
    // SAFETY: entries are never freed.
    let Some(stream) = (unsafe { entry.as_ref() }) else {
        return headers_status::CONTINUE;
    };
    let decided = stream.vm.caught(|| decide(stream, ends));
    decided.unwrap_or_else(|| recovery::decide(stream))
}

fn decide(stream: &'static Stream, ends: bool) -> u32 {
    // SAFETY: Envoy keeps the configuration while the stream lives.
    let Some(config) = (unsafe { stream.config.get().as_ref() }) else {
        return headers_status::CONTINUE;
    };
    let vm = stream.vm;
    #[cfg(feature = "test-panics")]
    {
        use crate::abi::header_map;
        use diana_testing::panics::{HEADER, arm};
        // SAFETY: the stream of an event lives.
        let reader = unsafe { Reader::new(vm.envoy, stream.envoy.get()) };
        arm(reader.header(header_map::REQUEST, HEADER, 0).0);
    }
    let decide = || {
        vm.forget_the_gone();
        let Some(root) = vm.root(config) else {
            return headers_status::CONTINUE;
        };
        stream.root.set(root);
        vm.context.set(Context::of_stream(stream));
        vm.catch_up();
        // A refusal may end the stream before the filter returns.
        stream.is_known.set(true);
        let envoy = stream.envoy.get();
        let (action, has_state) = vm.filter().on_request_of(root, stream.id, ends);
        if stream.envoy.get() != envoy {
            // The stream has ended, and the entry may belong to another stream by now.
            return headers_status::STOP;
        }
        // Envoy 1.38 learns the metrics when streams end.
        stream.is_known.set(has_state || !can_flush(vm.envoy));
        let status = carry_out(stream, action);
        vm.catch_up();
        status
    };
    let in_turn = || {
        stream.root.set(config.root);
        vm.within(Context::of_stream(stream), decide)
    };
    // SAFETY: events of a stream come on the thread where it began, which has the VM.
    unsafe { vm.in_turn(in_turn) }
}

/// Gives a held stream a bell.
fn carry_out(stream: &Stream, action: Action) -> u32 {
    match action {
        Action::Continue => headers_status::CONTINUE,
        Action::Stop => headers_status::STOP,
        Action::Hold | Action::Read if stream.is_answered.get() || stream.envoy.get().is_null() => {
            headers_status::STOP
        }
        Action::Hold | Action::Read => {
            // SAFETY: the stream is open, and this is its thread.
            let bell = unsafe { StreamBell::new(stream.vm.envoy, stream.envoy.get()) };
            stream.has_bell.set(true);
            stream.vm.alarm.add(stream.id, Box::new(bell));
            if action == Action::Read { headers_status::STOP } else { headers_status::STOP_ALL_AND_WATERMARK }
        }
    }
}

/// Runs `work` when a later part of a request arrives, which may end its wait. A panic may end the
/// decision about a request that waits for its body.
fn later_part(entry: Entry, work: impl FnOnce(&'static Stream, &'static Filter<Module>) -> Action) -> Action {
    // SAFETY: entries are never freed.
    let held = (unsafe { entry.as_ref() }).filter(|stream| stream.has_bell.get());
    let action = event(entry, None, |stream, filter| {
        let action = work(stream, filter);
        if action == Action::Continue {
            stream.vm.end_hold(stream);
        }
        Some(action)
    });
    action.or_else(|| held.map(recovery::act)).unwrap_or(Action::Continue)
}

/// A part of the request's body has arrived.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_request_body(
    _: StreamPtr,
    entry: Entry,
    ends: bool,
) -> u32 {
    let action = later_part(entry, |stream, filter| {
        #[cfg(feature = "test-panics")]
        diana_testing::panics::at(diana_testing::panics::Place::Body);
        // SAFETY: the stream of an event lives.
        let reader = unsafe { Reader::new(stream.vm.envoy, stream.envoy.get()) };
        let size = reader.body_size(body::RECEIVED_REQUEST);
        filter.on_request_body(stream.id, size, ends)
    });
    match action {
        Action::Continue => body_status::CONTINUE,
        Action::Stop | Action::Hold | Action::Read => body_status::STOP_AND_WATERMARK,
    }
}

/// The request's trailers have arrived.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_request_trailers(_: StreamPtr, entry: Entry) -> u32 {
    match later_part(entry, |stream, filter| filter.on_request_trailers(stream.id)) {
        Action::Continue => trailers_status::CONTINUE,
        Action::Stop | Action::Hold | Action::Read => trailers_status::STOP,
    }
}

/// Adds headers to the response.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_response_headers(
    _: StreamPtr,
    entry: Entry,
    ends: bool,
) -> u32 {
    event(entry, headers_status::CONTINUE, |stream, filter| {
        #[cfg(feature = "test-panics")]
        diana_testing::panics::at(diana_testing::panics::Place::Response);
        filter.on_response_headers(stream.id, ends);
        headers_status::CONTINUE
    })
}

/// A part of the response's body has arrived.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_response_body(
    _: StreamPtr,
    entry: Entry,
    ends: bool,
) -> u32 {
    event(entry, body_status::CONTINUE, |stream, filter| {
        // SAFETY: the stream of an event lives.
        let reader = unsafe { Reader::new(stream.vm.envoy, stream.envoy.get()) };
        let size = reader.body_size(body::RECEIVED_RESPONSE);
        filter.on_response_body(stream.id, size, ends);
        body_status::CONTINUE
    })
}

/// The response's trailers have arrived.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_response_trailers(_: StreamPtr, entry: Entry) -> u32 {
    event(entry, trailers_status::CONTINUE, |stream, filter| {
        filter.on_response_trailers(stream.id);
        trailers_status::CONTINUE
    })
}

/// A bell of the worker has rung.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(_: StreamPtr, entry: Entry, _event: u64) {
    event(entry, (), |stream, _| {
        if !stream.vm.run_due() {
            recovery::release_all(stream.vm);
        }
    });
}

/// The stream ends, before its line in the access log.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(_: StreamPtr, entry: Entry) {
    end(entry);
}

/// The stream is gone.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_http_filter_destroy(entry: Entry) {
    end(entry);
    // SAFETY: entries are never freed.
    if let Some(stream) = unsafe { entry.as_ref() } {
        // SAFETY: events of a stream come on the thread where it began, which has the VM.
        guarded((), || unsafe { stream.vm.in_turn(|| stream.vm.streams.close(stream)) });
    }
}

/// Settles a stream once.
fn end(entry: Entry) {
    event(entry, (), |stream, filter| {
        stream.is_known.set(false);
        stream.vm.end_hold(stream);
        filter.on_delete(stream.id);
        stream.vm.catch_up();
        stream.vm.flush_at_rest();
    });
}
