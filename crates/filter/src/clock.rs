//! The two clocks of the host: the host's clock, which may step, and the monotonic clock for
//! deadlines.

use crate::monotonic::ClockOffset;
use crate::{Host, HostKind};
use diana_base::exclusive::Exclusive;
use diana_base::time::Time;
use diana_limiter::cells::store::Fault;
use std::cell::Cell;

/// The tick of a clock that counts milliseconds.
const TICK_NS: u64 = 1_000_000;

/// Reads both clocks. A clock that cannot be read has a substitute.
#[derive(Debug)]
pub(super) struct Clock<H> {
    host: H,
    kind: HostKind,
    last_now: Cell<Time>,
    offset: Exclusive<ClockOffset>,
}

impl<H: Host> Clock<H> {
    /// Fails if the host's clock cannot be read: there is no earlier reading as a substitute.
    pub(super) fn new(host: H, kind: HostKind) -> Result<Clock<H>, Fault> {
        Ok(Clock { host, kind, last_now: Cell::new(host.now()?), offset: Exclusive::default() })
    }

    /// The host's clock. If the clock cannot be read, this is its last reading.
    #[inline]
    pub(super) fn now(&self) -> Time {
        let mut now = self.host.now().unwrap_or(self.last_now.get());
        if self.kind.counts_ms() {
            let ticks = now.as_ns().saturating_add(TICK_NS / 2) / TICK_NS;
            now = Time::from_ns(ticks.saturating_mul(TICK_NS));
        }
        self.last_now.set(now);
        now
    }

    /// The last reading of the host's clock.
    pub(super) fn last_now(&self) -> Time {
        self.last_now.get()
    }

    /// The clock for deadlines: the monotonic clock, or the host's clock if there is no monotonic
    /// one.
    pub(super) fn monotonic(&self) -> Time {
        self.host.monotonic().unwrap_or_else(|| self.now())
    }

    /// The present reading of the clock for deadlines, and its reading when the host's clock shows
    /// `until`. Later steps of the host's clock do not change the deadline.
    pub(super) fn deadline(&self, until: Time) -> (Time, Time) {
        let (now, monotonic) = (self.now(), self.monotonic());
        let deadline = self.offset.with(|offset| offset.deadline(until, now, monotonic));
        (monotonic, deadline.unwrap_or(monotonic))
    }
}
