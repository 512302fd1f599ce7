//! Recovers from a caught panic: the request gets what `on_error` of its rules says, and no request
//! is left waiting.

use crate::abi::headers_status;
use crate::vm::Context;
use crate::vms::{ModuleVm, Stream};
use diana_filter::Action;

/// Decides about a request whose decision panicked. Returns the status of its headers.
pub(super) fn decide(stream: &'static Stream) -> u32 {
    match act(stream) {
        Action::Continue => headers_status::CONTINUE,
        Action::Stop | Action::Hold | Action::Read => headers_status::STOP,
    }
}

/// Ends the waits of all streams of a worker, because the panic may have lost any of them. Runs in
/// an event of the worker.
pub(super) fn release_all(vm: &'static ModuleVm) {
    for id in vm.streams.held() {
        // Envoy may end several streams while it resumes one.
        let Some(stream) = vm.streams.get(id).filter(|stream| stream.has_bell.get()) else {
            continue;
        };
        if act(stream) == Action::Continue && !stream.envoy.get().is_null() {
            // SAFETY: the stream is open, and this is its thread. Envoy may call back; no value is
            // borrowed.
            unsafe { (vm.envoy.http_filter_continue_decoding)(stream.envoy.get()) };
        }
    }
}

/// Drops the filter's state of the stream, and does what `on_error` says. If this panics too, the
/// document decides without the request.
pub(super) fn act(stream: &'static Stream) -> Action {
    let vm = stream.vm;
    let forget = || {
        stream.is_known.set(false);
        vm.end_hold(stream);
        vm.filter().on_delete(stream.id);
    };
    // SAFETY: events of a stream come on the thread where it began, which has the VM.
    vm.caught(|| unsafe { vm.in_turn(|| vm.within(Context::of_stream(stream), forget)) });
    if stream.is_answered.get() || stream.envoy.get().is_null() {
        return Action::Stop;
    }
    let decide = |reads| {
        let decide = || vm.filter().on_panic(stream.root.get(), reads);
        // SAFETY: events of a stream come on the thread where it began, which has the VM.
        vm.caught(|| unsafe { vm.in_turn(|| vm.within(Context::of_stream(stream), decide)) })
    };
    decide(true).or_else(|| decide(false)).unwrap_or(Action::Continue)
}
