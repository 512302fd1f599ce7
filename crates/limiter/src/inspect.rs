//! What a rule has counted for one actor, outside of any request: for operators who look up a
//! customer, or let the customer start anew.
//!
//! A look opens the actor's cell as the next request would, with what this worker holds reserved,
//! and stores nothing. A reset, a grant or the end of a penalty is one more change of the cell, by
//! compare-and-swap. Other workers notice the change after 100 ms at the latest, because they trust
//! neither a reservation nor a refusal for longer.

use crate::actor;
use crate::algorithm::{Allowance, PenaltyParameters};
use crate::cells::store::{Fault, Store};
use crate::cells::{
    Attempt, CellActor, CellCache, CellId, Change, Context, Events, OpenCell, Swapped, peek, swap,
};
use crate::decide::CountedActor;
use crate::global::{GlobalQuery, Inspection, RuleQuery, RuleReply, StoreChange};
use crate::policy::{self, GroupIndex, KeyBuffer, Missing, PlacedQuota, PlanId, Policy, RuleGroup, RuleId};
use crate::session::Worker;
use diana_base::time::{Span, Time};
use std::cell::Cell;

/// A rule and one of its actors.
///
/// ```
/// use diana_limiter::actor::{Header, NamedActor};
/// use diana_limiter::algorithm::BucketOptions;
/// use diana_limiter::cells::store::Memory;
/// use diana_limiter::inspect::Target;
/// use diana_limiter::policy::{Draft, LimitDraft, Quota, RuleDraft};
/// use diana_limiter::request::{Part, Values};
/// use diana_limiter::session::{Session, Worker};
/// use diana_limiter::time::{Span, Time};
/// use std::sync::Arc;
///
/// let mut draft = Draft::default();
/// let user = Header::new("x-user-id", &mut draft.parts)?;
/// let user = NamedActor::new("user", Arc::new(user), &draft.parts);
/// let quota = Quota::token_bucket(3, Span::from_secs(60), BucketOptions::default())?;
/// let rule = RuleDraft::new("per-user", vec![user], quota);
/// draft.limits.push(LimitDraft::new("/".parse()?, vec![rule]));
/// let policy = Arc::new(draft.build());
///
/// let store = Memory::new();
/// let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
/// let now = || Time::from_ns(1_795_392_000_000_000_000);
/// let values = Values::default()
///     .with(Part::Path, "/")
///     .with(Part::Header("x-user-id".into()), "ann");
/// let request = policy.request(&values);
/// Session::start(&mut worker, &request, now);
///
/// let parameter = |name: &str| (name == "rule").then(|| "per-user".to_owned());
/// let actor = |name: &str| (name == "user").then(|| "ann".to_owned());
/// let ann = Target::find(&worker, parameter, actor).expect("a rule and its actor");
/// let count = ann.count(&worker, now)?;
/// assert_eq!((count.used, count.remaining, count.is_refused), (1, 2, false));
///
/// ann.reset(&mut worker, now)?;
/// assert_eq!(ann.count(&worker, now)?.used, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Target {
    rule: RuleId,
    /// Whether a global store counts the rule: the place is then that of a global group.
    is_global: bool,
    place: GroupIndex,
    key: KeyBuffer,
    hash: u64,
    plan: PlanId,
}

/// What a rule has counted for an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorCount {
    /// The quota, as response headers show it.
    pub quota: Allowance,
    /// How many units of the quota are used. Requests of any priority count.
    pub used: u64,
    /// How many units of cost the rule would admit now, without what it leaves for requests of high
    /// priority.
    pub remaining: u64,
    /// The time until `remaining` grows if no request comes; zero if it cannot grow.
    pub more_in: Span,
    /// The time until the actor is like one that never came.
    pub full_in: Span,
    /// The rest of the actor's penalty, under any plan; zero without one.
    pub penalty: Span,
    /// The units that are left of a grant, which `remaining` does not include; 0 without one.
    pub granted: u64,
    /// How long they are valid.
    pub granted_for: Span,
    /// Whether a request that costs one unit would be refused.
    pub is_refused: bool,
}

