//! Calls that the module's upstream bridge carries, as Envoy plays them. The simulation records
//! what the bridge does, and what Envoy forbids.

use super::exchange::copy;
use super::flow::event;
use super::hooks::{self, Entry};
use super::world::{Thread, with};
use diana_envoy_module::abi::{BridgePtr, Bytes, Header};
use std::cell::RefCell;
use std::ptr::null_mut;

/// The configuration of a cluster.
pub struct Cluster(Entry);

impl Cluster {
    /// Envoy makes a configuration; `None` if the module refuses it.
    pub fn new(name: &str, document: &str) -> Option<Cluster> {
        // SAFETY: Envoy lends both texts.
        let entry = event(Thread::Worker(0), || unsafe {
            let lend = |text: &str| with(|world| world.lender.lend(text.as_bytes()));
            hooks::bridge_config_new(null_mut(), lend(name), lend(document))
        });
        (!entry.is_null()).then_some(Cluster(entry))
    }

    /// A call begins, on a connection of its own.
    pub fn call(&self) -> Call {
        let state = Box::into_raw(Box::new(RefCell::new(State::default())));
        // SAFETY: the configuration lives, and the call's state does until the call is dropped.
        let entry = event(Thread::Worker(0), || unsafe { hooks::bridge_new(self.0, state.cast()) });
        // SAFETY: nobody else borrows the state.
        unsafe { &*state }.borrow_mut().entry = entry as usize;
        Call(state)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: all calls have ended.
        event(Thread::Worker(0), || unsafe { hooks::bridge_config_destroy(self.0) });
    }
}

/// What a bridge has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The bytes to Redis.
    pub sent: Vec<u8>,
    /// The status and the body of the answer.
    pub answer: Option<(u32, Vec<u8>)>,
    /// Whether it has closed its half of the connection.
    pub hangs_up: bool,
}

#[derive(Default)]
struct State {
    /// The module's pointer, 0 after the end.
    entry: usize,
    /// The chunks of the event.
    request: Vec<Vec<u8>>,
    reply: Vec<Vec<u8>>,
    request_has_ended: bool,
    /// Whether Envoy forgets the bridge while it answers.
    ends_with_answer: bool,
    /// Whether the bytes of events cannot be read: the module panics.
    is_unreadable: bool,
    outcome: Outcome,
}

/// A call. Once the bridge has been forgotten, no event reaches it.
pub struct Call(*mut RefCell<State>);

impl Call {
    fn state<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: the state lives until this is dropped.
        work(&mut unsafe { &*self.0 }.borrow_mut())
    }

    /// Envoy forgets the bridge while the bridge answers.
    pub fn ends_with_answer(&self) {
        self.state(|state| state.ends_with_answer = true);
    }

    /// The bytes of the next events make the module panic.
    #[allow(dead_code, reason = "the fuzzer catches no panics")]
    pub fn set_unreadable(&self, is_unreadable: bool) {
        self.state(|state| state.is_unreadable = is_unreadable);
    }

    /// An event of the bridge, if Envoy still knows the bridge.
    fn event(&self, work: impl FnOnce(BridgePtr, Entry)) {
        let entry = self.state(|state| state.entry);
        if entry != 0 {
            event(Thread::Worker(0), || work(self.0.cast(), entry as Entry));
        }
        self.state(|state| (state.request, state.reply) = Default::default());
    }

    /// The call's headers.
    pub fn headers(&self, ends: bool) {
        self.state(|state| state.request_has_ended |= ends);
        // SAFETY: the bridge lives.
        self.event(|call, entry| unsafe { hooks::bridge_headers(call, entry, ends) });
    }

    /// A part of the call's body, in chunks.
    pub fn request(&self, chunks: &[&[u8]], ends: bool) {
        self.state(|state| {
            state.request = chunks.iter().map(|chunk| chunk.to_vec()).collect();
            state.request_has_ended |= ends;
        });
        // SAFETY: the bridge lives.
        self.event(|call, entry| unsafe { hooks::bridge_data(call, entry, ends) });
    }

    /// The end of a call with trailers.
    pub fn trailers(&self) {
        self.state(|state| state.request_has_ended = true);
        // SAFETY: the bridge lives.
        self.event(|call, entry| unsafe { hooks::bridge_trailers(call, entry) });
    }

    /// Bytes from the connection, in chunks.
    pub fn reply(&self, chunks: &[&[u8]], ends: bool) {
        self.state(|state| state.reply = chunks.iter().map(|chunk| chunk.to_vec()).collect());
        // SAFETY: the bridge lives.
        self.event(|call, entry| unsafe { hooks::bridge_reply(call, entry, ends) });
    }

    pub fn outcome(&self) -> Outcome {
        self.state(|state| state.outcome.clone())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // SAFETY: the state is no longer used after the bridge.
        unsafe {
            end(self.0);
            drop(Box::from_raw(self.0));
        }
    }
}

