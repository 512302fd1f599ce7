//! `W` over periods of the calendar: one counter for each day, week, month or year that begins at
//! an anchor in a time zone. Quotas of the same unit read the same count, whatever their anchors
//! and zones.
//!
//! ```text
//!   number n │ n + 1       │ n + 2          the state: number, end, used
//!      ╭─────│      ╭──────│                a new period begins  ⇔  the stored end has passed
//!   ───╯     │──────╯      │───►                                    and the number is larger
//! ```
//!
//! So a changed anchor or zone, or zone data of another age, never gives a quota a second time: the
//! period that runs goes on until both hold.
//!
//! **Bound.** `rpu` for each number. A clock that steps back goes on in the period that it has
//! opened, unless this ends further ahead than any period could.

use super::bytes::{add_one, u32_at, u64_at, write};
use super::kind::Kind;
use super::window::judge;
use super::{Allowance, Charge, Parameters, QuotaError, Reservation, Verdict};
use diana_base::time::{Span, Time};
use diana_calendar::{Calendar, Period};
use std::cmp::Ordering;

/// The layout of a cell, little-endian: the end `u64`, used units `u64`, the number `u32`, the
/// number of clamps `u32`.
const SIZE: usize = 24;
const USED: usize = 8;
const NUMBER: usize = 16;
const CLAMPS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CalendarWindow {
    rpu: u64,
    /// How many units settling may charge beyond `rpu`.
    pub(super) borrow: u64,
    pub(super) calendar: Calendar,
}

/// A period that counts: its number, when it ends, and the used units.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Counting {
    number: u32,
    end: Time,
    used: u64,
}

const NS_PER_SEC: u64 = 1_000_000_000;
const DAY_AND_HOUR_SECS: u64 = 25 * 3600;

fn instant(second: u64) -> Time {
    Time::ZERO.after(Span::from_secs(second))
}

/// The end of the next period, or of the one behind it if the stored number is two ahead: weeks from
/// Monday in the far east begin eight days before weeks from the next Sunday in the far west.
fn end_behind(period: Period, stored: u32) -> u64 {
    let Period { number, end, next_end, .. } = period;
    let more = if stored.saturating_sub(number) > 1 { next_end.saturating_sub(end) } else { 0 };
    next_end.saturating_add(more)
}

impl CalendarWindow {
    /// The same window with other numbers.
    pub(super) fn with(&self, rpu: u64, borrow: u64) -> CalendarWindow {
        CalendarWindow { rpu, borrow, ..*self }
    }

    /// See [`super::Algorithm::calendar`].
    pub(super) fn new(rpu: u64, calendar: Calendar) -> Result<CalendarWindow, QuotaError> {
        if !(1..=Allowance::MAX_IN_WINDOW).contains(&rpu) {
            return Err(QuotaError::Rpu);
        }
        Ok(CalendarWindow { rpu, borrow: 0, calendar })
    }

    fn period(&self, now: Time) -> Period {
        self.calendar.period(now.as_ns() / NS_PER_SEC)
    }

    /// How long the present period lasts.
    pub(super) fn length(&self, now: Time) -> Span {
        let Period { start, end, .. } = self.period(now);
        Span::from_secs(end.saturating_sub(start))
    }

    pub(super) fn parameters_at(&self, now: Time) -> Parameters {
        Parameters::calendar(self.rpu, self.period(now), self.borrow)
    }

    /// The period that counts at `now`.
    #[inline(never)]
    fn counting(&self, cell: &[u8], now: Time) -> Counting {
        let Period { number, end, .. } = self.period(now);
        let stored = Counting {
            number: u32_at(cell, NUMBER),
            end: Time::from_ns(u64_at(cell, 0)),
            used: u64_at(cell, USED),
        };
        let is_over = stored.end <= now && number > stored.number || stored.end == Time::ZERO;
        if is_over { Counting { number, end: instant(end), used: 0 } } else { stored }
    }

    /// How long until the next period begins.
    #[inline(never)]
    fn ends_in(&self, counting: Counting, now: Time) -> Span {
        let period = self.period(now);
        // The first boundary after which the number is larger.
        let boundary = match counting.number.cmp(&period.number) {
            Ordering::Less => 0,
            Ordering::Equal => period.end,
            Ordering::Greater => end_behind(period, counting.number),
        };
        counting.end.max(instant(boundary)).since(now)
    }

