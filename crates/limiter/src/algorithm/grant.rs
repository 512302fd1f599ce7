//! A grant: units that an operator gives one actor on top of its quota, until an end. Its state
//! stands between the algorithm's and the penalty's, and is read only if the quota refuses.
//!
//! ```text
//!   quota admits ─────────────────────────────► charged to the algorithm's state
//!   quota refuses, grant has the whole cost ──► charged to the grant
//!   quota refuses, grant is used up or over ──► refused
//! ```
//!
//! A request is paid by the quota or by the grant, never by both, so a refund has one place to go.
//! **Clocks.** Like a penalty, a grant ends at most its length plus `MAX_SKEW` from now. If it
//! ends later, the clock stepped back, and the grant begins now.

use super::bytes::{u32_at, u64_at, write};
use super::{Allowance, Charge, MAX_SKEW, Verdict};
use diana_base::time::{Span, Time};

/// The layout of a state, little-endian. The end `u64`, the low 32 bits of the units left, the
/// length in ms `u32`, the high 32 bits of the units left, which earlier builds lack. An unused
/// state is all zero. A grant that is used up keeps its end.
const ENDS: usize = 0;
const LEFT: usize = 8;
const LENGTH: usize = 12;
const HIGH: usize = 16;

/// The size of a state in bytes. Longer states are cut to it.
pub(crate) const SIZE: usize = 20;

/// The shortest grant.
pub const MIN_SPAN: Span = Span::from_secs(1);

/// The longest grant: one day.
pub const MAX_SPAN: Span = Span::from_secs(86_400);

/// The most units of a grant.
pub const MAX_AMOUNT: u64 = Allowance::MAX_IN_WINDOW;

/// The rest of the grant at `now`; zero without one.
pub(crate) fn rest(state: &[u8], now: Time) -> Span {
    let rest = Time::from_ns(u64_at(state, ENDS)).since(now);
    let length = length(state);
    if rest.minus(length) > MAX_SKEW { length } else { rest }
}

/// The units that are left at `now`.
pub(crate) fn left(state: &[u8], now: Time) -> u64 {
    if rest(state, now) > Span::ZERO { units(state) } else { 0 }
}

fn units(state: &[u8]) -> u64 {
    u64::from(u32_at(state, LEFT)) | u64::from(u32_at(state, HIGH)) << 32
}

fn set_units(state: &mut [u8], units: u64) {
    let [a, b, c, d, high @ ..] = units.to_le_bytes();
    write(state, LEFT, [a, b, c, d]);
    write(state, HIGH, high);
}

/// Begins a grant at `now`, in place of an earlier one.
pub(crate) fn give(state: &mut [u8], now: Time, amount: u64, lasts: Span) {
    debug_assert!(amount <= MAX_AMOUNT && lasts <= MAX_SPAN, "a grant beyond the bounds");
    write(state, ENDS, now.after(lasts).as_ns().to_le_bytes());
    set_units(state, amount);
    let ms = lasts.as_ns().checked_div(1_000_000).unwrap_or(0);
    write(state, LENGTH, u32::try_from(ms).unwrap_or(u32::MAX).to_le_bytes());
}

/// Pays for a request of `cost` units that the quota refuses. A request that costs nothing on
/// arrival needs one unit. `None` if the grant does not suffice.
pub(crate) fn spend(state: &mut [u8], now: Time, cost: u64) -> Option<Charge> {
    let rest = left(state, now).checked_sub(cost)?;
    if cost == 0 && rest == 0 {
        return None;
    }
    set_units(state, rest);
    let (stamp, booked_at) = (stamp(state), Verdict::GRANT);
    Some(Charge { cost, at: now, booked_at, stamp })
}

/// Takes up to `cost` more units for a request for which the grant has paid `charge`. Returns how
/// many it took.
pub(crate) fn take(state: &mut [u8], now: Time, charge: Charge, cost: u64) -> u64 {
    let left = if stamp(state) == charge.stamp { left(state, now) } else { 0 };
    let taken = left.min(cost);
    if taken > 0 {
        set_units(state, left.saturating_sub(taken));
    }
    taken
}