impl Target {
    /// Finds the rule that `parameter("rule")` names, and its actor, whose values `actor` returns
    /// by their names. `actor("ip")` is a client whose requests lack the actor, if the rule then
    /// counts by address, and `parameter("plan")` names a plan. The error is a message for
    /// people.
    pub fn find(
        worker: &Worker<impl Store>,
        parameter: impl Fn(&str) -> Option<String>,
        actor: impl Fn(&str) -> Option<String>,
    ) -> Result<Target, String> {
        let policy = worker.policy();
        let rule = rule_named(policy, parameter("rule").as_deref())?;
        let (name, found) = (policy.rule_name(rule), policy.rule(rule).ok_or(NOTHING)?);
        let is_global = found.is_global();
        if is_global && found.quota().algorithm().ends_with_request() {
            let why = "` counts the permits of all gateways, each of which tells only its own";
            return Err(["the rule `", name, why].concat());
        }
        let (place, group) = match is_global {
            true => policy.global_group_of(rule).map(|(place, global)| (place, &*global.group)),
            false => policy.group_of(rule),
        }
        .ok_or(NOTHING)?;
        let own = actor::key_of(&group.actors, &actor);
        let key = match (own, actor("ip")) {
            (Ok(value), _) => KeyBuffer::of_value(&value),
            (Err(_), Some(address)) if group.missing == Missing::Ip => {
                KeyBuffer::of_address(&policy.address.actor().parse(&address)?)
            }
            (Err(why), _) => return Err(why),
        };
        let plan = match parameter("plan") {
            Some(plan) => policy.plan_named(&plan).ok_or(["there is no plan `", &plan, "`"].concat())?,
            None => PlanId::default(),
        };
        let hash = worker.hash(key.key());
        Ok(Target { rule, is_global, place, key, hash, plan })
    }

