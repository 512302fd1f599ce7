//! The plugins of a VM: creates, configures, replaces and deletes plugins.

use super::{Filter, Plugins};
use crate::Host;
use crate::plugin::Plugin;
use std::rc::Rc;

/// At most this many earlier configurations are kept. Permits held by streams of older
/// configurations expire in the store.
const MAX_RETIRED: usize = 16;

impl<H: Host> Filter<H> {
    /// Creates a context: that of a plugin if `parent` is 0, else that of a stream of the plugin
    /// `parent`.
    pub fn on_context_create(&self, id: u32, parent: u32) {
        if parent != 0 {
            self.end_stream(id);
            self.new_streams.with(|streams| streams.put(id, parent));
        } else if self.plugin(id).is_none() {
            self.plugins.with(|plugins| plugins.push((id, None)));
        }
    }

    /// Configures the plugin `root` with `size` bytes. If the result is `false`, the configuration
    /// is refused, and the host and the plugin keep the previous one.
    pub fn on_configure(&self, root: u32, size: usize) -> bool {
        let known = self.plugin(root);
        if known.is_none() && !self.adopt(root) {
            return false;
        }
        let host = if self.mark.get().is_some() { self.host.without_contexts() } else { self.host };
        let before = known.flatten();
        let Some(plugin) = Plugin::configure(host, size, before.as_deref(), &self.ids) else {
            return false;
        };
        plugin.timer_queue.with(|queue| queue.share_held_streams(&self.held_streams));
        self.activate(root, plugin);
        true
    }

    /// Configures the plugin `root` for a route: the `route`'s document lies over the `listener`'s.
    /// If the documents do not fit together, returns the reason and does not log it.
    pub fn on_configure_route(&self, root: u32, listener: &[u8], route: &[u8]) -> Result<(), String> {
        let before = self.plugin(root).flatten();
        let plugin = Plugin::configure_route(self.host, listener, route, before.as_deref(), &self.ids)?;
        plugin.timer_queue.with(|queue| queue.share_held_streams(&self.held_streams));
        self.activate(root, plugin);
        Ok(())
    }

    /// Handles the deletion of a context: of a stream, or of a plugin with all its waiting streams.
    pub fn on_delete(&self, id: u32) {
        self.new_streams.with(|streams| streams.take(id));
        if self.has_stream(id) {
            return self.end_stream(id);
        }
        let remove = |plugins: &mut Vec<(u32, _)>| {
            let index = plugins.iter().position(|(root, _)| *root == id)?;
            Some(plugins.swap_remove(index))
        };
        if let Some((_, Some(plugin))) = self.plugins.with(remove).flatten() {
            self.polls.with(|polls| polls.retain(|(_, root)| *root != id));
            plugin.retire();
            self.call_stores_and_deliver(&plugin);
            self.retired.with(|retired| retired.retain(|(of, _)| *of != id));
            self.resume_all(&plugin);
            self.forget_calls(&plugin);
            self.show_documents();
        }
    }

    /// Resumes all streams that a deleted plugin holds.
    fn resume_all(&self, plugin: &Plugin<H>) {
        // A request that stops waiting for its global store may then wait for its turn, but no
        // timer fires any more. The next pass resumes these requests. One that waits for its body
        // may wait for both.
        for _ in 0..3 {
            let (all, now) = (plugin.timer_queue.with(|queue| queue.drain()), plugin.clock.monotonic());
            let all = all.unwrap_or_default().into_iter();
            all.for_each(|(id, turn)| _ = self.resume(id, turn, plugin, now));
        }
    }

    /// Replaces the active configuration of the plugin `root`.
    pub(super) fn activate(&self, root: u32, plugin: Plugin<H>) {
        let before = self.plugin(root).flatten();
        plugin.begin_rates();
        self.plugins.with(|plugins| {
            plugins.retain(|(known, _)| *known != root);
            plugins.push((root, Some(Rc::new(plugin))));
        });
        if let Some(before) = before {
            before.retire();
            self.call_stores_and_deliver(&before);
            self.retired.with(|retired| {
                if retired.len() >= MAX_RETIRED {
                    retired.remove(0);
                }
                retired.push((root, before));
            });
        }
        self.show_documents();
        self.wake(root);
    }

    /// The documents of all listeners, by root context; `None` within a plugin's own event. Some
    /// hosts have no gauges, and the documents of routes may be many.
    fn documents(&self) -> Option<Vec<(u32, u64)>> {
        let in_use = |plugins: &mut Plugins<H>| {
            let plugins = plugins.iter().filter_map(|(root, plugin)| Some((*root, plugin.as_ref()?)));
            let shown = plugins.filter(|(_, plugin)| !plugin.is_of_route && plugin.kind.has_all_metrics());
            shown.map(|(root, plugin)| (root, plugin.configuration.fingerprint)).collect()
        };
        self.plugins.with(in_use)
    }

    fn show_documents(&self) {
        let Some(in_use) = self.documents() else { return };
        if self.host.show_documents(&in_use) {
            self.is_live.set(true);
        } else if self.is_live.get() {
            self.ids.show_documents(self.host, &in_use);
        }
    }

    /// Shows the documents at the first event after a configuration.
    pub(super) fn go_live(&self) {
        if !self.is_live.replace(true) {
            self.show_documents();
        }
    }

    /// Arms the timer for the next task of the plugin `root`.
    pub(super) fn wake(&self, root: u32) {
        let Some(plugin) = self.plugin(root).flatten() else {
            return;
        };
        plugin.wake();
        if !self.is_live.get() && plugin.kind.holds_requests() {
            let now = plugin.clock.monotonic();
            plugin.timer_queue.with(|queue| queue.wake_at(now, now));
        }
        if self.watches_plugins() {
            self.look_soon(&plugin);
        }
    }

    /// The plugin of a root context: `None` if the context does not exist, `Some(None)` if it has
    /// no configuration yet.
    pub(super) fn plugin(&self, root: u32) -> Option<Option<Rc<Plugin<H>>>> {
        let find = |plugins: &mut Plugins<H>| {
            plugins.iter().find(|(known, _)| *known == root).map(|(_, plugin)| plugin.clone())
        };
        self.plugins.with(find).flatten()
    }
}
