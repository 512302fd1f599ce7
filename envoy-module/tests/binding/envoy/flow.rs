//! How Envoy runs the module: the order of a stream's events, and what happens inside a callback.
//!
//! ```text
//!   new ─► headers ─► body … ─► trailers     a held request gets no event until it continues; what
//!                                            has arrived follows before the callback returns
//!   response headers ─► body … ─► trailers   not for the module's own response
//!   complete ─► destroy                      also inside of a callback that ends the stream
//! ```
//!
//! Source: Envoy's `source/extensions/filters/http/dynamic_modules/filter.cc` and
//! `filter_config.cc`, and `source/common/http/filter_manager.cc`.

use super::hooks;
use super::world::{Owner, Stream, Thread, with};
use diana_envoy_module::abi::{Header, body, body_status, headers_status, trailers_status};
use std::ffi::c_void;

/// No more streams than these begin by calls: one that waits for a store calls the store again.
const MOST_CALLS: usize = 20;

/// A line of headers.
pub type Line = (Vec<u8>, Vec<u8>);

/// Runs an event of a thread.
pub fn event<R>(thread: Thread, work: impl FnOnce() -> R) -> R {
    with(|world| {
        world.threads.push(thread);
        world.lender.begin();
    });
    let before = diana_envoy_module::thread::play(thread.number());
    let result = work();
    _ = diana_envoy_module::thread::play(before);
    with(|world| {
        world.lender.end();
        world.threads.pop();
    });
    result
}

/// The stream's thread and pointers; `None` if the stream has ended.
fn place(stream: usize) -> Option<(Thread, *mut c_void, hooks::Entry)> {
    with(|world| {
        let thread = world.streams.get(&stream)?.thread;
        Some((thread, stream as *mut c_void, world.entry(Owner::Stream(stream))))
    })
}

/// Runs an event of a stream; `None` if the stream has ended.
pub fn on_stream<R>(stream: usize, hook: impl FnOnce(*mut c_void, hooks::Entry) -> R) -> Option<R> {
    let (thread, pointer, entry) = place(stream)?;
    Some(event(thread, || hook(pointer, entry)))
}

fn change<R>(stream: usize, change: impl FnOnce(&mut Stream) -> R) -> Option<R> {
    with(|world| world.streams.get_mut(&stream).map(change))
}

/// Begins a stream, and returns its address.
pub fn begin(stream: Stream) -> usize {
    let (config, thread) = (stream.config, stream.thread);
    let (address, entry) = with(|world| {
        let address = world.address();
        world.streams.insert(address, stream);
        (address, world.entry(Owner::Config(config)))
    });
    // SAFETY: the configuration lives, and so does the stream.
    let entry = event(thread, || unsafe { hooks::stream_new(entry, address as *mut c_void) });
    change(address, |stream| stream.entry = entry as usize);
    if entry.is_null() {
        with(|world| world.mistake("the module refuses a stream"));
    }
    address
}