    fn store(cell: &mut [u8], Counting { number, end, used }: Counting) {
        write(cell, 0, end.as_ns().to_le_bytes());
        write(cell, USED, used.to_le_bytes());
        write(cell, NUMBER, number.to_le_bytes());
    }

    fn charged(cell: &[u8], now: Time, counting: Counting, cost: u64) -> Charge {
        let stamp = (counting.number, u32_at(cell, CLAMPS));
        Charge { cost, at: now, booked_at: counting.end, stamp }
    }
}

impl Kind for CalendarWindow {
    /// Without anchor and zone, so that a changed one finds the count.
    fn canonical_form(&self) -> String {
        let canonical_form = format!("W {} in a {}", self.rpu, self.calendar.unit.name());
        super::borrowed(canonical_form, self.borrow)
    }

    fn form(&self) -> String {
        format!("W in a {}", self.calendar.unit.name())
    }

    fn size(&self) -> usize {
        SIZE
    }

    #[inline(never)]
    fn prepare(&self, cell: &mut [u8], now: Time) -> bool {
        let Period { number, start, end, next_end } = self.period(now);
        // Periods of another anchor or zone may be longer: by a day and an hour, or for days by
        // hours.
        let longest = end.saturating_sub(start).max(next_end.saturating_sub(end));
        let longest = longest.saturating_add((longest / 8).min(DAY_AND_HOUR_SECS));
        let stored = self.counting(cell, now);
        let is_too_far_ahead = stored.end.since(now) > Span::from_secs(longest);
        if is_too_far_ahead {
            CalendarWindow::store(cell, Counting { number, end: instant(end), used: stored.used });
            add_one(cell, CLAMPS);
        }
        is_too_far_ahead
    }

    #[inline(never)]
    fn step(&self, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
        let counting = self.counting(cell, now);
        let ends_in = self.ends_in(counting, now);
        let (admission, charged) = judge(self.rpu, counting.used, cost, ends_in);
        let used = counting.used.saturating_add(charged);
        if charged > 0 {
            CalendarWindow::store(cell, Counting { used, ..counting });
        }
        let full_in = if used > 0 { ends_in } else { Span::ZERO };
        Verdict {
            admission,
            remaining: self.rpu.saturating_sub(used),
            more_in: full_in,
            full_in,
            charge: CalendarWindow::charged(cell, now, counting, charged),
        }
    }

    /// Refunds only into the period that was charged, and only if the cell was not clamped since.
    #[inline(never)]
    fn refund(&self, cell: &mut [u8], now: Time, charge: Charge) {
        self.prepare(cell, now);
        let stamp = (u32_at(cell, NUMBER), u32_at(cell, CLAMPS));
        if charge.booked_at.as_ns() == u64_at(cell, 0) && charge.stamp == stamp {
            write(cell, USED, u64_at(cell, USED).saturating_sub(charge.cost).to_le_bytes());
        }
    }

    fn parameters(&self) -> Parameters {
        Parameters::calendar(self.rpu, Period::default(), self.borrow)
    }

    /// Until the end of the period after the stored one: by another anchor, this has its number.
    #[inline(never)]
    fn rests_in(&self, cell: &[u8], now: Time) -> Span {
        let (end, stored) = (Time::from_ns(u64_at(cell, 0)), u32_at(cell, NUMBER));
        let period = self.period(now);
        let boundary = match period.number.checked_sub(stored) {
            _ if end == Time::ZERO => 0,
            None | Some(0) => end_behind(period, stored),
            Some(1) => period.end,
            Some(_) => 0,
        };
        end.max(instant(boundary)).since(now)
    }

    fn can_settle(&self) -> bool {
        true
    }

    #[inline(never)]
    fn charge(&self, cell: &mut [u8], now: Time, cost: u64) -> Charge {
        self.prepare(cell, now);
        let counting = self.counting(cell, now);
        let cost = cost.min(self.rpu.saturating_add(self.borrow).saturating_sub(counting.used));
        if cost > 0 {
            let used = counting.used.saturating_add(cost);
            CalendarWindow::store(cell, Counting { used, ..counting });
        }
        CalendarWindow::charged(cell, now, counting, cost)
    }

    fn can_reserve(&self) -> bool {
        true
    }

    /// A reservation is valid only until the end of the period that was charged.
    fn covers(&self, reservation: &Reservation, now: Time) -> bool {
        now < reservation.charge.booked_at
    }
}

#[cfg(test)]
mod tests;
