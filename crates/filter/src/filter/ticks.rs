//! The timer: resumes streams at their turns, and lets plugins run their own tasks.

use super::Filter;
use crate::Host;
use crate::access_log;
use crate::plugin::Plugin;
use crate::timer_queue::{Held, Turn};
use diana_base::time::Time;
use std::rc::Rc;

impl<H: Host> Filter<H> {
    /// Runs when the timer of the plugin `root` fires.
    pub fn on_tick(&self, root: u32) {
        let Some(plugin) = self.plugin(root).flatten() else {
            return;
        };
        self.go_live();
        if self.watches_plugins() {
            self.forget_ended(root);
        }
        let now = plugin.clock.monotonic();
        let due = plugin.timer_queue.with(|queue| queue.begin_tick(now)).unwrap_or_default();
        // This runs first because it arms the timer again. A stopped timer might fail to start
        // again.
        self.follow(root, &plugin);
        let completions = plugin.tick(now);
        let touched_streams = !due.is_empty() || !completions.is_empty();
        let stuck: Vec<(u32, Turn<H>)> =
            due.into_iter().filter_map(|(id, turn)| self.resume(id, turn, &plugin, now)).collect();
        self.deliver(&plugin, completions);
        self.call_stores_and_deliver(&plugin);
        let touched_retired = self.tick_retired(root, now);
        if touched_streams || touched_retired {
            // The timer belongs to the plugin's context. If this call fails, the timer keeps its
            // period.
            _ = self.host.set_effective_context(root);
        }
        self.sample_rates(root);
        let abandoned = plugin.timer_queue.with(|queue| queue.finish_tick(stuck, now));
        self.wake(root);
        abandoned.unwrap_or_default().into_iter().for_each(|id| self.end_stream(id));
    }

    /// Resumes a stream whose turn has come. Returns the stream if the host does not resume it and
    /// has not reported its end.
    pub(super) fn resume(
        &self,
        id: u32,
        turn: Turn<H>,
        plugin: &Plugin<H>,
        now: Time,
    ) -> Option<(u32, Turn<H>)> {
        if let Held::Query = turn.held {
            let is_stuck = !self.give_up(id) && self.is_waiting(id);
            return is_stuck.then_some((id, turn));
        }
        if let Held::Body = turn.held {
            let is_stuck = !self.give_up_body(id) && self.is_waiting(id);
            return is_stuck.then_some((id, turn));
        }
        // The state changes before the host call, because the host may end the stream before the
        // call returns.
        if !self.set_waiting(id, false) {
            return None;
        }
        let send = |reply: &H::LocalReply| self.host.send(reply).is_ok();
        let resume = || {
            let waited = now.since(turn.since);
            access_log::set_waited(self.host, waited);
            let is_resumed = self.host.resume_request().is_ok();
            if is_resumed {
                plugin.metrics.waited(waited);
            }
            is_resumed
        };
        let is_released = self.host.set_effective_context(id).is_ok()
            && match &turn.held {
                Held::Request => resume(),
                Held::Refusal(reply) if send(reply) => true,
                // If the reply cannot be sent, the host must not keep the request.
                Held::Refusal(_) | Held::Query | Held::Body => self.host.resume_request().is_ok(),
            };
        (!is_released && self.set_waiting(id, true)).then_some((id, turn))
    }

    /// Lets earlier configurations of the plugin send their reports to stores. Returns whether the
    /// effective context may be a stream now.
    fn tick_retired(&self, root: u32, now: Time) -> bool {
        self.retired.with(|retired| retired.retain(|(_, plugin)| !plugin.is_done()));
        let of = |retired: &mut Vec<(u32, Rc<Plugin<H>>)>| {
            let own = retired.iter().filter(|(of, _)| *of == root);
            own.map(|(_, plugin)| Rc::clone(plugin)).collect::<Vec<_>>()
        };
        let retired = self.retired.with(of).unwrap_or_default();
        for plugin in &retired {
            let completions = plugin.tick(now);
            self.deliver(plugin, completions);
            self.call_stores_and_deliver(plugin);
        }
        !retired.is_empty()
    }
}
