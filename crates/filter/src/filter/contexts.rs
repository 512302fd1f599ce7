//! Finds the plugin of a stream for hosts that announce no contexts, as an Envoy whose operator has
//! removed those callbacks. A worker's only plugin has every stream; while there are several, as
//! during an update, each has a mark in the host by which its streams are told apart.

use super::{Filter, Plugins};
use crate::Host;
use crate::plugin::Plugin;
use diana_base::time::Span;
use diana_limiter::cells::store::Fault;
use log::error;
use std::rc::Rc;

/// The host's status for a context that does not exist.
const BAD_ARGUMENT: u32 = 2;

/// While there are several plugins, the filter looks this often whether one has ended.
const LOOK_EVERY: Span = Span::from_ms(1_000);

impl<H: Host> Filter<H> {
    /// Takes in a plugin that the host configures without having announced its context. Returns
    /// whether its streams can be told from those of other plugins.
    pub(super) fn adopt(&self, root: u32) -> bool {
        let mark = self.host.mark_plugin(root).ok();
        let is_marked = mark.is_some() && self.mark.get().is_none_or(|known| mark == Some(known));
        if !is_marked {
            error!(
                "configuration refused, this host does not tell to which plugin a request belongs: \
                 allow `proxy_on_context_create` and `proxy_on_delete` in `capability_restriction_config`"
            );
            return false;
        }
        self.mark.set(mark);
        self.forget_ended(root);
        true
    }

    /// The plugin of a new stream. `None` if the host has not announced the stream, or its plugin
    /// has no configuration.
    pub(super) fn plugin_of(&self, id: u32) -> Option<Rc<Plugin<H>>> {
        let Some(mark) = self.mark.get() else {
            let root = self.new_streams.with(|streams| streams.take(id)).flatten()?;
            return self.plugin(root).flatten();
        };
        let only = |plugins: &mut Plugins<H>| match plugins.as_slice() {
            [(_, plugin)] => plugin.clone(),
            _ => None,
        };
        self.plugins.with(only).flatten().or_else(|| self.marked_plugin(id, mark))
    }

    /// The plugin of the stream `id` among several. If the host cannot tell, the newest one
    /// decides: it is likely an update of the others.
    fn marked_plugin(&self, id: u32, mark: u32) -> Option<Rc<Plugin<H>>> {
        self.forget_ended(id);
        let newest = |plugins: &mut Plugins<H>| plugins.last().and_then(|(_, plugin)| plugin.clone());
        let marked = self.host.marked_plugin(mark).and_then(|root| self.plugin(root));
        marked.unwrap_or_else(|| self.plugins.with(newest).flatten())
    }

    /// Whether the end of a plugin would go unnoticed.
    pub(super) fn watches_plugins(&self) -> bool {
        self.mark.get().is_some() && self.plugins.with(|plugins| plugins.len() > 1) == Some(true)
    }

    /// Lets the timer of the plugin `root` fire soon, to look for plugins that have ended.
    pub(super) fn look_soon(&self, plugin: &Plugin<H>) {
        let now = plugin.clock.monotonic();
        plugin.timer_queue.with(|queue| queue.wake_at(now.after(LOOK_EVERY), now));
    }

    /// Deletes plugins whose contexts have ended. `current` is the context of the callback.
    pub(super) fn forget_ended(&self, current: u32) {
        let roots = |plugins: &mut Plugins<H>| plugins.iter().map(|(root, _)| *root).collect::<Vec<_>>();
        let roots = self.plugins.with(roots).unwrap_or_default();
        let has_ended = |root: &u32| {
            *root != current && self.host.set_effective_context(*root) == Err(Fault(BAD_ARGUMENT))
        };
        let ended: Vec<u32> = roots.into_iter().filter(has_ended).collect();
        // If this call fails, the host calls of this callback fail.
        _ = self.host.set_effective_context(current);
        for root in ended {
            self.on_delete(root);
        }
    }
}
