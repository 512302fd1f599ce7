//! Adaptive limits in one worker: counts requests and responses of their rules, and shares the
//! counts with the other workers.
//!
//! ```text
//!   decision ─► enter ─────► Local ─┐                        ┌─► limit of the rule
//!   response ─► responded ─► Local ─┴─► share: compare-and-swap
//!                                        four times an interval
//! ```

use crate::adapt::{Adaptive, Local, Shared};
use crate::cells::Events;
use crate::cells::store::{Fault, Store, Swap};
use crate::decide::{Decision, Outcome, RuleCheck, RuleResult};
use crate::policy::{Policy, Rule, RuleId};
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// How many times per shortest interval a worker shares its counts.
const SHARES: u64 = 4;

/// How often a worker tries to share its counts before it waits until the next time.
const TRIES: u32 = 8;

/// The adaptive limits of one worker.
#[derive(Debug)]
pub(super) struct Adaptation {
    rules: Vec<Counted>,
    /// The time from one sharing to the next.
    every: Span,
    /// When the worker shares next.
    due: Time,
    has_changed: bool,
    /// Whether the host can wake the worker.
    pub(super) wakes: bool,
}

/// A rule with an adaptive limit.
#[derive(Debug)]
struct Counted {
    id: RuleId,
    rule: Arc<Rule>,
    adaptive: Arc<Adaptive>,
    /// The key of the shared bytes.
    key: Vec<u8>,
    local: Local,
    has_counts: bool,
    /// The end of the interval, if its shared counts are from this worker too: the step is due
    /// then, even if no request comes.
    step_at: Option<Time>,
    /// Requests of this worker without a response. Some may wait in the filter, or for the client.
    in_flight: u64,
    /// Those of them that wait for the upstream.
    waiting: u64,
    /// Requests that waited for the upstream when the worker last shared its counts, less those
    /// that have left since.
    stalled: u64,
}

/// What a worker learned when it shared its counts.
struct Sharing {
    has_changed: bool,
    /// When the interval ends.
    end: Time,
}

impl Adaptation {
    /// `None` if no limit of the policy is adaptive.
    pub(super) fn new(policy: &Policy) -> Option<Box<Adaptation>> {
        let mut rules: Vec<Counted> = Vec::new();
        for (id, adaptive) in policy.adaptive() {
            let rule = policy.rules.get(id.index());
            debug_assert!(rule.is_some(), "an adaptive limit without its rule");
            let Some(rule) = rule.map(Arc::clone) else { continue };
            // Rules with the same meaning count the same requests, each for itself.
            let alike = rules.iter().filter(|other| other.rule.fingerprint == rule.fingerprint).count();
            rules.push(Counted {
                id: *id,
                adaptive: Arc::clone(adaptive),
                key: key(rule.fingerprint, alike),
                rule,
                local: Local::default(),
                has_counts: false,
                step_at: None,
                in_flight: 0,
                waiting: 0,
                stalled: 0,
            });
        }
        let shortest =
            policy.adaptive().iter().map(|(_, adaptive)| adaptive.controller().every().as_ns()).min()?;
        Some(Box::new(Adaptation {
            rules,
            every: Span::from_ns(shortest.checked_div(SHARES).unwrap_or(shortest)),
            due: Time::ZERO,
            has_changed: false,
            wakes: true,
        }))
    }

    /// Counts a decision. Adds the rules that have to know the response to `entered`.
    pub(super) fn enter(&mut self, decision: &Decision, entered: &mut Vec<usize>) {
        let passes = matches!(decision.outcome, Outcome::Pass | Outcome::Delay(_));
        for check in decision.checks.iter() {
            let find = |(_, counted): &(usize, &mut Counted)| counted.id == check.rule();
            let Some((index, counted)) = self.rules.iter_mut().enumerate().find(find) else {
                continue;
            };
            match check.result() {
                RuleResult::Admitted if passes => {
                    entered.extend(counted.enter(check, decision.is_high_priority).then_some(index));
                }
                // A penalty does not show whether the limit was used.
                RuleResult::Refused | RuleResult::Shadowed
                    if !check.verdict().is_some_and(|verdict| verdict.is_penalty()) =>
                {
                    counted.local.refused();
                    counted.has_counts = true;
                }
                // Another rule or a penalty refuses, or the store failed.
                _ => {}
            }
        }
    }

    /// The upstream has all of a request that [entered](Adaptation::enter).
    pub(super) fn forwarded(&mut self, entered: &[usize]) {
        for index in entered {
            let Some(counted) = self.entered(*index) else { continue };
            counted.waiting = counted.waiting.saturating_add(1);
            counted.has_counts = true;
        }
    }

