//! The events of calls to a cluster with the upstream bridge `redis`, each on the thread of its
//! call. Envoy may free a bridge's object while it answers, so each event decides first, and acts
//! when the bridge is no longer borrowed.

use crate::abi::{BridgePtr, Bytes, Exports, envoy};
use crate::bridge::{Action, Bridge, Options};
use crate::guard::{caught, guarded};
use crate::hooks::start;
use diana_limiter::global::CallError;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name in a cluster's configuration.
const NAME: &[u8] = b"redis";

/// A bridge as Envoy keeps it. Envoy may call again while it acts on an event.
type Call = RefCell<Bridge>;

/// The functions of Envoy for bridges; `None` before Envoy 1.39.
#[derive(Clone, Copy)]
struct Functions {
    request_chunks: unsafe extern "C" fn(BridgePtr) -> usize,
    request: unsafe extern "C" fn(BridgePtr, *mut Bytes, *mut usize),
    reply_chunks: unsafe extern "C" fn(BridgePtr) -> usize,
    reply: unsafe extern "C" fn(BridgePtr, *mut Bytes, *mut usize),
    send: unsafe extern "C" fn(BridgePtr, Bytes, bool),
    answer: unsafe extern "C" fn(BridgePtr, u32, *const crate::abi::Header, usize, Bytes),
}

impl Functions {
    fn of(envoy: &Exports) -> Option<Functions> {
        Some(Functions {
            request_chunks: envoy.upstream_http_tcp_bridge_get_request_buffer_chunks_size?,
            request: envoy.upstream_http_tcp_bridge_get_request_buffer?,
            reply_chunks: envoy.upstream_http_tcp_bridge_get_response_buffer_chunks_size?,
            reply: envoy.upstream_http_tcp_bridge_get_response_buffer?,
            send: envoy.upstream_http_tcp_bridge_send_upstream_data?,
            answer: envoy.upstream_http_tcp_bridge_send_response?,
        })
    }

    /// The bytes of the event, copied.
    ///
    /// # Safety
    /// `pointer` is that of the event, and both functions are those of the same buffer.
    unsafe fn bytes(
        chunks: unsafe extern "C" fn(BridgePtr) -> usize,
        read: unsafe extern "C" fn(BridgePtr, *mut Bytes, *mut usize),
        pointer: BridgePtr,
    ) -> Vec<u8> {
        // SAFETY: by the caller's promise.
        let mut count = unsafe { chunks(pointer) };
        let mut slices = vec![Bytes::NONE; count];
        if count > 0 {
            // SAFETY: there is room for as many chunks as Envoy has.
            unsafe { read(pointer, slices.as_mut_ptr(), &mut count) };
        }
        // SAFETY: Envoy lends the chunks until the event ends.
        slices.iter().take(count).map(|slice| unsafe { slice.get() }).collect::<Vec<_>>().concat()
    }

    /// Acts. The bridge may not exist afterwards.
    ///
    /// # Safety
    /// `pointer` is that of the event.
    unsafe fn act(self, pointer: BridgePtr, action: &Action) {
        // SAFETY: by the caller's promise; the bytes live through each call.
        unsafe {
            match action {
                Action::Wait => {}
                Action::Send(bytes) => (self.send)(pointer, Bytes::of(bytes), false),
                Action::Answer(status, body) => (self.answer)(pointer, *status, null(), 0, Bytes::of(body)),
                Action::Refuse(why, body) => {
                    log_refusal(why);
                    // The connection may return to the pool until Redis closes it, where a call on
                    // it fails.
                    (self.send)(pointer, Bytes::NONE, true);
                    (self.answer)(pointer, 200, null(), 0, Bytes::of(body));
                }
                Action::HangUp => (self.send)(pointer, Bytes::NONE, true),
            }
        }
    }
}

/// The reasons of the last minute, each with when it was logged.
static LOGGED: Mutex<Vec<(CallError, Instant)>> = Mutex::new(Vec::new());

/// Logs why a connection ends: each reason once a minute, and at most eight of them, because
/// several clusters may fail for different reasons. The filter sees only a failed call if the
/// connection ends before the answer arrives.
fn log_refusal(why: &CallError) {
    const MINUTE: Duration = Duration::from_secs(60);
    const MOST: usize = 8;
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    logged.retain(|(_, at)| at.elapsed() < MINUTE);
    if logged.len() < MOST && logged.iter().all(|(known, _)| known != why) {
        logged.push((why.clone(), Instant::now()));
        log::warn!("Redis answers `{why}`, so the bridge ends this connection");
    }
}

