//! Streams that wait for a store: held while it is asked, and let go when it has answered, or has not in time.
//!
//! It does not know: what is asked, or what an answer says.

use super::{Action, Filter};
use crate::host::proxy_wasm::calls;
use crate::host::proxy_wasm::plugin::{Handled, NextAction, Plugin};
use crate::host::proxy_wasm::timer_queue::Held;
use crate::remote::{CallResult, Completion, Waiter};
use std::rc::Rc;

/// A store's own status for "fine".
const GRPC_OK: u32 = 0;

/// After so many calls those are forgotten that the host has not answered.
const CALLS_PER_CLEANUP: u32 = 1_024;

impl Filter {
    /// Holds the stream whose callback runs until a store has answered.
    pub(super) fn hold_for_query(&self, id: u32, ticket: u32, plugin: &Rc<Plugin>) -> Action {
        let is_held = !plugin.cannot_hold() && plugin.hold(id, plugin.query_deadline(), Held::Query).is_ok();
        plugin.querying.with(|queries| queries.insert(ticket, id));
        if !is_held {
            // Without room or a timer, nothing would resume the request if the host does not.
            return self.give_up_now(id);
        }
        let completions = self.make_calls(plugin);
        plugin.wake();
        if completions.is_empty() {
            return Action::Pause;
        }
        // A call could not even be made; it may have been this one's.
        let (own, others): (Vec<Completion>, Vec<Completion>) =
            completions.into_iter().partition(|completion| completion.waiter == Waiter::Request(ticket));
        self.deliver(plugin, others);
        // What is done to another stream in its place is worse than to wait until it gives up.
        let is_reachable = calls::set_effective_context(id).is_ok();
        let handled = own.into_iter().filter(|_| is_reachable).find_map(|completion| {
            self.advance(id, |plugin, session, is_grpc| plugin.answer(session, &completion, is_grpc))
        });
        match handled {
            Some((plugin, action)) => {
                plugin.timer_queue.with(|queue| queue.remove(id));
                self.update_waiting(id, &action);
                self.perform(id, &plugin, action)
            }
            None => Action::Pause,
        }
    }

    fn give_up_now(&self, id: u32) -> Action {
        match self.advance(id, |plugin, session, is_grpc| plugin.give_up(session, is_grpc, false)) {
            Some((plugin, action)) => {
                self.update_waiting(id, &action);
                self.perform(id, &plugin, action)
            }
            None => Action::Continue,
        }
    }

    /// A stream has waited for stores as long as it does; `false` if the host does not let anything be done about it.
    pub(super) fn give_up(&self, id: u32) -> bool {
        let is_reachable = calls::set_effective_context(id).is_ok();
        if is_reachable
            && let Some((plugin, action)) =
                self.advance(id, |plugin, session, is_grpc| plugin.give_up(session, is_grpc, true))
        {
            self.resume_with(id, &plugin, action);
            // What another store has charged goes back, though nobody else may ask under this configuration.
            self.send_calls(&plugin);
        }
        is_reachable
    }

    /// An HTTP call has been answered, or has not in time.
    pub fn on_http_call_response(&self, token: u32, size: usize) {
        if let Some(root) = self.poller(token) {
            return self.on_poll_response(root, size);
        }
        let Some((plugin, call)) = self.calls.with(|calls| calls.remove(token)).flatten() else {
            return;
        };
        let (status, body) = (calls::call_status(), calls::call_body(size));
        self.call_done(&plugin, call, CallResult::Http { status, body: &body });
    }

    /// A gRPC call has been answered.
    pub fn on_grpc_receive(&self, token: u32, size: usize) {
        let Some((plugin, call)) = self.calls.with(|calls| calls.remove(token)).flatten() else {
            return;
        };
        let message = calls::grpc_message(size);
        self.call_done(&plugin, call, CallResult::Message(&message));
    }

    /// A gRPC call is over; if it has not been answered, it has failed.
    pub fn on_grpc_close(&self, token: u32, status: u32) {
        if let Some((plugin, call)) = self.calls.with(|calls| calls.remove(token)).flatten() {
            let result =
                if status == GRPC_OK { CallResult::Message(&[]) } else { CallResult::Status(status) };
            self.call_done(&plugin, call, result);
        }
    }

