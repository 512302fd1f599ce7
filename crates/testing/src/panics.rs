//! Panics on demand in the native module, for the test of recovery. Only a module that is built
//! with the feature `test-panics` calls these functions.

use std::cell::Cell;

/// The request header that names a [`Place`].
pub const HEADER: &[u8] = b"x-diana-test-panic";

/// Where the module panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under a lock of the store, in the middle of a decision. Once.
    Swap,
    /// Whenever the request is read.
    Read,
    /// In the next timer's event of this worker. Once.
    Tick,
    /// In the next event of a response on this worker. Once.
    Response,
    /// In the next event of a request's body on this worker. Once.
    Body,
}

thread_local! {
    static ARMED: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Arms the place that the request's [`HEADER`] names.
pub fn arm(header: Option<&[u8]>) {
    let armed = match header {
        Some(b"swap") => Some(Place::Swap),
        Some(b"read") => Some(Place::Read),
        Some(b"tick") => Some(Place::Tick),
        Some(b"response") => Some(Place::Response),
        Some(b"body") => Some(Place::Body),
        // The request asks for no panic. A panic that an earlier request armed for later stays
        // armed.
        _ => ARMED.get().filter(|place| [Place::Tick, Place::Response, Place::Body].contains(place)),
    };
    ARMED.set(armed);
}

/// Panics if this place is armed.
pub fn at(place: Place) {
    if ARMED.get() == Some(place) {
        if place != Place::Read {
            ARMED.set(None);
        }
        panic!("a test wants it");
    }
}
