//! Streams that wait for a global store: holds them during the query and resumes them at the reply
//! or the timeout.

use super::{Action, Filter, Stream};
use crate::Host;
use crate::plugin::{Plugin, Response};
use crate::streams::NumberMap;
use crate::timer_queue::Held;
use diana_limiter::global::{CallResult, Completion, Waiter};
use diana_limiter::session::Session;
use diana_response::RefusalForm;
use std::mem::take;
use std::rc::Rc;

/// After this many calls, the filter forgets the calls to which the host has not replied.
const CALLS_PER_CLEANUP: u32 = 1_024;

impl<H: Host> Filter<H> {
    /// Holds the effective stream until a global store replies.
    #[inline(never)]
    pub(super) fn hold_for_query(&self, id: u32, ticket: u32, plugin: &Rc<Plugin<H>>) -> Action {
        let is_held = !plugin.cannot_hold() && plugin.hold(id, plugin.query_deadline(), Held::Query).is_ok();
        plugin.querying.with(|queries| queries.insert(ticket, id));
        if !is_held {
            // Without room or a timer, nothing would resume the request if the host loses the call.
            return self.give_up_now(id);
        }
        let completions = self.call_stores(plugin);
        plugin.wake();
        if completions.is_empty() {
            return Action::Hold;
        }
        // A call could not be made; it may be this stream's call.
        let (own, others): (Vec<Completion>, Vec<Completion>) =
            completions.into_iter().partition(|completion| completion.waiter == Waiter::Request(ticket));
        self.deliver(plugin, others);
        // An action on the wrong stream would be worse than waiting until the timeout.
        let is_reachable = self.host.set_effective_context(id).is_ok();
        let answered = own.into_iter().filter(|_| is_reachable).find_map(|completion| {
            self.advance(id, |plugin, session, form| plugin.answer(session, &completion, form))
        });
        match answered {
            Some((plugin, response)) => {
                plugin.timer_queue.with(|queue| queue.remove(id));
                self.carry_out_now(id, &plugin, response)
            }
            None => Action::Hold,
        }
    }

    fn give_up_now(&self, id: u32) -> Action {
        match self.advance(id, |plugin, session, form| plugin.give_up(session, form, false)) {
            Some((plugin, response)) => self.carry_out_now(id, &plugin, response),
            None => Action::Continue,
        }
    }

    /// Carries out a decision in the callback in which the host would have begun to hold the
    /// stream.
    #[inline(never)]
    pub(super) fn carry_out_now(&self, id: u32, plugin: &Plugin<H>, response: Response<H>) -> Action {
        self.update_waiting(id, &response);
        self.carry_out(id, plugin, response)
    }

    /// Ends a stream's wait for global stores at its timeout; `false` if the host does not let the
    /// filter act on the stream.
    pub(super) fn give_up(&self, id: u32) -> bool {
        let is_reachable = self.host.set_effective_context(id).is_ok();
        if is_reachable
            && let Some((plugin, response)) =
                self.advance(id, |plugin, session, form| plugin.give_up(session, form, true))
        {
            self.resume_with(id, &plugin, response);
            // Sends refunds of other global stores' charges. This configuration may have no other
            // request that would trigger the call.
            self.call_stores_and_deliver(&plugin);
        }
        is_reachable
    }

    /// An HTTP call has a reply, or has timed out.
    pub fn on_http_call_response(&self, token: u32, size: usize) {
        if let Some(root) = self.poller(token) {
            return self.on_poll_response(root, size);
        }
        let Some((plugin, call)) = self.calls.with(|calls| calls.remove(token)).flatten() else {
            return;
        };
        let (status, body) = (self.host.call_status(), self.host.call_body(size));
        self.call_done(&plugin, call, CallResult::Response { status, body: &body });
    }

    fn call_done(&self, plugin: &Rc<Plugin<H>>, call: u32, result: CallResult) {
        let completions = plugin.call_done(call, result);
        // The next call goes first, because other requests wait for it.
        let more = self.call_stores(plugin);
        self.deliver(plugin, completions);
        self.deliver(plugin, more);
        self.call_stores_and_deliver(plugin);
    }

