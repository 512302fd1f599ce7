//! The callbacks by which the filter measures what a request uses; see
//! [`metering`](crate::metering).

use super::{Action, Filter, Stream};
use crate::Host;
use crate::metering::{MeteredValues, Metering};
use diana_limiter::session::Worker;

impl<H: Host> Filter<H> {
    /// A part of the request's body has arrived. `ends`: whether the request ends with it.
    pub fn on_request_body(&self, id: u32, size: usize, ends: bool) -> Action {
        let state = self.streams.with(|streams| {
            let stream = streams.get_mut(id)?;
            stream.body.iter_mut().for_each(|body| body.read(self.host, size));
            stream.meter(|metering, values| {
                if values.request_bytes() {
                    metering.request_body(size);
                }
            });
            if ends {
                stream.is_complete = true;
                stream.goes_on();
            }
            let is_read = stream.body.as_ref().is_some_and(|body| ends || body.is_failed());
            Some((stream.is_waiting, is_read))
        });
        match state.flatten() {
            Some((_, true)) => self.decide_by_body(id),
            Some((is_waiting, false)) => Action::of_part(is_waiting),
            None => Action::Continue,
        }
    }

    /// A part of the response's body passes. `ends`: whether the response ends with it.
    pub fn on_response_body(&self, id: u32, size: usize, ends: bool) -> Action {
        self.streams.with(|streams| {
            streams.get_mut(id)?.meter(|metering, _| {
                metering.response_body(self.host, size);
                if ends {
                    metering.response_ended();
                }
            });
            Some(())
        });
        Action::Continue
    }

    /// The response's trailers have arrived, behind its body.
    pub fn on_response_trailers(&self, id: u32) -> Action {
        self.streams.with(|streams| {
            streams.get_mut(id)?.meter(|metering, _| metering.response_ended());
            Some(())
        });
        Action::Continue
    }
}

impl<H: Host> Stream<H> {
    /// If the stream does not wait and all of the request has come, it now waits for the upstream.
    pub(super) fn goes_on(&mut self) {
        let Stream { plugin, session, is_waiting, is_complete, .. } = self;
        if plugin.metered.latency() && *is_complete && !*is_waiting && session.settles() {
            let now = plugin.clock.monotonic();
            plugin.worker.with(|worker| session.forwarded(worker, now));
        }
    }

    /// The headers of the response have come, with this status, or the stream has ended without
    /// them. While the stream waits, they are the host's own.
    pub(super) fn responded(&mut self, status: Option<u16>) {
        let Stream { plugin, session, is_waiting, .. } = self;
        if plugin.metered.latency() && !*is_waiting {
            let now = plugin.clock.monotonic();
            let respond = |worker: &mut Worker<_>| session.responded(worker, status, now, || plugin.now());
            plugin.worker.with(respond).iter().for_each(|events| plugin.metrics.events(events));
        }
    }

    /// Calls `measure` for a stream that has to be settled, now or after its wait. The flag says
    /// whether the stream waits.
    pub(super) fn meter(&mut self, measure: impl FnOnce(&mut Metering, &MeteredValues)) {
        let Stream { plugin, session, is_waiting, metering, .. } = self;
        if plugin.metered.any() && (*is_waiting || session.settles()) {
            measure(metering.get_or_insert_default(), &plugin.metered);
        }
    }
}
