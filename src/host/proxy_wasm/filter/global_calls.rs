//! Streams that wait for a store: held while it is asked, and let go when it has answered, or has not in time.
//!
//! It does not know: what is asked, or what an answer says.

use super::{Action, Filter};
use crate::host::proxy_wasm::calls;
use crate::host::proxy_wasm::plugin::{Handled, NextAction, Plugin};
use crate::host::proxy_wasm::timer_queue::Parked;
use crate::remote::{CallResult, Completion, Waiter};
use std::rc::Rc;

/// A store's own status for "fine".
const GRPC_OK: u32 = 0;

/// After so many calls those are forgotten that the host has not answered.
const FORGETS: u32 = 1_024;

impl Filter {
    /// Holds the stream whose callback runs until a store has answered.
    pub(super) fn ask(&self, id: u32, ticket: u32, gateway: &Rc<Plugin>) -> Action {
        let is_held = !gateway.cannot_hold() && gateway.park(id, gateway.patience(), Parked::Query).is_ok();
        gateway.querying.with(|asking| asking.insert(ticket, id));
        if !is_held {
            // Without room or a timer, nothing would resume the request if the host does not.
            return self.give_up_now(id);
        }
        let news = self.make_calls(gateway);
        gateway.wake();
        if news.is_empty() {
            return Action::Pause;
        }
        // A call could not even be made; it may have been this one's.
        let (own, others): (Vec<Completion>, Vec<Completion>) =
            news.into_iter().partition(|news| news.waiter == Waiter::Request(ticket));
        self.spread(gateway, others);
        // What is done to another stream in its place is worse than to wait until it gives up.
        let reaches = calls::set_effective_context(id).is_ok();
        let judged = own.into_iter().filter(|_| reaches).find_map(|news| {
            self.judge(id, |gateway, session, is_grpc| gateway.answer(session, &news, is_grpc))
        });
        match judged {
            Some((gateway, next)) => {
                gateway.timer_queue.with(|waiting| waiting.leave(id));
                self.settle_on(id, &next);
                self.act(id, &gateway, next)
            }
            None => Action::Pause,
        }
    }

    fn give_up_now(&self, id: u32) -> Action {
        match self.judge(id, |gateway, session, is_grpc| gateway.give_up(session, is_grpc, false)) {
            Some((gateway, next)) => {
                self.settle_on(id, &next);
                self.act(id, &gateway, next)
            }
            None => Action::Continue,
        }
    }

    /// A stream has waited for stores as long as it does; `false` if the host does not let anything be done about it.
    pub(super) fn give_up(&self, id: u32) -> bool {
        let reaches = calls::set_effective_context(id).is_ok();
        if reaches
            && let Some((gateway, next)) =
                self.judge(id, |gateway, session, is_grpc| gateway.give_up(session, is_grpc, true))
        {
            self.proceed(id, &gateway, next);
            // What another store has charged goes back, though nobody else may ask under this configuration.
            self.exchange(&gateway);
        }
        reaches
    }

    /// An HTTP call has been answered, or has not in time.
    pub fn on_http_call_response(&self, token: u32, size: usize) {
        if let Some(root) = self.poller(token) {
            return self.polled(root, size);
        }
        let Some((gateway, call)) = self.calls.with(|calls| calls.remove(token)).flatten() else {
            return;
        };
        let (status, body) = (calls::call_status(), calls::call_body(size));
        self.answered(&gateway, call, CallResult::Http { status, body: &body });
    }

    /// A gRPC call has been answered.
    pub fn on_grpc_receive(&self, token: u32, size: usize) {
        let Some((gateway, call)) = self.calls.with(|calls| calls.remove(token)).flatten() else {
            return;
        };
        let message = calls::grpc_message(size);
        self.answered(&gateway, call, CallResult::Message(&message));
    }

    /// A gRPC call is over; if it has not been answered, it has failed.
    pub fn on_grpc_close(&self, token: u32, status: u32) {
        if let Some((gateway, call)) = self.calls.with(|calls| calls.remove(token)).flatten() {
            let answer =
                if status == GRPC_OK { CallResult::Message(&[]) } else { CallResult::Status(status) };
            self.answered(&gateway, call, answer);
        }
    }

