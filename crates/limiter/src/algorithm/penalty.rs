//! The penalty of a rule: an actor that the rule refuses too often is refused for a while, whatever
//! the quota then says. A penalty wraps the rule's algorithm.
//!
//! ```text
//!   refusals ──x──x────x·············──►     `after` refusals within a unit begin the penalty
//!              │       ╰─ refuses all ─╯     `for`; then the count starts at zero
//!              ╰─ the unit begins with the first refusal that counts
//! ```
//!
//! A refused step leaves the cell unchanged. So the caller counts the refusal
//! ([`Penalize::count_refusal`]) and stores the cell.
//!
//! Workers reserve no quota: an actor would spend a reservation during the penalty.
//!
//! **Clocks.** A penalty ends at most `for` plus [`MAX_SKEW`] from now. If the end is further
//! ahead, the clock stepped back, and the penalty lasts `for` from now. A counted unit that begins
//! further ahead than [`MAX_SKEW`] begins now.

use super::bytes::{u32_at, u64_at, write};
use super::{
    Admission, Algorithm, Charge, EvictionRank, MAX_SKEW, Parameters, Penalize, PenaltyParameters, Quota,
    Settle, Verdict,
};
use crate::adapt::Adaptive;
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// The layout behind the cell of the inner algorithm, little-endian. The start of the counted unit
/// `u64`, the end of the penalty `u64`, the number of counted refusals `u32`.
const SIZE: usize = 20;
const SINCE: usize = 0;
const ENDS: usize = 8;
const COUNT: usize = 16;

/// An algorithm that refuses an actor for a while after too many refusals.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_document::{Errors, Node, parse};
/// use diana_limiter::algorithm::{Admission, Algorithm, KINDS, Penalty, Quota};
///
/// let (keys, errors) = (parse(b"{}")?, Errors::default());
/// let mut keys = Node::root(&keys, &errors).fields().ok_or("not an object")?;
/// let quota = Quota { rpu: 1, unit: Span::from_secs(1) };
/// let token_bucket = (KINDS[0].compile)(&mut keys, quota).ok_or("a mistake in the keys")?;
/// let rule = Penalty::new(token_bucket, quota.unit, 2, Span::from_secs(600));
///
/// let (mut cell, now) = (vec![0; rule.size()], Time::from_ns(1_700_000_000_000_000_000));
/// assert!(rule.step(&mut cell, now, 1).admits());
/// let penalty = rule.as_penalize().ok_or("no penalty")?;
/// for is_penalty in [false, false, true] {
///     let refused = rule.step(&mut cell, now, 1);
///     assert_eq!((refused.admits(), refused.is_penalty()), (false, is_penalty));
///     penalty.count_refusal(&mut cell, now);
/// }
/// let wait = Admission::Refuse { retry_after: Some(Span::from_secs(600)) };
/// assert_eq!(rule.step(&mut cell, now, 1).admission, wait);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Penalty {
    algorithm: Box<dyn Algorithm>,
    /// The span in which refusals are counted together.
    unit: Span,
    /// The number of refusals that begin a penalty.
    after: u32,
    lasts: Span,
}

impl Penalty {
    /// The largest `after`. Each counted refusal costs a swap.
    pub const MAX_AFTER: u64 = 1_000_000;
    /// The shortest penalty.
    pub const MIN_SPAN: Span = Span::from_secs(1);
    /// The longest penalty.
    pub const MAX_SPAN: Span = Quota::MAX_UNIT;

    /// Refuses, for the span `lasts`, every actor that `algorithm` refuses `after` times within
    /// `unit`. `after` is 1 to [`Penalty::MAX_AFTER`].
    #[must_use]
    pub fn new(algorithm: Box<dyn Algorithm>, unit: Span, after: u64, lasts: Span) -> Penalty {
        let after = u32::try_from(after).unwrap_or(u32::MAX);
        Penalty { algorithm, unit, after, lasts }
    }

