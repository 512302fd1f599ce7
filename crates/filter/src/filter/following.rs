//! Drives plugins that follow a document server: polls the server when a poll is due, and activates
//! the document that the source names.

use super::Filter;
use crate::Host;
use crate::plugin::Plugin;
use crate::remote_source::RemoteSource;
use diana_remote_config::{FetchError, ServerReply, Validators};
use std::rc::Rc;

impl<H: Host> Filter<H> {
    /// Activates another document if the source names one, and polls the server if a poll is due.
    pub(super) fn follow(&self, root: u32, plugin: &Rc<Plugin<H>>) {
        let Some(source) = &plugin.remote else {
            return;
        };
        let now = plugin.clock.monotonic();
        if source.next_task_at().is_some_and(|next| now < next) {
            return;
        }
        self.switch_document(root, plugin, source);
        match plugin.poll(source, self.is_outdated(root, source)) {
            Some(Ok(token)) => {
                // A reply to an earlier poll is ignored: it may be for another configuration.
                self.polls.with(|polls| {
                    polls.retain(|(_, known)| *known != root);
                    polls.push((token, root));
                });
            }
            Some(Err(failure)) => self.poll_done(root, Err(failure), Validators::default()),
            None => {}
        }
    }

    /// Whether a newer plugin follows the same source. A host keeps the older plugin until its last
    /// stream ends, which may take long.
    fn is_outdated(&self, root: u32, source: &RemoteSource<H>) -> bool {
        let is_newer = |(other, plugin): &(u32, Option<Rc<Plugin<H>>>)| {
            let of = plugin.as_ref().and_then(|plugin| plugin.remote.as_ref());
            *other > root && of.is_some_and(|other| other.is_same_source(source))
        };
        self.plugins.with(|plugins| plugins.iter().any(is_newer)) == Some(true)
    }

    fn switch_document(&self, root: u32, plugin: &Rc<Plugin<H>>, source: &Rc<RemoteSource<H>>) {
        if let Some(next) = plugin.follow(source, &self.ids) {
            next.metrics.switched(source.generation());
            self.activate(root, next);
            // Activation may have resumed streams. The call to the server belongs to the plugin's
            // context.
            _ = self.host.set_effective_context(root);
        }
    }

    /// Takes the plugin that made this call to a document server.
    pub(super) fn poller(&self, token: u32) -> Option<u32> {
        let take = |polls: &mut Vec<(u32, u32)>| {
            let index = polls.iter().position(|(known, _)| *known == token)?;
            Some(polls.swap_remove(index).1)
        };
        self.polls.with(take).flatten()
    }

    /// A document server has replied to a plugin's call, or the call has timed out.
    pub(super) fn on_poll_response(&self, root: u32, size: usize) {
        let Some(source) = self.plugin(root).flatten().and_then(|plugin| plugin.remote.clone()) else {
            return;
        };
        let (reply, validators) = source.read_reply(size);
        self.poll_done(root, reply, validators);
    }

    fn poll_done(&self, root: u32, reply: Result<ServerReply, FetchError>, validators: Validators) {
        let Some(plugin) = self.plugin(root).flatten() else {
            return;
        };
        let Some(source) = &plugin.remote else {
            return;
        };
        plugin.poll_done(source, reply, validators);
        self.switch_document(root, &plugin, source);
        self.wake(root);
    }
}