    fn answered(&self, gateway: &Rc<Plugin>, call: u32, answer: CallResult) {
        let news = gateway.call_done(call, answer);
        // First of all the next call: others wait for it.
        let more = self.make_calls(gateway);
        self.spread(gateway, news);
        self.spread(gateway, more);
        self.exchange(gateway);
    }

    /// Makes the calls that are due, and tells streams what could not be asked.
    pub(super) fn exchange(&self, gateway: &Rc<Plugin>) {
        let news = self.make_calls(gateway);
        self.spread(gateway, news);
        gateway.wake();
    }

    fn make_calls(&self, gateway: &Rc<Plugin>) -> Vec<Completion> {
        let (made, news) = gateway.exchange();
        self.calls.with(|calls| {
            made.iter().for_each(|made| calls.insert(made.token, (Rc::clone(gateway), made.id)));
            if made.iter().any(|made| made.id.is_multiple_of(FORGETS)) {
                calls.retain(|(of, id)| !Rc::ptr_eq(of, gateway) || gateway.awaits(*id));
            }
        });
        news
    }

    /// A plugin is gone, and with it its calls: a host answers them no more.
    pub(super) fn hang_up(&self, gateway: &Plugin) {
        self.calls.with(|calls| calls.retain(|(of, _)| !Rc::ptr_eq(&of.timer_queue, &gateway.timer_queue)));
    }

    /// Tells streams what stores have told, or have not. All are told before one is let go: within that a host may end
    /// others, who then know what they have to give back.
    pub(super) fn spread(&self, gateway: &Plugin, news: Vec<Completion>) {
        let tell = |news: Completion| {
            let Waiter::Request(ticket) = news.waiter else {
                return None;
            };
            let id = gateway.querying.with(|asking| asking.get(ticket).copied()).flatten();
            let id = id.filter(|id| calls::set_effective_context(*id).is_ok())?;
            let (gateway, next) =
                self.judge(id, |gateway, session, is_grpc| gateway.answer(session, &news, is_grpc))?;
            gateway.timer_queue.with(|waiting| waiting.leave(id));
            Some((id, gateway, next))
        };
        let told: Vec<_> = news.into_iter().filter_map(tell).collect();
        told.into_iter().for_each(|(id, gateway, next)| self.proceed(id, &gateway, next));
    }

    /// Has something decided about a stream, and keeps what its response will carry.
    fn judge(
        &self,
        id: u32,
        how: impl FnOnce(&Plugin, &mut crate::session::Session, bool) -> Option<Handled>,
    ) -> Option<(Rc<Plugin>, NextAction)> {
        let judge = |owed: &mut super::NumberMap<super::Stream>| {
            let owed = owed.get_mut(id)?;
            let Handled { headers, next } = how(&owed.plugin, &mut owed.session, owed.is_grpc)?;
            owed.plugin.compare(&mut owed.candidate);
            owed.headers = headers;
            Some((Rc::clone(&owed.plugin), next))
        };
        self.streams.with(judge).flatten()
    }

    /// Whether a stream goes on waiting.
    fn settle_on(&self, id: u32, next: &NextAction) {
        if !matches!(next, NextAction::Hold(..)) {
            self.wait(id, false);
        }
    }

    /// Lets a stream that was held go its way, if it is still there.
    fn proceed(&self, id: u32, gateway: &Plugin, next: NextAction) {
        if !self.waits(id) {
            return;
        }
        self.settle_on(id, &next);
        let reaches = calls::set_effective_context(id).is_ok() || matches!(next, NextAction::Hold(..));
        let (goes, parked) = match next {
            NextAction::Reply(answer) if !reaches => (false, Parked::Refusal(answer)),
            _ if !reaches => (false, Parked::Request),
            next => match self.act(id, gateway, next) {
                Action::Pause => (true, Parked::Request),
                Action::Continue => (calls::resume_request().is_ok(), Parked::Request),
            },
        };
        // A host that does not let it go, though it has not said that it is gone, is asked again.
        if !goes && self.wait(id, true) {
            _ = gateway.park(id, gateway.now(), parked);
        }
    }
}