    fn call_done(&self, plugin: &Rc<Plugin>, call: u32, result: CallResult) {
        let completions = plugin.call_done(call, result);
        // First of all the next call: others wait for it.
        let more = self.make_calls(plugin);
        self.deliver(plugin, completions);
        self.deliver(plugin, more);
        self.send_calls(plugin);
    }

    /// Makes the calls that are due, and tells streams what could not be asked.
    pub(super) fn send_calls(&self, plugin: &Rc<Plugin>) {
        let completions = self.make_calls(plugin);
        self.deliver(plugin, completions);
        plugin.wake();
    }

    fn make_calls(&self, plugin: &Rc<Plugin>) -> Vec<Completion> {
        let (sent, completions) = plugin.send_calls();
        self.calls.with(|calls| {
            sent.iter().for_each(|sent| calls.insert(sent.token, (Rc::clone(plugin), sent.id)));
            if sent.iter().any(|sent| sent.id.is_multiple_of(CALLS_PER_CLEANUP)) {
                calls.retain(|(of, id)| !Rc::ptr_eq(of, plugin) || plugin.awaits(*id));
            }
        });
        completions
    }

    /// A plugin is gone, and with it its calls: a host answers them no more.
    pub(super) fn forget_calls(&self, plugin: &Plugin) {
        self.calls.with(|calls| calls.retain(|(of, _)| !Rc::ptr_eq(&of.timer_queue, &plugin.timer_queue)));
    }

    /// Tells streams what stores have told, or have not. All are told before one is let go: within that a host may end
    /// others, who then know what they have to give back.
    pub(super) fn deliver(&self, plugin: &Plugin, completions: Vec<Completion>) {
        let conclude = |completion: Completion| {
            let Waiter::Request(ticket) = completion.waiter else {
                return None;
            };
            let id = plugin.querying.with(|queries| queries.get(ticket).copied()).flatten();
            let id = id.filter(|id| calls::set_effective_context(*id).is_ok())?;
            let (plugin, action) =
                self.advance(id, |plugin, session, is_grpc| plugin.answer(session, &completion, is_grpc))?;
            plugin.timer_queue.with(|queue| queue.remove(id));
            Some((id, plugin, action))
        };
        let concluded: Vec<_> = completions.into_iter().filter_map(conclude).collect();
        concluded.into_iter().for_each(|(id, plugin, action)| self.resume_with(id, &plugin, action));
    }

    /// Has something decided about a stream, and keeps what its response will carry.
    fn advance(
        &self,
        id: u32,
        step: impl FnOnce(&Plugin, &mut crate::session::Session, bool) -> Option<Handled>,
    ) -> Option<(Rc<Plugin>, NextAction)> {
        let advance = |streams: &mut super::NumberMap<super::Stream>| {
            let stream = streams.get_mut(id)?;
            let Handled { headers, action } = step(&stream.plugin, &mut stream.session, stream.is_grpc)?;
            stream.plugin.compare(&mut stream.candidate);
            stream.headers = headers;
            Some((Rc::clone(&stream.plugin), action))
        };
        self.streams.with(advance).flatten()
    }

    /// Whether a stream goes on waiting.
    fn update_waiting(&self, id: u32, action: &NextAction) {
        if !matches!(action, NextAction::Hold(..)) {
            self.set_waiting(id, false);
        }
    }

    /// Lets a stream that was held go its way, if it is still there.
    fn resume_with(&self, id: u32, plugin: &Plugin, action: NextAction) {
        if !self.is_waiting(id) {
            return;
        }
        self.update_waiting(id, &action);
        let is_reachable = calls::set_effective_context(id).is_ok() || matches!(action, NextAction::Hold(..));
        let (proceeds, held) = match action {
            NextAction::Reply(reply) if !is_reachable => (false, Held::Refusal(reply)),
            _ if !is_reachable => (false, Held::Request),
            action => match self.perform(id, plugin, action) {
                Action::Pause => (true, Held::Request),
                Action::Continue => (calls::resume_request().is_ok(), Held::Request),
            },
        };
        // A host that does not let it go, though it has not said that it is gone, is asked again.
        if !proceeds && self.set_waiting(id, true) {
            _ = plugin.hold(id, plugin.now(), held);
        }
    }
}
