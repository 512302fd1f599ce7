//! A value that one caller at a time works on.
//!
//! It does not know: what it is.

use std::cell::RefCell;

/// INVARIANT: nobody works on it while a host call runs from which the host may call back. Those are
/// `proxy_send_local_response` and `proxy_continue_stream`, which may end a stream before they return. During
/// all others a host asks for memory at most.
#[derive(Debug, Default)]
pub(super) struct Exclusive<T>(RefCell<T>);

impl<T> Exclusive<T> {
    pub(super) fn new(value: T) -> Exclusive<T> {
        Exclusive(RefCell::new(value))
    }

    /// What `work` makes of it. `None`, instead of a panic, is for a host that calls back where none may.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_borrow_mut().ok().map(|mut value| work(&mut value))
    }
}
