//! What a rule has counted for one actor, outside of any request: for operators who look up a
//! customer, or let the customer start anew.
//!
//! A look opens the actor's cell as the next request would, with what this worker holds reserved,
//! and stores nothing. A reset, a grant or the end
//! of a penalty is one more change of the cell, by compare-and-swap. Other workers notice the
//! change after 100 ms at the latest, because they trust neither a reservation nor a refusal for
//! longer.

use crate::actor;
use crate::algorithm::{PenaltyParameters, Quota, Reservation, grant};
use crate::cells::store::{Fault, Store};
use crate::cells::{
    Actor, Attempt, CellId, Change, Context, Events, OpenCell, Reservations, Swapped, peek, swap,
};
use crate::global::{GlobalQuery, Inspection, RuleQuery, RuleReply, StoreChange};
use crate::policy::{
    ActorRules, Counter, GroupIndex, KeyBuffer, Missing, PlanId, Policy, Role, Rule, RuleId,
};
use crate::session::Worker;
use diana_base::time::{Span, Time};
use diana_document::{Errors, Node, Value};
use std::cell::Cell;

/// A rule and one of its actors.
///
/// ```
/// # use diana_limiter::cells::store::{Fault, Memory};
/// # use diana_limiter::request::{Part, Values};
/// # use diana_limiter::time::Time;
/// use diana_limiter::inspect::Target;
/// use diana_limiter::session::{Session, Worker};
///
/// let document = br#"{"url": "/", "rules": [
///     {"name": "per-user", "actor": "user", "rpu": 3, "unit": "minute"}
/// ]}"#;
/// let policy = diana_config::compile(document).expect("a valid document").policy;
/// let store = Memory::new();
/// let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
/// let now = || Time::from_ns(1_795_392_000_000_000_000);
/// let values = Values::default()
///     .with(Part::Path, "/")
///     .with(Part::Header("x-user-id".into()), "ann");
/// let request = policy.request(&values);
/// Session::start(&mut worker, &request, now);
///
/// let parameter = |name: &str| match name {
///     "rule" => Some("per-user".to_owned()),
///     "user" => Some("ann".to_owned()),
///     _ => None,
/// };
/// let ann = Target::find(&worker, parameter).expect("a rule and its actor");
/// let count = ann.count(&worker, now)?;
/// assert_eq!((count.used, count.remaining, count.is_refused), (1, 2, false));
///
/// ann.reset(&mut worker, now)?;
/// assert_eq!(ann.count(&worker, now)?.used, 0);
/// # Ok::<(), Fault>(())
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
    pub quota: Quota,
    /// How many units of the quota are used. Requests of any priority count.
    pub used: u64,
    /// How many units of cost the rule would admit now, without what it leaves for requests of high
    /// priority.
    pub remaining: u64,
    /// The time until `remaining` grows if no request comes; zero if it cannot grow.
    pub more_in: Span,
    /// The time until the actor is like one that never came.
    pub full_in: Span,
    /// The rest of the actor's penalty; zero without one.
    pub penalty: Span,
    /// The units that are left of a grant, which `remaining` does not include; 0 without one.
    pub granted: u64,
    /// How long they are valid.
    pub granted_for: Span,
    /// Whether a request that costs one unit would be refused.
    pub is_refused: bool,
}