    /// The cell of the inner algorithm, and the penalty's own part.
    fn split<'c>(&self, cell: &'c [u8]) -> (&'c [u8], &'c [u8]) {
        cell.split_at_checked(self.algorithm.size()).unwrap_or((cell, &[]))
    }

    fn split_mut<'c>(&self, cell: &'c mut [u8]) -> (&'c mut [u8], &'c mut [u8]) {
        cell.split_at_mut(self.algorithm.size().min(cell.len()))
    }

    /// The rest of the penalty at `now`; zero without a penalty.
    fn rest(&self, own: &[u8], now: Time) -> Span {
        let rest = Time::from_ns(u64_at(own, ENDS)).since(now);
        if rest.minus(self.lasts) > MAX_SKEW { self.lasts } else { rest }
    }

    /// The start of the counted unit, and how many refusals it has so far. If the unit is over, a
    /// new one begins at `now`.
    fn counted(&self, own: &[u8], now: Time) -> (Time, u32) {
        let (since, count) = (Time::from_ns(u64_at(own, SINCE)), u32_at(own, COUNT));
        if count == 0 || now.since(since) >= self.unit {
            (now, 0)
        } else if since.since(now) > MAX_SKEW {
            (now, count)
        } else {
            (since, count)
        }
    }

    /// Clamps the penalty's own part if the clock stepped back. Returns whether the clock did.
    fn repair(&self, own: &mut [u8], now: Time) -> bool {
        let ends = now.after(self.rest(own, now)).as_ns();
        let is_penalty_ahead = u64_at(own, ENDS) > ends;
        if is_penalty_ahead {
            write(own, ENDS, ends.to_le_bytes());
        }
        let (since, count) = self.counted(own, now);
        let is_unit_ahead = count > 0 && u64_at(own, SINCE) != since.as_ns();
        if is_unit_ahead {
            write(own, SINCE, since.as_ns().to_le_bytes());
        }
        is_penalty_ahead || is_unit_ahead
    }

    /// The verdict `inner` of the algorithm, with `rest` of a penalty on top.
    fn on_top(inner: Verdict, rest: Span, cost: u64) -> Verdict {
        let admission = match inner.admission {
            Admission::Admit { delay } if cost == 0 => Admission::Admit { delay },
            Admission::Admit { .. } => Admission::Refuse { retry_after: Some(rest) },
            Admission::Refuse { retry_after } => {
                Admission::Refuse { retry_after: retry_after.map(|wait| wait.max(rest)) }
            }
        };
        let more_in = if inner.remaining > 0 { rest } else { inner.more_in.max(rest) };
        let charge = Charge { at: inner.charge.at, booked_at: Verdict::PENALTY, ..Charge::default() };
        Verdict { admission, remaining: 0, more_in, full_in: inner.full_in.max(rest), charge }
    }
}

impl Algorithm for Penalty {
    fn meaning(&self) -> String {
        let Penalty { algorithm, unit, after, lasts } = self;
        let (inner, unit, lasts) = (algorithm.meaning(), unit.as_ns(), lasts.as_ns());
        format!("{inner}, refused for {lasts} ns after {after} in {unit} ns")
    }

    fn form(&self) -> String {
        [&*self.algorithm.form(), ", with a penalty"].concat()
    }

    fn size(&self) -> usize {
        self.algorithm.size().saturating_add(SIZE)
    }

