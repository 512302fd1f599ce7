//! A candidate: a document that also decides about each request, beside the active document. Its
//! decisions change nothing but the canary's counts.

use super::CanaryCounts;
use diana_base::exclusive::Exclusive;
use diana_base::time::Time;
use diana_limiter::cells::Replacement;
use diana_limiter::cells::table::Seed;
use diana_limiter::policy::Policy;
use diana_limiter::session::Worker;
use std::borrow::Cow;

/// A candidate's policy, with its own worker state.
///
/// ```
/// # use diana_base::{map::KeyMap, time::{Span, Time}};
/// # use diana_limiter::actor::{Actors, Scope, ip::ClientIp};
/// # use diana_limiter::algorithm::{Quota, RefuseAll};
/// # use diana_limiter::policy::{
/// #     Cost, Counter, Counters, Draft, DryRun, LimitDraft, Lists, Missing, Policy, RuleDraft,
/// #     Sample,
/// # };
/// # use diana_limiter::request::{Parts, Values};
/// # use diana_limiter::session::{Session, Worker};
/// # use diana_limiter::cells::store::{Portable, Rules, Simulated};
/// # use diana_remote_config::{CanaryStats, Candidate, Comparison};
/// # use std::rc::Rc;
/// # fn policy(refuses_all: bool, dry_run: Option<DryRun>) -> Policy {
/// #     let quota = Quota { rpu: 0, unit: Quota::MIN_UNIT };
/// #     let default = Counter::new(quota, Box::new(RefuseAll));
/// #     let rule = RuleDraft {
/// #         name: "closed".into(),
/// #         actors: Vec::new(),
/// #         missing: Missing::Share,
/// #         enforced: true,
/// #         reject_delay: Span::ZERO,
/// #         cost: Cost::default(),
/// #         counters: Counters { default, overrides: KeyMap::default() },
/// #         plans: Vec::new(),
/// #         global: None,
/// #     };
/// #     let limit = LimitDraft {
/// #         pattern: "/".parse().unwrap(),
/// #         conditions: Vec::new(),
/// #         meaning: String::new(),
/// #         exclusive: false,
/// #         high_priority: false,
/// #         rules: vec![rule],
/// #     };
/// #     let mut parts = Parts::default();
/// #     let ip = ClientIp::compile(None, &mut parts);
/// #     let address = Actors::ip(&mut Scope { parts: &mut parts, ip: &ip });
/// #     let limits = if refuses_all { vec![limit] } else { Vec::new() };
/// #     let (lists, max_actors) = (Lists::default(), 100);
/// #     Draft {
/// #         parts, ip, address, limits, lists, enforced: true, plan: None, max_actors,
/// #         store: None, dry_run,
/// #     }
/// #         .build()
/// # }
/// let store = Portable::probe(Simulated::new(Rules::Lenient)).unwrap();
/// let (seed, now) = ([7; 16], Time::ZERO.after(Span::from_secs(1)));
/// let active = policy(false, None);
/// let mut worker = Worker::new(&active, &seed);
///
/// // `Follower::dry_run` gives these options.
/// let dry_run = DryRun { sample: Sample(100), name: 1, beside: active.meanings() };
/// let refuses_all = policy(true, Some(dry_run));
/// let candidate = Rc::new(Candidate::new(refuses_all, None, (&active, &worker), &seed, now));
///
/// // Both documents decide about a request.
/// let request = Values::default();
/// let mut decision = candidate.decide(&store, &candidate.policy().request(&request), || now);
/// assert_eq!(candidate.refused_by().as_deref(), Some("closed"));
/// _ = Session::start(&active, &mut worker, &store, &active.request(&request), || now);
/// assert_eq!(decision.compare(&active, &worker), Some(Comparison::NewlyRefused));
///
/// // The request ends.
/// decision.settle(false, &store, || now);
/// assert_eq!(candidate.take_counts().stats(), CanaryStats { seen: 1, refused: 1 });
/// ```
#[derive(Debug)]
pub struct Candidate {
    pub(super) policy: Policy,
    pub(super) worker: Exclusive<Worker>,
    /// Whether this is the previously active document, kept beside its successor after a promotion.
    pub(super) is_previous: bool,
    pub(super) counts: Exclusive<CanaryCounts>,
}

impl Candidate {
    /// A candidate with `policy`, a dry run by [`Follower::dry_run`](crate::Follower::dry_run). The
    /// worker `decides` decides under the policy `active`.
    ///
    /// The candidate's actors start from their counts under `active`. If the candidate is the
    /// previous document, `as_active` is that document compiled as the active one. The actors then
    /// start from their counts under `as_active`.
    #[must_use]
    pub fn new(
        policy: Policy,
        as_active: Option<&Policy>,
        (active, decides): (&Policy, &Worker),
        seed: &Seed,
        now: Time,
    ) -> Candidate {
        let mut worker = Worker::new(&policy, seed);
        worker.disable_reservations();
        let before = as_active.map_or_else(|| decides.previous(active), |same| worker.previous(same));
        worker.migrate_from(&policy, &[before], Replacement::Certain, now);
        Candidate {
            policy,
            worker: Exclusive::new(worker),
            is_previous: as_active.is_some(),
            counts: Exclusive::default(),
        }
    }

    /// The candidate's policy, which reads the request.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// For access logs: the names of the rules that refuse in the last decision. `None` for the
    /// previous document, which is no longer a candidate.
    #[must_use]
    pub fn refused_by(&self) -> Option<Cow<'_, str>> {
        let refused_by = |worker: &mut Worker| worker.decision().refused_by(&self.policy);
        if self.is_previous { None } else { self.worker.with(refused_by).flatten() }
    }

    /// Hands over the candidate's policy and worker, to which charges of earlier configurations may
    /// have migrated.
    pub fn with_worker(&self, work: impl FnOnce(&Policy, &Worker)) {
        self.worker.with(|worker| work(&self.policy, worker));
    }

    /// The counts since the last call.
    #[must_use]
    pub fn take_counts(&self) -> CanaryCounts {
        self.counts.with(std::mem::take).unwrap_or_default()
    }
}