    /// A request that [entered](Adaptation::enter) has a response with this status, or has ended
    /// without one. `waited`: for how long the upstream had all of the request; `None` if it never
    /// had.
    pub(super) fn leave(&mut self, entered: &[usize], waited: Option<Span>, status: Option<u16>) {
        for index in entered {
            let Some(counted) = self.entered(*index) else { continue };
            counted.in_flight = counted.in_flight.saturating_sub(1);
            if waited.is_some() {
                counted.waiting = counted.waiting.saturating_sub(1);
                counted.stalled = counted.stalled.saturating_sub(1);
            }
            // The client decides how long an upload takes. A response before its end shows nothing
            // of the latency, but an error is one.
            if let Some(latency) = counted.adaptive.controller().latency(waited, status.is_some()) {
                counted.local.response(latency, status.is_some_and(|status| status >= 500));
                counted.has_counts = true;
            }
        }
    }

    /// The rule that a request entered.
    fn entered(&mut self, index: usize) -> Option<&mut Counted> {
        let counted = self.rules.get_mut(index);
        debug_assert!(counted.is_some(), "a request of another policy");
        counted
    }

    /// Shares the counts and reads the limits if the worker is due. With `all`, always.
    pub(super) fn share(&mut self, store: &dyn Store, now: Time, all: bool) -> Events {
        let mut events = Events::default();
        let is_due = now >= self.due || self.due.since(now) > self.every;
        if !is_due && !all {
            return events;
        }
        self.due = now.after(self.every);
        for counted in &mut self.rules {
            // Without a share, the counts stay until the next time.
            for _ in 0..TRIES {
                match counted.share(store, now) {
                    Ok(Some(Sharing { has_changed, end })) => {
                        self.has_changed |= has_changed;
                        self.due = self.due.min(end);
                    }
                    // The other worker may have moved the limit.
                    Ok(None) => {
                        events.swaps_lost = events.swaps_lost.saturating_add(1);
                        continue;
                    }
                    Err(Fault(_)) => events.faults = events.faults.saturating_add(1),
                }
                break;
            }
        }
        events
    }

    /// Whether requests of a rule have no response yet.
    pub(super) fn awaits_responses(&self) -> bool {
        self.rules.iter().any(|counted| counted.in_flight > 0)
    }

    /// Whether a limit may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// How soon the worker shares again: `None` if nothing moves without requests.
    pub(super) fn wants(&self) -> Option<Span> {
        let moves = |counted: &Counted| {
            counted.has_counts || counted.step_at.is_some() || !counted.adaptive.is_at_start()
        };
        (self.wakes && self.rules.iter().any(moves)).then_some(self.every)
    }
}

impl Counted {
    /// Counts a request that the rule lets through. Returns whether its response has to be known.
    fn enter(&mut self, check: &RuleCheck, is_high_priority: bool) -> bool {
        self.has_counts = true;
        let follows_responses = self.adaptive.controller().follows_responses();
        if follows_responses {
            self.in_flight = self.in_flight.saturating_add(1);
        }
        let remaining = check.verdict().map_or(0, |verdict| verdict.remaining);
        let in_flight = match self.adaptive.counts_permits() {
            true => {
                // The headroom is not in use.
                let headroom = if is_high_priority { 0 } else { self.rule.quota().headroom() };
                self.adaptive.limit().saturating_sub(remaining).saturating_sub(headroom)
            }
            false => self.in_flight,
        };
        // Responses are compared with requests; traffic is measured in the units of the limit.
        let units = match follows_responses {
            true => 1,
            false => check.verdict().map_or(0, |verdict| verdict.charge.cost),
        };
        self.local.admitted(in_flight, units);
        follows_responses
    }

    /// Merges the counts, and takes the step if an interval has ended. `None` if another worker was
    /// faster.
    fn share(&mut self, store: &dyn Store, now: Time) -> Result<Option<Sharing>, Fault> {
        let controller = *self.adaptive.controller();
        let found = store.load(&self.key)?;
        let bytes = found.as_ref().map_or(&[][..], |found| &found.bytes);
        let mut shared = Shared::read(bytes, &controller, now);
        self.local.stalled(self.stalled);
        shared.merge(&self.local);
        let has_stepped = shared.advance(&controller, now);
        if has_stepped || self.has_counts || found.is_none() {
            let version = found.map(|found| found.version);
            if store.swap(&self.key, &shared.to_bytes(), version)? == Swap::Conflict {
                return Ok(None);
            }
            let shares_more = self.has_counts && !has_stepped;
            self.step_at = shares_more.then(|| shared.end()).or(self.step_at);
            (self.local, self.has_counts) = (Local::default(), false);
            self.stalled = self.waiting;
        }
        self.step_at = self.step_at.filter(|end| *end == shared.end());
        // Another worker may have shown another limit since: each step shows the limit anew.
        let has_changed = self.adaptive.set(shared.state()) || has_stepped;
        Ok(Some(Sharing { has_changed, end: shared.end() }))
    }
}

/// The key of the shared bytes of a rule, after `alike` other rules with the same meaning.
fn key(canonical_form: u64, alike: usize) -> Vec<u8> {
    match alike {
        0 => format!("diana/adapt/{canonical_form:016x}").into(),
        _ => format!("diana/adapt/{canonical_form:016x}/{alike}").into(),
    }
}
