//! The state of streams, from the decision to the end of the stream.

use super::{Filter, Stream};
use crate::Host;
use crate::streams::NumberMap;

impl<H: Host> Filter<H> {
    pub(super) fn is_waiting(&self, id: u32) -> bool {
        self.streams.with(|streams| streams.get_mut(id).is_some_and(|stream| stream.is_waiting)) == Some(true)
    }

    pub(super) fn has_stream(&self, id: u32) -> bool {
        self.streams.with(|streams| streams.get_mut(id).is_some()) == Some(true)
    }

    /// Sets whether a stream waits; `false` if the stream has ended. A stream that stops waiting
    /// has used its turn, so its end does not refund the turn.
    pub(super) fn set_waiting(&self, id: u32, is_waiting: bool) -> bool {
        let set = |streams: &mut NumberMap<Box<Stream<H>>>| {
            let stream = streams.get_mut(id)?;
            stream.is_waiting = is_waiting;
            if !is_waiting {
                stream.session.resume();
            }
            stream.goes_on();
            Some(())
        };
        self.streams.with(set).flatten().is_some()
    }

    /// Settles a stream that has ended: releases its permits, or refunds all its charges if it
    /// waited.
    pub(super) fn end_stream(&self, id: u32) {
        let Some(Some(mut stream)) = self.streams.with(|streams| streams.remove(id)) else {
            return;
        };
        if stream.is_waiting {
            stream.plugin.timer_queue.with(|queue| queue.remove(id));
        }
        if stream.refusal.is_some() {
            stream.plugin.lost_refusal(b"");
        }
        if stream.session.has_charges() {
            stream.plugin.forget(stream.session.ticket());
            stream.responded(None);
            stream.plugin.settle(&mut stream.session, stream.metering.as_deref_mut());
            self.call_stores_and_deliver(&stream.plugin);
        }
    }
}