impl Target {
    /// Finds the rule that `parameter("rule")` names, and its actor by the name of each of the
    /// rule's actors. `ip` names a client whose requests lack the actor, if the rule then counts by
    /// address, and `plan` names a plan. The error is a message for people.
    pub fn find(
        worker: &Worker<impl Store>,
        parameter: impl Fn(&str) -> Option<String>,
    ) -> Result<Target, String> {
        let policy = worker.policy();
        let name = parameter("rule").ok_or("which rule? expected `rule=NAME`")?;
        let Some((rule, found)) = policy.rules().find(|(_, rule)| rule.name() == name) else {
            return Err(["there is no rule `", &name, "`"].concat());
        };
        let is_global = found.is_global();
        if is_global && found.counter().algorithm.ends_with_request() {
            let why = "` counts the permits of all gateways, each of which tells only its own";
            return Err(["the rule `", &name, why].concat());
        }
        let (place, group) = match is_global {
            true => policy.global_group_of(rule).map(|(place, global)| (place, &*global.group)),
            false => policy.group_of(rule),
        }
        .ok_or("the rule counts nothing")?;
        let own = actor::key_of(&group.actors, &parameter);
        let key = match (own, parameter("ip")) {
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

    /// Whether a global store counts the rule. Then [`Session::ask`](crate::session::Session::ask)
    /// asks the store, and the other methods are not called.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.is_global
    }

    /// The question to the global store of the rule, and the store's shard.
    pub(crate) fn inspection(&self, change: StoreChange, policy: &Policy) -> Option<(usize, GlobalQuery)> {
        debug_assert!(self.is_global, "a rule that this gateway counts");
        let (global, counter) = policy.global_group(self.place).zip(self.counter(policy))?;
        let key = self.key.key();
        let quota = |rule: &Rule| rule.quota_of(key, self.plan).unwrap_or_default();
        let quotas = global.group.own(&policy.rules).iter().map(|rule| quota(rule));
        let mut queries = global.idle_queries(policy, key, quotas, false).into_iter();
        let look = queries.find(|query| query.rule == self.rule)?;
        // The question itself counts toward no penalty.
        let penalty = look.penalty.map(|penalty| PenaltyParameters { after: 0, ..penalty });
        let next =
            RuleQuery { enforced: true, peeks: true, penalty, headroom: counter.headroom(), ..look.clone() };
        let queries = [RuleQuery { penalty: None, ..look }, next];
        let shard = global.shard(policy, key);
        Some((shard, GlobalQuery::Inspect(Box::new(Inspection { change, queries }))))
    }

    /// What the global store has counted, according to its replies. `None` if they answer something
    /// else.
    #[must_use]
    pub fn count_of(&self, policy: &Policy, replies: &[RuleReply]) -> Option<ActorCount> {
        let ([look, next], counter) = (replies, self.counter(policy)?) else { return None };
        let (quota, verdict) = (counter.shown(), next.verdict);
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

    /// The actor's units that this worker holds reserved, or that this gateway holds leased from
    /// the rule's global store.
    pub fn reserved(&self, worker: &Worker<impl Store>, clock: impl Fn() -> Time) -> Option<u64> {
        let policy = worker.policy();
        let (context, reservations) = worker.inspection(&clock);
        if !self.is_global {
            let group = policy.group(self.place)?;
            let reserved = reservations.find(CellId { group: group.id, hash: self.hash })?;
            let at = group.ids().position(|rule| rule == self.rule)?;
            let Reservation { charge, spent } = reserved.reservations.get(at)?;
            return Some(charge.cost.saturating_sub(*spent));
        }
        let place = (self.place.0, policy.global_group(self.place)?.leased?);
        let (group, rule) = policy.group(place).zip(policy.rule(self.rule))?;
        let key = self.key.key();
        let quota_of = |rule: &Rule| rule.quota_of(key, self.plan).unwrap_or_default();
        let quotas = group.own(&policy.rules).iter().map(|rule| quota_of(rule));
        let cell = group.cell(&policy.rules, self.hash, quotas);
        let entry = peek(group, cell, &context).ok()??;
        let quota = quota_of(rule);
        let counter = rule.counters(Role::Leased).at(quota);
        let (mut state, now) = (counter.state(&entry.cell()).to_vec(), clock());
        counter.prepare(&mut state, now);
        Some(counter.step(&mut state, now, 0).remaining)
    }

    /// What the rule has counted for the actor.
    pub fn count(&self, worker: &Worker<impl Store>, clock: impl Fn() -> Time) -> Result<ActorCount, Fault> {
        let (context, reservations) = worker.inspection(&clock);
        let mut cell = OpenCell::default();
        let (_, counter) = self.open(&mut cell, reservations, &context, &mut Events::default())?;
        let now = cell.at();
        let state = counter.state_mut(cell.bytes_mut());
        let quota = counter.shown();
        let used = quota.rpu.saturating_sub(counter.step(state, now, 0).remaining);
        let before = state.to_vec();
        let verdict = counter.peek(state, &before, now, counter.headroom());
        let (granted, granted_for) = counter.granted(&before, now);
        Ok(ActorCount {
            quota,
            used,
            remaining: verdict.remaining,
            more_in: verdict.more_in,
            full_in: verdict.full_in,
            penalty: counter.penalty_rest(&before, now),
            granted,
            granted_for,
            is_refused: !counter.or_grant(state, now, 1, verdict).admits(),
        })
    }

    /// Forgets what the rule has counted for the actor, including a penalty and a grant. If a
    /// charge from before the reset is refunded later, the actor gets it back a second time, but
    /// never has more than the quota.
    pub fn reset(&self, worker: &mut Worker<impl Store>, clock: impl Fn() -> Time) -> Result<Events, Fault> {
        self.edit(worker, clock, &|counter, state, now| {
            let is_new = counter.step(state, now, 0).full_in == Span::ZERO
                && counter.penalty_rest(state, now) == Span::ZERO
                && counter.granted(state, now).0 == 0;
            counter.reset(state);
            !is_new
        })
    }

    /// Whether the rule has a penalty for this actor.
    #[must_use]
    pub fn has_penalty(&self, policy: &Policy) -> bool {
        self.counter(policy).is_some_and(|counter| counter.penalty.is_some())
    }

    /// Ends the actor's penalty. What the rule has counted stays counted.
    pub fn end_penalty(
        &self,
        worker: &mut Worker<impl Store>,
        clock: impl Fn() -> Time,
    ) -> Result<Events, Fault> {
        self.edit(worker, clock, &|counter, state, now| counter.end_penalty(state, now))
    }

    /// Whether an actor of the rule can get a grant. A document without `inspect` leaves no room
    /// for grants, and a rule whose charges end with the request has none.
    #[must_use]
    pub fn takes_grants(&self, policy: &Policy) -> bool {
        // A global rule that counts permits is no target.
        self.is_global && policy.takes_grants || self.counter(policy).is_some_and(Counter::takes_grants)
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
        let events = self.edit(worker, clock, &|counter, state, now| {
            counter.grant(state, now, amount, lasts);
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
        how: &dyn Fn(&Counter, &mut [u8], Time) -> bool,
    ) -> Result<Events, Fault> {
        let mut events = Events::default();
        let (context, reservations) = worker.inspection(&clock);
        let mut edit = Edit { target: self, how, cell: OpenCell::default(), reservations, context: &context };
        let swapped = swap(context.store, &mut edit, &mut events);
        match swapped {
            Swapped::Nothing => {}
            Swapped::Done | Swapped::Failed => worker.forget(self.place, self.hash),
        }
        if swapped == Swapped::Failed { Err(Fault(0)) } else { Ok(events) }
    }

    /// The quota that counts the actor.
    fn counter<'p>(&self, policy: &'p Policy) -> Option<&'p Counter> {
        let rule = policy.rule(self.rule)?;
        let quota = rule.quota_of(self.key.key(), self.plan).unwrap_or_default();
        Some(rule.counters(Role::Primary).at(quota))
    }

    /// Opens the actor's cell, and returns the rules and the quota that count the actor.
    fn open<'p>(
        &'p self,
        cell: &mut OpenCell,
        reservations: &Reservations,
        context: &Context<'p>,
        events: &mut Events,
    ) -> Result<(ActorRules<'p>, &'p Counter), Fault> {
        let policy = context.policy;
        let (group, counter) = policy.group(self.place).zip(self.counter(policy)).ok_or(Fault(0))?;
        let (place, key) = (self.place, self.key.key());
        let actor = Actor { group, place, hash: self.hash, key };
        cell.load(group, self.hash, context, events);
        if !cell.open(actor, (context.clock)(), reservations, context) {
            return Err(Fault(0));
        }
        let now = cell.at();
        counter.prepare(counter.state_mut(cell.bytes_mut()), now);
        Ok((actor.rules(policy), counter))
    }
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
///
/// ```
/// use diana_limiter::inspect::Grant;
/// use diana_limiter::time::Span;
///
/// let read = |amount: &str, lasts: &str| {
///     Grant::read(|name| Some(if name == "for" { lasts } else { amount }.to_owned()))
/// };
/// assert_eq!(read("5", "1h"), Ok(Grant { amount: 5, lasts: Span::from_secs(3_600) }));
/// assert_eq!(read("2k", "30s").map(|grant| grant.amount), Ok(2_000));
/// assert!(read("0", "1h").is_err() && read("5", "2d").is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Units of cost: 1 to 10⁹.
    pub amount: u64,
    /// How long the units are valid: 1 s to 24 h.
    pub lasts: Span,
}

impl Grant {
    /// Reads `amount` and `for`. The error is a message for people.
    pub fn read(parameter: impl Fn(&str) -> Option<String>) -> Result<Grant, String> {
        let amount = parameter("amount").ok_or("how much? expected `amount=100`")?;
        let lasts = parameter("for").ok_or("for how long? expected `for=1h`")?;
        let amount = amount.trim().parse().map_or(Value::Text(amount), Value::Whole);
        let amount = read("amount", amount, |node| node.size(1..=grant::MAX_AMOUNT))?;
        let lasts = read("for", Value::Text(lasts), |node| node.span(grant::MIN_SPAN..=grant::MAX_SPAN))?;
        Ok(Grant { amount, lasts })
    }
}

/// Reads a parameter like a key of a document.
fn read<T>(name: &str, value: Value, by: impl Fn(Node) -> Option<T>) -> Result<T, String> {
    let errors = Errors::default();
    let read = by(Node::root(&value, &errors));
    read.ok_or_else(|| {
        errors.into_vec().first().map_or(String::new(), |error| [name, ": ", &error.why].concat())
    })
}

/// Changes the state of the target.
struct Edit<'a, 'c> {
    target: &'a Target,
    how: &'a dyn Fn(&Counter, &mut [u8], Time) -> bool,
    cell: OpenCell,
    reservations: &'a Reservations,
    context: &'a Context<'c>,
}

impl Change for Edit<'_, '_> {
    fn attempt(&mut self, events: &mut Events) -> Attempt<'_> {
        let Edit { target, how, cell, reservations, context } = self;
        let Ok((rules, counter)) = target.open(cell, reservations, context, events) else {
            return Attempt::Fault;
        };
        if cell.set_full().is_some() {
            // The actor has no cell, and so no count.
            return Attempt::Nothing;
        }
        let now = cell.at();
        let state = counter.state_mut(cell.bytes_mut());
        if how(counter, state, now) { cell.entry(rules) } else { Attempt::Nothing }
    }
}
