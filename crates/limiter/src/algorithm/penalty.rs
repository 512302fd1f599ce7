//! The penalty of a rule: refuses an actor that the rule refused too often, whatever the quota then
//! says. Its state stands behind the algorithm's, and [`PlacedQuota`](crate::policy::PlacedQuota)
//! combines the two. `docs/internals/design/algorithms.md` has the reasons.
//!
//! ```text
//!   refusals ──x──x────x·············──►     `after` refusals within a unit begin the penalty
//!              │       ╰─ refuses all ─╯     `for`; then the count starts at zero
//!              ╰─ the unit begins with the first refusal that counts
//! ```
//!
//! **Clocks.** A penalty ends at most its length plus [`MAX_SKEW`] from now, and a counted unit
//! begins at most that far ahead; otherwise the clock stepped back, and both begin now.

use super::bytes::{u32_at, u64_at, write};
use super::{Admission, Allowance, Charge, MAX_SKEW, PenaltyParameters, Verdict};
use diana_base::time::{Span, Time};
use std::num::NonZeroU32;

/// The layout of a state, little-endian. The start of the counted unit `u64`, the end of the
/// penalty `u64`, the number of counted refusals `u32`, the length of the penalty in ms `u32`.
const SINCE: usize = 0;
const ENDS: usize = 8;
const COUNT: usize = 16;
const LENGTH: usize = 20;

/// How many refusals begin a penalty, and how long it lasts. A state has [`Penalty::SIZE`] bytes;
/// an unused state is all zero.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_limiter::algorithm::Penalty;
///
/// let penalty = Penalty::new(Span::from_secs(1), 2, Span::from_secs(600));
/// let (mut state, now) = ([0; Penalty::SIZE], Time::from_ns(1_700_000_000_000_000_000));
/// penalty.count_refusal(&mut state, now);
/// assert_eq!(penalty.rest(&state, now), Span::ZERO);
/// penalty.count_refusal(&mut state, now);
/// assert_eq!(penalty.rest(&state, now), Span::from_secs(600));
/// assert!(penalty.end(&mut state, now) && !penalty.end(&mut state, now));
/// assert_eq!(penalty.rest(&state, now), Span::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Penalty {
    /// The span in which refusals are counted together.
    unit: Span,
    /// The number of refusals that begin a penalty.
    after: NonZeroU32,
    lasts_ms: u32,
}

impl Penalty {
    /// The largest `after`. Each counted refusal costs a swap.
    pub const MAX_AFTER: u64 = 1_000_000;
    /// The shortest penalty.
    pub const MIN_SPAN: Span = Span::from_secs(1);
    /// The longest penalty.
    pub const MAX_SPAN: Span = Allowance::MAX_UNIT;

    /// The size of a state in bytes.
    pub const SIZE: usize = 24;

    /// Refuses, for the span `lasts`, every actor that the rule refuses `after` times within
    /// `unit`. `after` is 1 to [`Penalty::MAX_AFTER`], and `lasts` whole milliseconds.
    #[must_use]
    pub fn new(unit: Span, after: u64, lasts: Span) -> Penalty {
        debug_assert!((1..=Penalty::MAX_AFTER).contains(&after));
        let after = u32::try_from(after).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        let ms = lasts.as_ns().checked_div(1_000_000).unwrap_or(0);
        Penalty { unit, after, lasts_ms: u32::try_from(ms).unwrap_or(u32::MAX) }
    }

    fn lasts(&self) -> Span {
        Span::from_ms(self.lasts_ms.into())
    }

    /// What the penalty adds to [`Algorithm::canonical_form`](super::Algorithm::canonical_form).
    pub(crate) fn canonical_form(&self) -> String {
        let Penalty { unit, after, .. } = self;
        format!(", refused for {} ns after {after} in {} ns", self.lasts().as_ns(), unit.as_ns())
    }

    /// The parameters of the penalty for a global store.
    #[must_use]
    pub fn parameters(&self) -> PenaltyParameters {
        PenaltyParameters::new(self.after.get(), self.unit, self.lasts())
    }

