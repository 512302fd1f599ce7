//! Plugins whose configuration comes from a server: it is asked when it is time, and what it has takes the place of what
//! served until now.
//!
//! It does not know: what an answer says, or who else asks.

use super::Filter;
use crate::host::proxy_wasm::calls;
use crate::host::proxy_wasm::plugin::Plugin;
use crate::host::proxy_wasm::source::Source;
use crate::remote::source::{FetchError, ServerReply, Validators};
use std::rc::Rc;

impl Filter {
    /// Looks whether something else is to serve, and asks the server if that is due.
    pub(super) fn follow(&self, root: u32, gateway: &Rc<Plugin>) {
        let Some(source) = &gateway.source else {
            return;
        };
        let now = gateway.monotonic();
        if source.next().is_some_and(|next| now < next) {
            return;
        }
        source.judge(gateway);
        self.look(root, gateway, source);
        match source.ask(gateway, self.is_outdated(root, source)) {
            Some(Ok(token)) => {
                // An answer to what was asked before, under another configuration perhaps, is none.
                self.polls.with(|polls| {
                    polls.retain(|(_, known)| *known != root);
                    polls.push((token, root));
                });
            }
            Some(Err(failure)) => self.told(root, Err(failure), Validators::default()),
            None => {}
        }
    }

    /// Whether another plugin has come that follows the same source: a host keeps the one before until its last stream
    /// is over, and that may take long.
    fn is_outdated(&self, root: u32, source: &Source) -> bool {
        let is_newer = |(other, gateway): &(u32, Option<Rc<Plugin>>)| {
            let of = gateway.as_ref().and_then(|gateway| gateway.source.as_ref());
            *other > root && of.is_some_and(|other| other.is(source))
        };
        self.plugins.with(|plugins| plugins.iter().any(is_newer)) == Some(true)
    }

    fn look(&self, root: u32, gateway: &Rc<Plugin>, source: &Rc<Source>) {
        if let Some(next) = source.follow(gateway, &self.ids) {
            next.metrics.switched(source.serves());
            self.serve(root, next);
            // Streams may have been let go by that; a server is asked for the plugin.
            _ = calls::set_effective_context(root);
        }
    }

    /// The plugin that has made this call to a server.
    pub(super) fn poller(&self, token: u32) -> Option<u32> {
        let take = |polls: &mut Vec<(u32, u32)>| {
            let place = polls.iter().position(|(known, _)| *known == token)?;
            Some(polls.swap_remove(place).1)
        };
        self.polls.with(take).flatten()
    }

    /// A server has answered a plugin's call, or has not in time.
    pub(super) fn polled(&self, root: u32, size: usize) {
        let Some(source) = self.plugin(root).flatten().and_then(|gateway| gateway.source.clone()) else {
            return;
        };
        let (answer, marks) = source.read(size);
        self.told(root, answer, marks);
    }

    fn told(&self, root: u32, answer: Result<ServerReply, FetchError>, marks: Validators) {
        let Some(gateway) = self.plugin(root).flatten() else {
            return;
        };
        let Some(source) = &gateway.source else {
            return;
        };
        if let Some(poll) = source.answered(&gateway, answer, marks) {
            gateway.metrics.poll(poll);
        }
        self.look(root, &gateway, source);
        self.wake(root);
    }
}