    fn shown(&self, quota: Quota) -> Quota {
        self.algorithm.shown(quota)
    }

    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let (state, own) = self.split_mut(cell);
        let is_prepared = self.algorithm.prepare(state, now);
        self.repair(own, now) || is_prepared
    }

    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let (state, own) = self.split_mut(cell);
        let rest = self.rest(own, now);
        if rest == Span::ZERO {
            return self.algorithm.step(state, now, cost);
        }
        // Reads and refusals change nothing. A request that the algorithm would admit only reads.
        let look = self.algorithm.step(state, now, 0);
        let inner = if cost <= look.remaining { look } else { self.algorithm.step(state, now, cost) };
        Penalty::on_top(inner, rest, cost)
    }

    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        let (state, _) = self.split_mut(cell);
        self.algorithm.refund(state, now, charge);
    }

    fn may_wait(&self) -> bool {
        self.algorithm.may_wait()
    }

    fn without_waiting(&self) -> Option<Box<dyn Algorithm>> {
        let algorithm = self.algorithm.without_waiting()?;
        Some(Box::new(Penalty { algorithm, ..*self }))
    }

    fn units(&self, charge: Charge) -> u64 {
        self.algorithm.units(charge)
    }

    fn ends_with_request(&self) -> bool {
        self.algorithm.ends_with_request()
    }

    /// The parameters of the inner algorithm: a penalty only admits less.
    fn parameters(&self) -> Parameters {
        self.algorithm.parameters()
    }

    fn eviction_rank(&self, cell: &[u8], now: Time) -> EvictionRank {
        let (state, own) = self.split(cell);
        let own = match (self.rest(own, now), self.counted(own, now)) {
            (Span::ZERO, (_, 0)) => EvictionRank::Nothing,
            (Span::ZERO, (since, _)) => EvictionRank::Used(since.after(self.unit).since(now)),
            (rest, _) => EvictionRank::Refusing(rest),
        };
        self.algorithm.eviction_rank(state, now).max(own)
    }

    fn copied(&self, cell: &mut [u8], now: Time) {
        self.algorithm.copied(self.split_mut(cell).0, now);
    }

    fn copied_at(&self, cell: &[u8]) -> Option<Time> {
        self.algorithm.copied_at(self.split(cell).0)
    }

    fn as_penalize(&self) -> Option<&dyn Penalize> {
        Some(self)
    }

    fn adapting(&self, quota: Quota, least: u64, adaptive: &Arc<Adaptive>) -> Option<Box<dyn Algorithm>> {
        let algorithm = self.algorithm.adapting(quota, least, adaptive)?;
        Some(Box::new(Penalty { algorithm, ..*self }))
    }

    fn as_adaptive(&self) -> Option<&Arc<Adaptive>> {
        self.algorithm.as_adaptive()
    }

    fn headroom_of_share(&self) -> Option<u64> {
        self.algorithm.headroom_of_share()
    }

    fn settling(&self, borrow: u64) -> Option<Box<dyn Algorithm>> {
        let algorithm = self.algorithm.settling(borrow)?;
        Some(Box::new(Penalty { algorithm, ..*self }))
    }

    fn as_settle(&self) -> Option<&dyn Settle> {
        self.algorithm.as_settle().map(|_| self as &dyn Settle)
    }
}

impl Settle for Penalty {
    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        let (state, _) = self.split_mut(cell);
        self.algorithm.as_settle().map(|settle| settle.charge(state, now, cost)).unwrap_or_default()
    }

    fn reduce(&self, cell: &mut [u8], now: Time, charge: Charge, cost: u64) {
        let (state, _) = self.split_mut(cell);
        self.algorithm.as_settle().into_iter().for_each(|settle| settle.reduce(state, now, charge, cost));
    }
}

impl Penalize for Penalty {
    fn count_refusal(&self, cell: &mut [u8], now: Time) {
        let (_, own) = self.split_mut(cell);
        if self.rest(own, now) > Span::ZERO {
            return;
        }
        let (since, count) = self.counted(own, now);
        let count = count.saturating_add(1);
        let begins = count >= self.after;
        if begins {
            write(own, ENDS, now.after(self.lasts).as_ns().to_le_bytes());
        }
        write(own, SINCE, since.as_ns().to_le_bytes());
        write(own, COUNT, if begins { 0 } else { count }.to_le_bytes());
    }

    fn penalize(&self, cell: &[u8], now: Time, refusal: Verdict) -> Verdict {
        let (_, own) = self.split(cell);
        match self.rest(own, now) {
            Span::ZERO => refusal,
            rest => Penalty::on_top(refusal, rest, 1),
        }
    }

    fn longest(&self) -> Span {
        self.unit.max(self.lasts)
    }

    fn parameters(&self) -> PenaltyParameters {
        PenaltyParameters::new(self.after, self.unit, self.lasts)
    }
}
