//! A plugin that follows a document server builds the plugin of another document.

use super::Plugin;
use crate::Host;
use crate::metrics::Ids;
use crate::remote_source::RemoteSource;
use diana_config::Configuration;
use diana_remote_config::{FetchError, ServerReply, Snapshot, Task, Validators};
use std::rc::Rc;

impl<H: Host> Plugin<H> {
    /// Follows the shared head of `source`. Returns the plugin that replaces this one if another
    /// document becomes active.
    pub(crate) fn follow(&self, source: &Rc<RemoteSource<H>>, ids: &Rc<Ids>) -> Option<Plugin<H>> {
        match source.next_task(&self.store, &self.clock)? {
            Task::Activate(snapshot) => self.switch_to(source, snapshot, ids),
            Task::Local { logs } => {
                let local = source.compile_local();
                let next = local.and_then(|local| self.build_successor(source, local, ids)).ok()?;
                source.mark_local(logs);
                Some(next)
            }
        }
    }

    fn switch_to(
        &self,
        source: &Rc<RemoteSource<H>>,
        snapshot: Snapshot,
        ids: &Rc<Ids>,
    ) -> Option<Plugin<H>> {
        let Snapshot { generation, document } = snapshot;
        let compiled = source.compile(&document).inspect_err(|why| source.mark_invalid(generation, why));
        let built = self.build_successor(source, compiled.ok()?, ids);
        let next = built.inspect_err(|why| source.mark_unbuilt(generation, why)).ok()?;
        source.mark_active(generation);
        Some(next)
    }

    fn build_successor(
        &self,
        source: &Rc<RemoteSource<H>>,
        configuration: Configuration,
        ids: &Rc<Ids>,
    ) -> Result<Plugin<H>, String> {
        let mut plugin = Plugin::build(self.host, configuration, Some(self), ids)?;
        plugin.remote = Some(Rc::clone(source));
        Ok(plugin)
    }

    /// Polls the server if it is this worker's turn. Returns the number of the call.
    pub(crate) fn poll(
        &self,
        source: &RemoteSource<H>,
        is_outdated: bool,
    ) -> Option<Result<u32, FetchError>> {
        source.poll(&self.store, &self.clock, is_outdated)
    }

    /// Handles the end of a poll, with or without a reply.
    pub(crate) fn poll_done(
        &self,
        source: &RemoteSource<H>,
        reply: Result<ServerReply, FetchError>,
        validators: Validators,
    ) {
        let entropy = || self.entropy();
        if let Some(poll) = source.poll_done(&self.store, &self.clock, entropy, (reply, validators)) {
            self.metrics.poll(poll);
        }
    }
}
