//! Streams whose bodies are read before the decision.

use super::{Action, Filter, Stream};
use crate::Host;
use crate::plugin::{Decided, Plugin};
use crate::timer_queue::Held;
use diana_limiter::decide::Outcome;
use diana_limiter::session::Session;
use diana_response::RefusalForm;
use std::mem::take;
use std::rc::Rc;

impl<H: Host> Filter<H> {
    /// Begins to wait for the body of the effective stream, if the decision depends on the body.
    /// Returns whether it does. Without room or a timer, the body counts as unread.
    #[inline(never)]
    pub(super) fn wait_for_body(&self, id: u32, plugin: &Rc<Plugin<H>>) -> bool {
        let Some(body) = plugin.body_reader() else {
            return false;
        };
        if plugin.cannot_hold_for_body() || plugin.hold(id, plugin.body_deadline(), Held::Body).is_err() {
            return false;
        }
        let stream = Stream {
            plugin: Rc::clone(plugin),
            session: Session::default(),
            headers: None,
            is_waiting: true,
            is_complete: false,
            form: RefusalForm::default(),
            refusal: None,
            refusal_number: 0,
            metering: None,
            body: Some(Box::new(body)),
        };
        self.streams.with(|streams| streams.insert(id, Box::new(stream)));
        true
    }

    /// Decides about the effective stream, whose body has ended or cannot be read, in a callback
    /// for its body.
    #[inline(never)]
    pub(super) fn decide_by_body(&self, id: u32) -> Action {
        let take_body = |stream: &mut Box<Stream<H>>| {
            let body = stream.body.take()?;
            Some((Rc::clone(&stream.plugin), body.finish(stream.is_complete)))
        };
        let taken = self.streams.with(|streams| streams.get_mut(id).and_then(take_body)).flatten();
        let Some((plugin, body)) = taken else {
            return Action::of_part(self.is_waiting(id));
        };
        plugin.timer_queue.with(|queue| queue.remove(id));
        let decided = plugin.decide(false, body.as_ref());
        let Some(Decided { session, mut response, form }) = decided else {
            self.set_waiting(id, false);
            return Action::Continue;
        };
        self.streams.with(|streams| {
            if let Some(stream) = streams.get_mut(id) {
                (stream.session, stream.form) = (session, form);
                stream.headers = take(&mut response.headers);
            }
        });
        match response.outcome {
            Outcome::Query(ticket) => self.hold_for_query(id, ticket, &plugin),
            _ => self.carry_out_now(id, &plugin, response),
        }
    }

    /// The body of a stream has not ended in time: it counts as unread. Returns `false` if the host
    /// does not let the filter act on the stream.
    pub(super) fn give_up_body(&self, id: u32) -> bool {
        if self.host.set_effective_context(id).is_err() {
            return false;
        }
        let missed = self.streams.with(|streams| {
            let stream = streams.get_mut(id)?;
            let has_begun = stream.body.as_ref().is_none_or(|body| body.has_begun);
            (!has_begun).then(|| Rc::clone(&stream.plugin))
        });
        if let Some(plugin) = missed.flatten() {
            plugin.missed_body();
        }
        if self.decide_by_body(id) == Action::Continue && self.host.resume_request().is_err() {
            // The next tick tries again.
            let plugin = self.streams.with(|streams| Some(Rc::clone(&streams.get_mut(id)?.plugin))).flatten();
            if let Some(plugin) = plugin.filter(|_| self.set_waiting(id, true)) {
                _ = plugin.hold(id, plugin.now(), Held::Request);
            }
        }
        true
    }
}
