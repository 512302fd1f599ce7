//! For tools that count what each rule does: decisions in full, and whom each rule counts.

use super::Worker;
use crate::check::CountedActor;
use crate::policy::{Policy, RuleId};

impl Worker {
    /// Decides about every request in full, from the store alone: without the fast path, cached
    /// refusals and reservations. Then every rule of a limit that applies reports about every
    /// request, also if another rule refuses. For tools that count what each rule does.
    pub fn disable_caches(&mut self) {
        self.disable_fast_path();
        self.disable_reservations();
        self.cache.refusals.is_off = true;
    }

    /// The actor that `rule` counts in the last decision, which has a report of the rule. `None` if
    /// the request lacks the actor and is refused, and if a global store counts the rule.
    ///
    /// ```
    /// # use diana_limiter::cells::store::{Fault, Portable, Rules, Simulated};
    /// # use diana_limiter::request::{Part, Values};
    /// # use diana_limiter::session::{Session, Worker};
    /// # use diana_limiter::time::Time;
    /// let document = br#"{"url": "/", "rules": [
    ///     {"name": "each", "actor": ["user", "ip"], "rpu": 9, "unit": "hour", "cost": 2}
    /// ]}"#;
    /// # let policy = diana_config::compile(document).expect("a valid document").policy;
    /// # let store = Portable::probe(Simulated::new(Rules::Strict))?;
    /// let mut worker = Worker::new(&policy, &[7; 16]);
    /// worker.disable_caches();
    /// let values = Values::default()
    ///     .with(Part::Path, "/")
    ///     .with(Part::Address, "2001:db8:1:2:3::4")
    ///     .with(Part::Header("x-user-id".into()), "ann");
    /// # let request = policy.request(&values);
    /// # let now = || Time::from_ns(1_795_392_000_000_000_000);
    /// let (_, decision) = Session::start(&policy, &mut worker, &store, &request, now);
    /// let rule = decision.reports[0].rule;
    /// let actor = worker.counted_actor(&policy, rule).expect("the rule counts the request");
    /// assert_eq!(actor.values(), ["ann", "2001:db8:1:2::/64"]);
    /// assert_eq!((actor.cost(), actor.source().name()), (2, "actor"));
    /// assert!(actor.has_own_quota());
    /// # Ok::<(), Fault>(())
    /// ```
    #[must_use]
    pub fn counted_actor<'a>(&'a self, policy: &'a Policy, rule: RuleId) -> Option<CountedActor<'a>> {
        self.scratch.counted_actor(policy, rule)
    }
}
