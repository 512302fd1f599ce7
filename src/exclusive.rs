//! A value that one caller at a time works on. A second caller gets nothing, instead of a panic.
//!
//! It does not know: the value. No other file of the library borrows from a `RefCell`; a test checks that.

use std::cell::RefCell;

/// A value that one caller at a time works on.
///
/// INVARIANT: in the host, nobody works on one while a host call runs from which the host may call back. Those are
/// `proxy_send_local_response` and `proxy_continue_stream`, which may end a stream before they return. During all other
/// calls a host asks for memory at most.
#[derive(Debug, Default)]
pub struct Exclusive<T>(RefCell<T>);

impl<T> Exclusive<T> {
    /// Holds a value.
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive(RefCell::new(value))
    }

    /// The result of `work`; `None` if somebody works on the value already, as a host that calls back where it must not.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_borrow_mut().ok().map(|mut value| work(&mut value))
    }

    /// The value itself.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_caller_gets_nothing() {
        let value = Exclusive::new(1);
        let within = value.with(|number| {
            *number += 1;
            value.with(|number| *number += 1)
        });
        assert_eq!((within, value.into_inner()), (Some(None), 2));
    }
}