/// Takes the configuration of a cluster; null refuses it. Envoy asks each worker.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_config_new(
    _: *mut c_void,
    name: Bytes,
    document: Bytes,
) -> *const c_void {
    guarded(null(), || {
        // An older Envoy calls with other arguments, so none of them is read before.
        if start().ok().and_then(Functions::of).is_none() {
            log::error!("the bridge `redis` needs Envoy 1.39 or later");
            return null();
        }
        // SAFETY: Envoy lends both texts until the event ends.
        let (name, document) = unsafe { (name.get(), document.get()) };
        if name != NAME {
            log::error!(
                "`{}` is no bridge of this module, `redis` is",
                String::from_utf8_lossy(name).escape_debug()
            );
            return null();
        }
        match Options::read(document) {
            Ok(options) => Box::into_raw(Box::new(options)).cast_const().cast(),
            Err(why) => {
                log::error!("the configuration of the bridge `redis` is refused: {why}");
                null()
            }
        }
    })
}

/// Forgets the configuration of a cluster. All calls have ended.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_config_destroy(options: *const c_void) {
    guarded((), || {
        if !options.is_null() {
            // SAFETY: this is the box of `config_new`, and Envoy does not use it again.
            drop(unsafe { Box::from_raw(options.cast::<Options>().cast_mut()) });
        }
    });
}

/// Begins a call; null fails it.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_new(
    options: *const c_void,
    _: BridgePtr,
) -> *const c_void {
    guarded(null(), || {
        // SAFETY: Envoy keeps the configuration until all calls have ended.
        let Some(options) = (unsafe { options.cast::<Options>().as_ref() }) else {
            return null();
        };
        Box::into_raw(Box::new(Call::new(Bridge::new(options)))).cast_const().cast()
    })
}

/// Ends a call.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_destroy(call: *const c_void) {
    guarded((), || {
        if !call.is_null() {
            // SAFETY: this is the box of `new`, and Envoy does not use it again. No event borrows
            // the bridge while it calls Envoy.
            drop(unsafe { Box::from_raw(call.cast::<Call>().cast_mut()) });
        }
    });
}

/// Runs an event of a call. A panic fails the call: what the bridge knows may be incomplete.
fn event(pointer: BridgePtr, call: *const c_void, work: impl FnOnce(Functions, &mut Bridge) -> Action) {
    let Some(functions) = envoy().and_then(Functions::of) else { return };
    // SAFETY: Envoy ends the call after its events.
    let call = unsafe { call.cast::<Call>().as_ref() };
    // Nothing borrows the bridge here: no event acts while it borrows it.
    let Some(mut bridge) = call.and_then(|call| call.try_borrow_mut().ok()) else { return };
    let action = caught(|| work(functions, &mut bridge)).unwrap_or_else(|| bridge.hang_up());
    drop(bridge);
    // SAFETY: this is the event.
    guarded((), || unsafe { functions.act(pointer, &action) });
}

/// A call's headers have arrived.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_encode_headers(
    pointer: BridgePtr,
    call: *const c_void,
    ends: bool,
) {
    event(pointer, call, |_, bridge| bridge.on_request(b"", ends));
}

/// A part of a call's body has arrived.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_encode_data(
    pointer: BridgePtr,
    call: *const c_void,
    ends: bool,
) {
    event(pointer, call, |functions, bridge| {
        // SAFETY: this is the event of these bytes.
        let bytes = unsafe { Functions::bytes(functions.request_chunks, functions.request, pointer) };
        bridge.on_request(&bytes, ends)
    });
}

/// A call ends with trailers.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_encode_trailers(
    pointer: BridgePtr,
    call: *const c_void,
) {
    event(pointer, call, |_, bridge| bridge.on_request(b"", true));
}

/// Redis has sent something, or nothing more comes.
#[unsafe(no_mangle)]
pub extern "C" fn envoy_dynamic_module_on_upstream_http_tcp_bridge_on_upstream_data(
    pointer: BridgePtr,
    call: *const c_void,
    ends: bool,
) {
    event(pointer, call, |functions, bridge| {
        // SAFETY: this is the event of these bytes.
        let bytes = unsafe { Functions::bytes(functions.reply_chunks, functions.reply, pointer) };
        bridge.on_reply(&bytes, ends)
    });
}