    /// Makes the calls that are due, and delivers the failures of calls that could not be made.
    pub(super) fn call_stores_and_deliver(&self, plugin: &Rc<Plugin<H>>) {
        let completions = self.call_stores(plugin);
        self.deliver(plugin, completions);
        plugin.wake();
    }

    /// Makes the calls that are due, and remembers them until the host reports their replies.
    /// Returns completions for the calls that could not be made.
    fn call_stores(&self, plugin: &Rc<Plugin<H>>) -> Vec<Completion> {
        let (sent, completions) = plugin.make_due_calls();
        self.calls.with(|calls| {
            sent.iter().for_each(|sent| calls.insert(sent.token, (Rc::clone(plugin), sent.id)));
            if sent.iter().any(|sent| sent.id.is_multiple_of(CALLS_PER_CLEANUP)) {
                calls.retain(|(of, id)| !Rc::ptr_eq(of, plugin) || plugin.awaits(*id));
            }
        });
        completions
    }

    /// Forgets the calls of a deleted plugin. The host does not report their replies.
    pub(super) fn forget_calls(&self, plugin: &Plugin<H>) {
        self.calls.with(|calls| calls.retain(|(of, _)| !Rc::ptr_eq(&of.timer_queue, &plugin.timer_queue)));
    }

    /// Delivers completions to the streams that wait for them. All streams are updated before one
    /// is resumed: while one is resumed the host may end others, whose refunds must be known by
    /// then.
    pub(super) fn deliver(&self, plugin: &Plugin<H>, completions: Vec<Completion>) {
        let conclude = |completion: Completion| {
            let Waiter::Request(ticket) = completion.waiter else {
                return None;
            };
            let id = plugin.querying.with(|queries| queries.get(ticket).copied()).flatten();
            let id = id.filter(|id| self.host.set_effective_context(*id).is_ok())?;
            let (plugin, response) =
                self.advance(id, |plugin, session, form| plugin.answer(session, &completion, form))?;
            plugin.timer_queue.with(|queue| queue.remove(id));
            Some((id, plugin, response))
        };
        let concluded: Vec<_> = completions.into_iter().filter_map(conclude).collect();
        concluded.into_iter().for_each(|(id, plugin, response)| self.resume_with(id, &plugin, response));
    }

    /// Runs one step of a stream's session and keeps the headers for its response.
    fn advance(
        &self,
        id: u32,
        step: impl FnOnce(&Plugin<H>, &mut Session, &RefusalForm) -> Option<Response<H>>,
    ) -> Option<(Rc<Plugin<H>>, Response<H>)> {
        let advance = |streams: &mut NumberMap<Box<Stream<H>>>| {
            let stream = streams.get_mut(id)?;
            let mut response = step(&stream.plugin, &mut stream.session, &stream.form)?;
            stream.headers = take(&mut response.headers);
            Some((Rc::clone(&stream.plugin), response))
        };
        self.streams.with(advance).flatten()
    }

    /// Ends a stream's wait unless the response holds the stream again.
    fn update_waiting(&self, id: u32, response: &Response<H>) {
        if !response.is_held() {
            self.set_waiting(id, false);
        }
    }

    /// Carries out a decision for a held stream, if the stream still waits.
    fn resume_with(&self, id: u32, plugin: &Plugin<H>, response: Response<H>) {
        if !self.is_waiting(id) {
            return;
        }
        self.update_waiting(id, &response);
        let is_reachable = self.host.set_effective_context(id).is_ok() || response.is_held();
        let (proceeds, held) = match response.rejection {
            _ if is_reachable => match self.carry_out(id, plugin, response) {
                Action::Stop | Action::Hold | Action::Read => (true, Held::Request),
                Action::Continue => (self.host.resume_request().is_ok(), Held::Request),
            },
            Some(rejection) => (false, Held::Refusal(rejection.reply)),
            None => (false, Held::Request),
        };
        // If the host does not resume the stream and has not reported its end, the next tick tries
        // again.
        if !proceeds && self.set_waiting(id, true) {
            _ = plugin.hold(id, plugin.now(), held);
        }
    }
}