/// While Envoy makes a call, a stream begins on the main thread if the call's cluster has filters.
pub fn filter_call() {
    let config = with(|world| {
        let known = world.configs.iter().find(|(_, config)| !config.is_removed && !config.is_new);
        known.filter(|_| world.filters_calls && world.streams.len() < MOST_CALLS).map(|(address, _)| *address)
    });
    if let Some(config) = config {
        let own = |(name, value): (&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let request = [(":method", "POST"), (":path", "/"), (":authority", "store")].map(own).to_vec();
        let stream = begin(Stream { config, request, ..Stream::default() });
        request_headers(stream, true);
    }
}

/// The request's headers arrive.
pub fn request_headers(stream: usize, ends: bool) {
    change(stream, |stream| stream.has_request = true);
    // SAFETY: the stream lives.
    let status = on_stream(stream, |pointer, entry| unsafe { hooks::request_headers(pointer, entry, ends) });
    with(|world| {
        let Some(known) = world.streams.get_mut(&stream) else { return };
        let is_wrong = match status {
            Some(headers_status::CONTINUE) => known.is_answered,
            Some(headers_status::STOP) => !known.is_answered,
            Some(headers_status::STOP_ALL_AND_WATERMARK) => {
                known.is_held = true;
                known.is_answered
            }
            _ => true,
        };
        let is_held = known.is_held;
        if is_wrong {
            world.mistake(format!("the request's headers have the status {status:?}"));
        }
        if is_held && !world.schedulers.values().any(|owner| *owner == Owner::Stream(stream)) {
            world.mistake("a request waits without a scheduler");
        }
    });
}

/// More of the request arrives: parts of the body, then the trailers.
pub fn request_more(stream: usize, chunks: Vec<Vec<u8>>, is_trailers: bool) {
    // The last part of a body is often empty.
    let ends = chunks.iter().all(Vec::is_empty);
    let proceeds = change(stream, |stream| {
        if stream.is_held {
            stream.pending += 1;
        }
        let proceeds = stream.has_request && !stream.has_trailers && !stream.is_held && !stream.is_answered;
        stream.has_trailers |= proceeds && is_trailers;
        stream.chunk = (proceeds && !is_trailers).then_some((body::RECEIVED_REQUEST, chunks));
        proceeds
    });
    if proceeds != Some(true) {
        return;
    }
    // SAFETY: the stream lives.
    let status = on_stream(stream, |pointer, entry| unsafe {
        if is_trailers {
            hooks::request_trailers(pointer, entry)
        } else {
            hooks::request_body(pointer, entry, ends)
        }
    });
    let is_stopped = match (status, is_trailers) {
        (Some(trailers_status::CONTINUE), true) | (Some(body_status::CONTINUE), false) => Some(false),
        (Some(trailers_status::STOP), true) | (Some(body_status::STOP_AND_WATERMARK), false) => Some(true),
        _ => None,
    };
    change(stream, |stream| {
        stream.chunk = None;
        stream.is_stopped |= is_stopped == Some(true) && !stream.is_answered;
    });
    if is_stopped.is_none() {
        with(|world| world.mistake(format!("more of a request has the status {status:?}")));
    }
}

/// A held request continues inside the callback: what has arrived follows, and the stream may end.
pub fn continued(stream: usize) {
    let pending = change(stream, |stream| std::mem::take(&mut stream.pending)).unwrap_or(0);
    for _ in 0..pending {
        request_more(stream, vec![b"late".to_vec()], false);
    }
    if change(stream, |stream| stream.ends_at_once) == Some(true) {
        respond(stream, vec![(b":status".to_vec(), b"503".to_vec())], &[b"overflow"], 5);
        end(stream, true);
    }
}

/// The response of the upstream, or one of Envoy's own. Envoy keeps each chunk of the body in
/// slices of `slice` bytes.
pub fn respond(stream: usize, headers: Vec<Line>, chunks: &[&[u8]], slice: usize) {
    let proceeds = change(stream, |stream| {
        let proceeds = !stream.is_answered && !stream.has_response;
        if proceeds {
            (stream.has_response, stream.response) = (true, headers);
        }
        proceeds
    });
    if proceeds != Some(true) {
        return;
    }
    let expect = |what: &str, status: Option<u32>| {
        if status.is_some_and(|status| status != headers_status::CONTINUE) {
            with(|world| world.mistake(format!("{what} of a response have the status {status:?}")));
        }
    };
    // SAFETY: the stream lives.
    expect(
        "the headers",
        on_stream(stream, |pointer, entry| unsafe {
            hooks::response_headers(pointer, entry, chunks.is_empty())
        }),
    );
    for chunk in chunks {
        let parts = chunk.chunks(slice).map(Vec::from).collect();
        change(stream, |stream| stream.chunk = Some((body::RECEIVED_RESPONSE, parts)));
        // SAFETY: the stream lives.
        expect(
            "parts",
            on_stream(stream, |pointer, entry| unsafe { hooks::response_body(pointer, entry, false) }),
        );
        change(stream, |stream| stream.chunk = None);
    }
    if !chunks.is_empty() {
        // SAFETY: the stream lives.
        expect(
            "the trailers",
            on_stream(stream, |pointer, entry| unsafe { hooks::response_trailers(pointer, entry) }),
        );
    }
}

/// The stream ends, with a line in the access log or without.
pub fn end(stream: usize, is_logged: bool) {
    if is_logged {
        // SAFETY: the stream lives.
        on_stream(stream, |pointer, entry| unsafe { hooks::stream_complete(pointer, entry) });
    }
    // SAFETY: the stream lives.
    on_stream(stream, |_, entry| unsafe { hooks::stream_destroy(entry) });
    with(|world| {
        world.streams.remove(&stream);
        if world.schedulers.values().any(|owner| *owner == Owner::Stream(stream)) {
            world.mistake("a scheduler remains of a stream that has ended");
        }
    });
}

/// Delivers an event of a scheduler, unless its stream or configuration has gone.
pub fn deliver(index: usize) {
    let owner = with(|world| (index < world.events.len()).then(|| world.events.remove(index)));
    match owner {
        // SAFETY: the stream lives.
        Some(Owner::Stream(stream)) => {
            on_stream(stream, |pointer, entry| unsafe { hooks::scheduled(pointer, entry, 0) });
        }
        Some(Owner::Config(config)) => {
            // SAFETY: the configuration lives.
            on_config(config, |pointer, entry| unsafe { hooks::config_scheduled(pointer, entry, 0) });
        }
        None => {}
    }
}

/// Runs an event of a configuration on the main thread, unless the configuration has gone.
fn on_config(config: usize, hook: impl FnOnce(*mut c_void, hooks::Entry)) {
    let lives = |world: &mut super::world::World| {
        world.configs.contains_key(&config).then(|| world.entry(Owner::Config(config)))
    };
    if let Some(entry) = with(lives) {
        event(Thread::Main, || hook(config as *mut c_void, entry));
    }
}

/// While a worker reads, the main thread may run an event of its own.
pub fn interrupt() {
    let index = with(|world| {
        let is_worker = matches!(world.threads.last(), Some(Thread::Worker(_)));
        let index = world.events.iter().position(|owner| matches!(owner, Owner::Config(_)))?;
        (is_worker && std::mem::take(&mut world.interrupts)).then_some(index)
    });
    if let Some(index) = index {
        deliver(index);
    }
}

fn lent(lines: &[(&[u8], &[u8])]) -> Vec<Header> {
    let lend = |bytes: &[u8]| with(|world| world.lender.lend(bytes));
    lines.iter().map(|(name, value)| Header { name: lend(name), value: lend(value) }).collect()
}

/// An HTTP call has a reply.
pub fn reply(id: u64, headers: &[(&[u8], &[u8])], body: &[u8]) {
    let Some(call) = with(|world| world.calls.remove(&id)) else { return };
    // SAFETY: the configuration lives, and all bytes are lent.
    on_config(call.config, |pointer, entry| unsafe {
        let (headers, chunk) = (lent(headers), with(|world| world.lender.lend(body)));
        hooks::call_done(pointer, entry, id, 0, headers.as_ptr(), headers.len(), &raw const chunk, 1);
    });
}

/// A call fails.
pub fn fail_call(id: u64) {
    let Some(call) = with(|world| world.calls.remove(&id)) else { return };
    // SAFETY: the configuration lives.
    on_config(call.config, |pointer, entry| unsafe {
        hooks::call_done(pointer, entry, id, 1, std::ptr::null(), 0, std::ptr::null(), 0);
    });
}