    /// The name of the rule.
    #[must_use]
    pub fn name<'p>(&self, policy: &'p Policy) -> &'p str {
        policy.rule_name(self.rule)
    }

    /// The actor as requests name it.
    #[must_use]
    pub fn actor<'a>(&'a self, policy: &'a Policy) -> Option<CountedActor<'a>> {
        let group = match self.is_global {
            true => &*policy.global_group(self.place)?.group,
            false => policy.group(self.place)?,
        };
        Some(CountedActor::of(group, policy, self.key.key(), self.hash))
    }

    /// Whether a global store counts the rule. Then [`Session::ask`](crate::session::Session::ask)
    /// asks the store, and the other methods are not called.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.is_global
    }

    /// The question to the global store of the rule, and the store's shard.
    pub(crate) fn inspection(
        &self,
        change: StoreChange,
        policy: &Policy,
        now: Time,
    ) -> Option<(usize, GlobalQuery)> {
        debug_assert!(self.is_global, "a rule that this gateway counts");
        let (global, quota) = policy.global_group(self.place).zip(self.stated(policy))?;
        let key = self.key.key();
        let mut quotas = [(self.rule, quota)].into_iter();
        let look = global.idle_queries(policy, key, &mut quotas, (now, false)).into_iter().next()?;
        // The question itself counts toward no penalty.
        let penalty = look.penalty.map(|penalty| PenaltyParameters { after: 0, ..penalty });
        let next =
            RuleQuery { enforced: true, peeks: true, penalty, headroom: quota.headroom(), ..look.clone() };
        let queries = [RuleQuery { penalty: None, ..look }, next];
        let shard = global.shard(policy, key);
        Some((shard, GlobalQuery::Inspect(Box::new(Inspection { change, queries }))))
    }

    /// What the global store has counted, according to its replies. `None` if they answer something
    /// else.
    #[must_use]
    pub fn count_of(&self, policy: &Policy, replies: &[RuleReply]) -> Option<ActorCount> {
        let ([look, next], quota) = (replies, self.stated(policy)?.shown()) else { return None };
        let verdict = next.verdict;
        let [penalty_us, granted, granted_us, ..] = look.charge;
        Some(ActorCount {
            quota,
            used: quota.rpu.saturating_sub(look.verdict.remaining),
            remaining: verdict.remaining.min(quota.rpu),
            more_in: verdict.more_in,
            full_in: verdict.full_in,
            penalty: Span::from_ns(penalty_us.saturating_mul(1_000)),
            granted,
            granted_for: Span::from_ns(granted_us.saturating_mul(1_000)),
            is_refused: !verdict.admits(),
        })
    }

    /// The actor's units that this worker holds reserved, with those that this gateway holds leased
    /// from the rule's global store.
    pub fn reserved(&self, worker: &Worker<impl Store>, clock: impl Fn() -> Time) -> Option<u64> {
        let policy = worker.policy();
        let (context, cells) = worker.inspection(&clock);
        let held = |group: &RuleGroup| {
            let reserved = cells.held(CellId { group: group.id, hash: self.hash })?;
            let place = group.place(self.rule);
            let (_, held) = reserved.reservations.iter().find(|(quota, _)| quota.place == place)?;
            Some(held.charge.cost.saturating_sub(held.spent))
        };
        if !self.is_global {
            return held(policy.group(self.place)?);
        }
        let place = (self.place.0, policy.global_group(self.place)?.leased?);
        let (group, rule) = policy.group(place).zip(policy.rule(self.rule))?;
        let key = self.key.key();
        let stated = group.ids().zip(group.rules(&policy.rules));
        let stated = stated.filter_map(|(id, rule)| Some((id, rule.stated(key, self.plan)?)));
        let entry = peek(group, group.cell(&policy.rules, self.hash, stated), &context).ok()??;
        let quota = group.quota(self.rule, rule, &self.stated(policy)?);
        let (mut cell, now) = (entry.cell(), clock());
        quota.prepare(&mut cell, now);
        Some(quota.reservable(&cell, now).saturating_add(held(group).unwrap_or(0)))
    }

    /// What the rule has counted for the actor.
    pub fn count(&self, worker: &Worker<impl Store>, clock: impl Fn() -> Time) -> Result<ActorCount, Fault> {
        let (context, cells) = worker.inspection(&clock);
        let mut cell = OpenCell::default();
        let judge = self.open(&mut cell, cells, &context, &mut Events::default())?;
        let now = cell.at();
        let cell = cell.bytes_mut();
        let quota = judge.quota.shown_at(now);
        let used = quota.rpu.saturating_sub(judge.step(cell, now, 0).remaining);
        let before = cell.to_vec();
        let verdict = judge.peek(cell, &before, now, judge.quota.headroom());
        let (granted, granted_for) = judge.granted(&before, now);
        let penalizing = self.penalizing(worker.policy()).map(|quota| quota.in_place(judge.place));
        Ok(ActorCount {
            quota,
            used,
            remaining: verdict.remaining,
            more_in: verdict.more_in,
            full_in: verdict.full_in,
            penalty: penalizing.map_or(Span::ZERO, |quota| quota.penalty_rest(&before, now)),
            granted,
            granted_for,
            is_refused: !judge.or_grant(cell, now, 1, verdict).admits(),
        })
    }

    /// Forgets what the rule has counted for the actor under any plan, including a penalty and a
    /// grant. If a charge from before the reset is refunded later, the actor gets it back a second
    /// time, but never has more than the quota.
    pub fn reset(&self, worker: &mut Worker<impl Store>, clock: impl Fn() -> Time) -> Result<Events, Fault> {
        self.edit(worker, clock, &|quota, cell, _| {
            let before = cell.to_vec();
            quota.reset(cell);
            before != cell
        })
    }

    /// Whether the rule has a penalty for this actor, under any plan.
    #[must_use]
    pub fn has_penalty(&self, policy: &Policy) -> bool {
        self.penalizing(policy).is_some()
    }

    fn penalizing<'p>(&self, policy: &'p Policy) -> Option<&'p policy::Quota> {
        policy.rule(self.rule)?.penalizing(self.key.key())
    }

    /// Ends the actor's penalty, whichever plan has it. What the rule has counted stays counted.
    pub fn end_penalty(
        &self,
        worker: &mut Worker<impl Store>,
        clock: impl Fn() -> Time,
    ) -> Result<Events, Fault> {
        let penalizing = self.penalizing(worker.policy()).copied();
        self.edit(worker, clock, &|quota, cell, now| {
            penalizing.is_some_and(|penalizing| penalizing.in_place(quota.place).end_penalty(cell, now))
        })
    }

    /// Whether an actor of the rule can get a grant. A document without `inspect` leaves no room
    /// for grants, and a rule whose charges end with the request has none.
    #[must_use]
    pub fn takes_grants(&self, policy: &Policy) -> bool {
        // A global rule that counts permits is no target.
        let has_room = || policy.group(self.place).is_some_and(|group| group.place(self.rule).has_grant());
        if self.is_global { policy.takes_grants } else { has_room() }
    }

    /// Gives the actor `grant` on top of the quota, in place of an earlier grant. A request that
    /// the quota refuses is charged to the grant, if the grant covers the whole cost.
    pub fn grant(
        &self,
        grant: Grant,
        worker: &mut Worker<impl Store>,
        clock: impl Fn() -> Time,
    ) -> Result<Events, Fault> {
        let Grant { amount, lasts } = grant;
        let granted = Cell::new(false);
        let events = self.edit(worker, clock, &|quota, cell, now| {
            quota.grant(cell, now, amount, lasts);
            granted.set(true);
            true
        })?;
        if granted.get() { Ok(events) } else { Err(Fault(0)) }
    }

    /// Changes the actor's state, unless `how` returns that nothing has changed. An actor without a
    /// cell in a set that is full of refused actors has no state to change.
    fn edit(
        &self,
        worker: &mut Worker<impl Store>,
        clock: impl Fn() -> Time,
        how: &dyn Fn(&PlacedQuota, &mut [u8], Time) -> bool,
    ) -> Result<Events, Fault> {
        let mut events = Events::default();
        let (context, cells) = worker.inspection(&clock);
        let mut edit = Edit { target: self, how, cell: OpenCell::default(), cells, context: &context };
        let swapped = swap(context.store, &mut edit, &mut events);
        match swapped {
            Swapped::Nothing => {}
            Swapped::Done | Swapped::Failed => worker.forget(self.place, self.hash),
        }
        if swapped == Swapped::Failed { Err(Fault(0)) } else { Ok(events) }
    }

    /// The quota that the document states for the actor; the rule's own if the rule does not apply
    /// to the plan.
    fn stated(&self, policy: &Policy) -> Option<policy::Quota> {
        let rule = policy.rule(self.rule)?;
        let (key, nobody) = (self.key.key(), PlanId::default());
        let stated = rule.stated(key, self.plan).or_else(|| rule.stated(key, nobody))?;
        Some(rule.on_first_day(stated))
    }

    /// Opens the actor's cell, and returns the quota that counts the actor.
    fn open(
        &self,
        cell: &mut OpenCell,
        cells: &CellCache,
        context: &Context,
        events: &mut Events,
    ) -> Result<PlacedQuota, Fault> {
        let policy = context.policy;
        let rule = policy.rule(self.rule).zip(self.stated(policy));
        let (group, (rule, stated)) = policy.group(self.place).zip(rule).ok_or(Fault(0))?;
        let quota = group.quota(self.rule, rule, &stated);
        let (place, key) = (self.place, self.key.key());
        let actor = CellActor { group, place, hash: self.hash, key };
        cell.load(group, self.hash, context, events);
        if !cell.open(actor, (context.clock)(), cells, context) {
            return Err(Fault(0));
        }
        let now = cell.at();
        quota.prepare(cell.bytes_mut(), now);
        Ok(quota.at_last_limit(cell.bytes(), rule))
    }
}