    /// The rest of the penalty at `now`; zero without a penalty.
    #[must_use]
    pub fn rest(&self, state: &[u8], now: Time) -> Span {
        let rest = Time::from_ns(u64_at(state, ENDS)).since(now);
        let length = match u32_at(state, LENGTH) {
            0 => self.lasts(),
            ms => Span::from_ms(ms.into()).min(Penalty::MAX_SPAN),
        };
        if rest.minus(length) > MAX_SKEW { length } else { rest }
    }

    /// The start of the counted unit, and how many refusals it has so far. If the unit is over, a
    /// new one begins at `now`.
    fn counted(&self, state: &[u8], now: Time) -> (Time, u32) {
        let (since, count) = (Time::from_ns(u64_at(state, SINCE)), u32_at(state, COUNT));
        if count == 0 || now.since(since) >= self.unit {
            (now, 0)
        } else if since.since(now) > MAX_SKEW {
            (now, count)
        } else {
            (since, count)
        }
    }

    /// Clamps the state if the clock stepped back. Returns whether the clock did.
    pub(crate) fn prepare(&self, state: &mut [u8], now: Time) -> bool {
        let ends = now.after(self.rest(state, now)).as_ns();
        let is_penalty_ahead = u64_at(state, ENDS) > ends;
        if is_penalty_ahead {
            write(state, ENDS, ends.to_le_bytes());
        }
        let (since, count) = self.counted(state, now);
        let is_unit_ahead = count > 0 && u64_at(state, SINCE) != since.as_ns();
        if is_unit_ahead {
            write(state, SINCE, since.as_ns().to_le_bytes());
        }
        is_penalty_ahead || is_unit_ahead
    }

    /// Counts a refusal at `now` in the state of the refused actor, which is prepared. The last
    /// refusal begins the penalty. During a penalty nothing changes.
    pub fn count_refusal(&self, state: &mut [u8], now: Time) {
        if self.rest(state, now) > Span::ZERO {
            return;
        }
        let (since, count) = self.counted(state, now);
        let count = count.saturating_add(1);
        let begins = count >= self.after.get();
        if begins {
            write(state, ENDS, now.after(self.lasts()).as_ns().to_le_bytes());
            write(state, LENGTH, self.lasts_ms.to_le_bytes());
        }
        write(state, SINCE, since.as_ns().to_le_bytes());
        write(state, COUNT, if begins { 0 } else { count }.to_le_bytes());
    }

    /// Ends the penalty that runs at `now`. Returns whether one did. Refusals that were counted
    /// toward the next one stay counted.
    pub fn end(&self, state: &mut [u8], now: Time) -> bool {
        let runs = self.rest(state, now) > Span::ZERO;
        if runs {
            write(state, ENDS, [0; 8]);
        }
        runs
    }

    /// The verdict on a request that the algorithm alone would answer by `verdict`: if a penalty
    /// runs at `now`, a refusal until both admit.
    pub(crate) fn penalize(&self, state: &[u8], now: Time, verdict: Verdict) -> Verdict {
        let rest = self.rest(state, now);
        if rest == Span::ZERO {
            return verdict;
        }
        let retry_after = match verdict.admission {
            Admission::Admit { .. } => Some(rest),
            Admission::Refuse { retry_after } => retry_after.map(|wait| wait.max(rest)),
        };
        let more_in = if verdict.remaining > 0 { rest } else { verdict.more_in.max(rest) };
        let full_in = verdict.full_in.max(rest);
        let charge = Charge { at: verdict.charge.at, booked_at: Verdict::PENALTY, ..Charge::default() };
        Verdict { admission: Admission::Refuse { retry_after }, remaining: 0, more_in, full_in, charge }
    }

    /// The time until a penalty has ended, or counted refusals no longer count.
    pub(crate) fn rests_in(&self, state: &[u8], now: Time) -> Span {
        let counting = match self.counted(state, now) {
            (_, 0) => Span::ZERO,
            (since, _) => since.after(self.unit).since(now),
        };
        self.rest(state, now).max(counting)
    }
}
