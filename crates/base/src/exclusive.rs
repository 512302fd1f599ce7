//! A value for one caller at a time. A second caller gets `None` instead of a panic. Only this file
//! borrows from a `RefCell`; a test checks that.

use std::cell::RefCell;

/// A value for one caller at a time.
///
/// INVARIANT: in the host, no caller holds such a value during a host call that may call back.
/// These calls are `proxy_send_local_response` and `proxy_continue_stream`, which may end a stream
/// before they return. During all other calls a host at most asks for memory.
///
/// ```
/// use diana_base::exclusive::Exclusive;
///
/// let counter = Exclusive::new(1);
/// let within = counter.with(|count| {
///     *count += 1;
///     // A host that calls back meanwhile gets nothing.
///     counter.with(|count| *count += 1)
/// });
/// assert_eq!(within, Some(None));
/// assert_eq!(counter.into_inner(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Exclusive<T>(RefCell<T>);

impl<T> Exclusive<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Exclusive<T> {
        Exclusive(RefCell::new(value))
    }

    /// The result of `work`. `None` if another caller holds the value, because a host called back
    /// when it must not.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_borrow_mut().ok().map(|mut value| work(&mut value))
    }

    /// Unwraps the value.
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
