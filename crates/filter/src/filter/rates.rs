//! Samples the rates of all plugins of a VM: whichever plugin's timer fires first samples for all,
//! so that a sample has the rules of each.

use super::{Filter, Plugins};
use crate::Host;
use diana_inspect::rates::{self, Series};

impl<H: Host> Filter<H> {
    /// If a sample of the plugin `root` is due, takes it, and publishes the actors that the plugin
    /// has counted.
    pub(super) fn sample_rates(&self, root: u32) {
        let Some(plugin) = self.plugin(root).flatten() else {
            return;
        };
        if let Some(second) = plugin.due_sample() {
            let sampled = rates::sample(&plugin.store, second, || self.series());
            plugin.count_fault(sampled.map(|_| ()));
            plugin.publish_actors();
        }
    }

    #[cold]
    #[inline(never)]
    fn series(&self) -> Vec<Series> {
        let active = |plugins: &mut Plugins<H>| {
            let active = plugins.iter().filter_map(|(_, plugin)| plugin.clone());
            active.filter(|plugin| plugin.has_rates()).collect::<Vec<_>>()
        };
        let active = self.plugins.with(active).unwrap_or_default();
        let mut all: Vec<Series> = Vec::new();
        for series in active.iter().flat_map(|plugin| plugin.series()) {
            // Rules of one name share their counters.
            if !all.iter().any(|known| known.id == series.id) {
                all.push(series);
            }
        }
        all
    }
}
