//! Recovers from a panic, for hosts that contain panics. The request gets what `on_error` of its
//! rules says, as if all stores were down.

use super::{Action, Filter};
use crate::Host;

impl<H: Host> Filter<H> {
    /// Decides about the effective stream `id` of the plugin `root` after a panic in one of its
    /// callbacks, or in a callback that concerned it. `reads`: whether the decision reads the
    /// request, which may panic once more. Call [`Filter::on_delete`] for the stream first.
    pub fn on_panic(&self, root: u32, reads: bool) -> Action {
        let Some(plugin) = self.plugin(root).flatten() else {
            return Action::Continue;
        };
        let reply = plugin.decide_after_panic(reads).and_then(|response| response.rejection);
        reply.map_or(Action::Continue, |rejection| self.send(&rejection.reply))
    }
}