/// Gives `cost` units of `charge` back, unless another grant has replaced the one that paid.
pub(crate) fn refund(state: &mut [u8], charge: Charge, cost: u64) {
    if stamp(state) == charge.stamp {
        let left = units(state).saturating_add(cost).min(MAX_AMOUNT);
        set_units(state, left);
    }
}

/// Clamps the state if the clock stepped back. Returns whether the clock did.
#[cold]
#[inline(never)]
pub(crate) fn prepare(state: &mut [u8], now: Time) -> bool {
    let ends = now.after(rest(state, now)).as_ns();
    let is_ahead = u64_at(state, ENDS) > ends;
    if is_ahead {
        write(state, ENDS, ends.to_le_bytes());
    }
    is_ahead
}

/// Takes what is left.
pub(crate) fn end(state: &mut [u8]) {
    set_units(state, 0);
}

/// Tells one grant of an actor from the next.
fn stamp(state: &[u8]) -> (u32, u32) {
    (u32_at(state, ENDS), u32_at(state, ENDS.saturating_add(4)))
}

fn length(state: &[u8]) -> Span {
    Span::from_ms(u32_at(state, LENGTH).into()).min(MAX_SPAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::from_secs(3_600);

    fn at(seconds: u64) -> Time {
        Time::from_ns(1_795_392_000_000_000_000).after(Span::from_secs(seconds))
    }

    #[test]
    fn a_clock_that_steps_back_ends_no_grant_later_than_its_length_from_now() {
        let mut state = [0; SIZE];
        give(&mut state, at(7_200), 5, HOUR);
        assert_eq!((rest(&state, at(7_200)), prepare(&mut state, at(7_200))), (HOUR, false));
        assert_eq!(rest(&state, at(7_199)).as_ns(), HOUR.as_ns() + 1_000_000_000, "clocks differ");
        assert_eq!((rest(&state, at(0)), prepare(&mut state, at(0))), (HOUR, true));
        assert_eq!((left(&state, at(3_599)), left(&state, at(3_600))), (5, 0));
        // Any bytes: a grant of at most a day.
        let mut state = [0xff; SIZE];
        prepare(&mut state, at(0));
        assert_eq!(left(&state, at(86_400)), 0);
    }

    #[test]
    fn the_largest_grant_is_exact() {
        let mut state = [0; SIZE];
        give(&mut state, at(0), MAX_AMOUNT, HOUR);
        let charge = spend(&mut state, at(0), MAX_AMOUNT - 1).unwrap();
        assert_eq!((left(&state, at(0)), spend(&mut state, at(0), 2)), (1, None));
        refund(&mut state, charge, 1 << 40);
        assert_eq!(left(&state, at(0)), (1 << 40) + 1);
        // A state of an earlier build.
        let mut state = [0; SIZE];
        give(&mut state[..16], at(0), 5, HOUR);
        assert_eq!((left(&state, at(0)), length(&state)), (5, HOUR));
    }

    #[test]
    fn a_refund_goes_to_the_grant_that_paid() {
        let mut state = [0; SIZE];
        assert_eq!(spend(&mut state, at(0), 0), None);
        give(&mut state, at(0), 5, HOUR);
        assert_eq!(spend(&mut state, at(0), 6), None);
        let charge = spend(&mut state, at(0), 5).unwrap();
        assert_eq!(spend(&mut state, at(0), 0), None, "a request that costs nothing yet needs a unit");
        refund(&mut state, charge, 2);
        assert_eq!((left(&state, at(0)), take(&mut state, at(0), charge, 9)), (2, 2));
        give(&mut state, at(1), 5, HOUR);
        refund(&mut state, charge, 5);
        assert_eq!((left(&state, at(1)), take(&mut state, at(1), charge, 9)), (5, 0));
    }
}