/// Envoy forgets a bridge.
///
/// # Safety
/// The call's state lives.
unsafe fn end(state: *mut RefCell<State>) {
    // SAFETY: by the caller's promise.
    let entry = std::mem::take(&mut unsafe { &*state }.borrow_mut().entry);
    if entry != 0 {
        // SAFETY: the bridge lives until now.
        event(Thread::Worker(0), || unsafe { hooks::bridge_destroy(entry as Entry) });
    }
}

/// Uses the state of the call, in an event.
///
/// # Safety
/// This is the call of the event.
unsafe fn of<R>(call: BridgePtr, work: impl FnOnce(&mut State) -> R) -> R {
    // SAFETY: by the caller's promise.
    work(&mut unsafe { &*call.cast::<RefCell<State>>() }.borrow_mut())
}

fn count(state: &State, chunks: &[Vec<u8>]) -> usize {
    if state.is_unreadable { usize::MAX } else { chunks.len() }
}

/// Lends chunks to the module.
///
/// # Safety
/// The module has room for all chunks.
unsafe fn lend(chunks: &[Vec<u8>], to: *mut Bytes, count: *mut usize) {
    for (index, chunk) in chunks.iter().enumerate() {
        let lent = with(|world| world.lender.lend(chunk));
        // SAFETY: by the caller's promise.
        unsafe { *to.add(index) = lent };
    }
    // SAFETY: the module has room for a number.
    unsafe { *count = chunks.len() };
}

pub unsafe extern "C" fn request_chunks(call: BridgePtr) -> usize {
    // SAFETY: the module passes its call.
    unsafe { of(call, |state| count(state, &state.request)) }
}

pub unsafe extern "C" fn request(call: BridgePtr, to: *mut Bytes, count: *mut usize) {
    // SAFETY: the module passes its call, and has room for its chunks.
    unsafe { of(call, |state| lend(&state.request, to, count)) }
}

pub unsafe extern "C" fn reply_chunks(call: BridgePtr) -> usize {
    // SAFETY: the module passes its call.
    unsafe { of(call, |state| count(state, &state.reply)) }
}

pub unsafe extern "C" fn reply(call: BridgePtr, to: *mut Bytes, count: *mut usize) {
    // SAFETY: the module passes its call, and has room for its chunks.
    unsafe { of(call, |state| lend(&state.reply, to, count)) }
}

pub unsafe extern "C" fn send(call: BridgePtr, bytes: Bytes, ends: bool) {
    // SAFETY: the module passes its call, and lends the bytes.
    unsafe {
        let bytes = copy(bytes);
        of(call, |state| {
            let is_late = state.outcome.hangs_up && !bytes.is_empty();
            if is_late {
                with(|world| world.mistake("bytes after the connection's end"));
            }
            state.outcome.sent.extend_from_slice(&bytes);
            state.outcome.hangs_up |= ends;
        });
    }
}

pub unsafe extern "C" fn answer(call: BridgePtr, status: u32, _: *const Header, count: usize, body: Bytes) {
    // SAFETY: the module passes its call, and lends the body.
    unsafe {
        let body = copy(body);
        let ends = of(call, |state| {
            let wrong = [
                (state.outcome.answer.is_some(), "a second answer"),
                (!state.request_has_ended, "an answer before the request's end"),
                (state.outcome.hangs_up, "an answer after the connection's end"),
                (count > 0, "headers that are not there"),
            ];
            for (_, what) in wrong.into_iter().filter(|(is_wrong, _)| *is_wrong) {
                with(|world| world.mistake(what));
            }
            state.outcome.answer = Some((status, body));
            state.ends_with_answer
        });
        if ends {
            end(call.cast());
        }
    }
}
