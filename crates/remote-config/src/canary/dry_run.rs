//! How the compared document is compiled: as a dry run beside the active one.

use crate::follow::Follower;
use diana_limiter::policy::{DryRun, Policy, Sample};

impl Follower {
    /// The options under which the document of the last [`Task::Compare`](crate::Task::Compare) is
    /// compiled, beside the policy `active`. The previous document decides about all requests,
    /// because its successor is active for all of them.
    #[must_use]
    pub fn dry_run(&self, active: &Policy, is_previous: bool) -> DryRun {
        let options = self.options.canary.filter(|_| !is_previous);
        DryRun {
            sample: options.map_or(Sample(100), |canary| canary.sample),
            // Equal in all workers, so that they share the cells of the dry run.
            name: self.comparison,
            beside: active.meanings(),
        }
    }
}
