//! Periods of the calendar: days, weeks, months and years that begin at an anchor in a time zone.
//! Each boundary is computed from the anchor and never from the last boundary, so a month from the
//! 31st begins on 28 February and then on 31 March.
//!
//! Instants are whole seconds since the Unix epoch. The caller passes the time.
#![forbid(unsafe_code)]
// Dates and offsets of years below 2554 are far from the ends of 64 bits.
#![allow(clippy::arithmetic_side_effects)]

mod civil;
mod zone;

pub use zone::{Unruled, Zone, age_days, version};

use civil::{date, day_of, month_of};
use std::cell::Cell;
use zone::Rule;

/// The unit of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// From an hour to that of the next day: 23 to 25 hours.
    Day,
    /// From a day of the week.
    Week,
    /// From a day of the month, or the last one of a shorter month.
    Month,
    /// From a day of a month.
    Year,
}

impl Unit {
    /// The name in documents and identities.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Year => "year",
        }
    }

    /// The days of the longest period.
    #[must_use]
    pub fn days(self) -> u64 {
        match self {
            Unit::Day => 1,
            Unit::Week => 7,
            Unit::Month => 31,
            Unit::Year => 366,
        }
    }
}

/// Where periods begin.
///
/// ```
/// use diana_calendar::{Calendar, Unit, Zone};
///
/// let berlin = Zone::named("Europe/Berlin").unwrap()?;
/// let billing = Calendar { day: 31, zone: berlin, ..Calendar::new(Unit::Month) };
/// // 28 February 2027, noon UTC. The month began at midnight in Berlin.
/// let month = billing.period(1_803_816_000);
/// assert_eq!(month.start, 1_803_769_200);
/// // It ends on 31 March, in summer time.
/// assert_eq!(month.end - month.start, 31 * 86_400 - 3_600);
/// # Ok::<(), diana_calendar::Unruled>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Calendar {
    /// The unit.
    pub unit: Unit,
    /// The time zone.
    pub zone: Zone,
    /// The month in which a year begins: 1 to 12.
    pub month: u8,
    /// The day on which a month or a year begins: 1 to 31.
    pub day: u8,
    /// The day on which a week begins: 0 is Monday.
    pub weekday: u8,
    /// The hour at which the first day begins: 0 to 23.
    pub hour: u8,
}

/// The period that contains an instant, and the end of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// The number of the period: days, weeks, months or years, in a row.
    pub number: u32,
    /// The first second.
    pub start: u64,
    /// The first second of the next period.
    pub end: u64,
    /// The first second of the period after the next one.
    pub next_end: u64,
}

/// A week begins on a Monday, and 1 January 1970 was a Thursday.
const FIRST_MONDAY: i64 = 4;

thread_local! {
    /// The last period of each unit, because most requests ask for it again.
    static LAST: [Cell<Option<(Calendar, Period)>>; 4] = const { [const { Cell::new(None) }; 4] };
}

impl Calendar {
    /// Periods in UTC that begin at midnight, on Monday, on the first day, in January.
    #[must_use]
    pub const fn new(unit: Unit) -> Calendar {
        Calendar { unit, zone: Zone::UTC, month: 1, day: 1, weekday: 0, hour: 0 }
    }

    /// The period that contains `now`.
    #[inline(never)]
    #[must_use]
    pub fn period(&self, now: u64) -> Period {
        LAST.with(|known| {
            let last = known.get(self.unit as usize);
            if let Some((calendar, period)) = last.and_then(Cell::get)
                && calendar == *self
                && (period.start..period.end).contains(&now)
            {
                return period;
            }
            let period = self.compute(now);
            last.inspect(|last| last.set(Some((*self, period))));
            period
        })
    }

    #[cold]
    #[inline(never)]
    fn compute(&self, now: u64) -> Period {
        let now = i64::try_from(now).unwrap_or(i64::MAX / 2);
        let rule = self.zone.rule();
        let today = (now + rule.offset_at(now)).div_euclid(civil::DAY);
        let mut number = match self.unit {
            Unit::Day => today,
            Unit::Week => (today - FIRST_MONDAY - i64::from(self.weekday)).div_euclid(7),
            Unit::Month => month_of(today),
            Unit::Year => month_of(today).div_euclid(12),
        };
        let begins = |number| self.begins(&rule, number);
        // The anchor of today's month, for example, may be still to come.
        if begins(number) > now {
            number -= 1;
        } else if begins(number + 1) <= now {
            number += 1;
        }
        let [start, end, next_end] = [0, 1, 2].map(|more| u64::try_from(begins(number + more)).unwrap_or(0));
        Period { number: u32::try_from(number).unwrap_or(0), start, end, next_end }
    }

    /// The first second of the period with this number.
    #[inline(never)]
    fn begins(&self, rule: &Rule, number: i64) -> i64 {
        let first = match self.unit {
            Unit::Day => number,
            Unit::Week => number * 7 + FIRST_MONDAY + i64::from(self.weekday),
            Unit::Month => day_of(number, self.day.into()),
            Unit::Year => day_of(number * 12 + i64::from(self.month) - 1, self.day.into()),
        };
        rule.instant(first * civil::DAY + i64::from(self.hour) * 3_600)
    }
}

/// An instant in UTC (RFC 3339).
///
/// ```
/// assert_eq!(diana_calendar::timestamp(1_806_444_000), "2027-03-30T22:00:00Z");
/// ```
#[must_use]
pub fn timestamp(second: u64) -> String {
    let second = i64::try_from(second).unwrap_or(0);
    let ([year, month, day], of_day) = (date(second.div_euclid(civil::DAY)), second.rem_euclid(civil::DAY));
    let (minutes, seconds) = (of_day / 60, of_day % 60);
    let mut text = String::with_capacity(20);
    for (number, mark) in [
        (year / 100, None),
        (year % 100, Some('-')),
        (month, Some('-')),
        (day, Some('T')),
        (minutes / 60, Some(':')),
        (minutes % 60, Some(':')),
        (seconds, Some('Z')),
    ] {
        let digit = |number: i64| char::from(b'0' + u8::try_from(number % 10).unwrap_or(0));
        text.extend([digit(number / 10), digit(number)].into_iter().chain(mark));
    }
    text
}

#[cfg(test)]
mod tests;