const NOTHING: &str = "the rule counts nothing";

/// The rule of this name. The error is a message for people, and lists the rules.
pub fn rule_named(policy: &Policy, name: Option<&str>) -> Result<RuleId, String> {
    let found = policy.rules().find(|(_, rule)| Some(rule.name()) == name);
    if let Some((rule, _)) = found {
        return Ok(rule);
    }
    let mut why = match name {
        Some(name) => ["there is no rule `", name, "`"].concat(),
        None => "which rule? expected `rule=NAME`".into(),
    };
    for (place, (_, rule)) in policy.rules().enumerate() {
        why.push_str(if place == 0 { ": the rules are " } else { ", " });
        why.push_str(rule.name());
    }
    Err(why)
}

/// A question to a global store, which a [`Session`](crate::session::Session) asks.
#[derive(Debug)]
pub struct Question {
    /// The rule and its actor.
    pub target: Target,
    /// What changes before the answer.
    pub change: StoreChange,
}

/// Units for one actor on top of its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Units of cost: 1 to 10⁹.
    pub amount: u64,
    /// How long the units are valid: 1 s to 24 h.
    pub lasts: Span,
}

/// Changes the state of the target.
struct Edit<'a, 'c> {
    target: &'a Target,
    how: &'a dyn Fn(&PlacedQuota, &mut [u8], Time) -> bool,
    cell: OpenCell,
    cells: &'a CellCache,
    context: &'a Context<'c>,
}

impl Change for Edit<'_, '_> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let Edit { target, how, cell, cells, context } = self;
        let Ok(quota) = target.open(cell, cells, context, events) else {
            return Attempt::Fault;
        };
        if cell.set_full().is_some() {
            // The actor has no cell, and so no count.
            return Attempt::Nothing;
        }
        let now = cell.at();
        if !how(&quota, cell.bytes_mut(), now) {
            return Attempt::Nothing;
        }
        let rules = context.policy.group(target.place).map(|group| context.rules_of(group, target.hash));
        rules.map_or(Attempt::Nothing, |rules| cell.entry(rules))
    }
}
