//! Time zones, each with the rule by which its clocks go from now on. `cargo xtask zones` takes the
//! names and rules from the IANA database.
//!
//! ```text
//!   zones.bin   version · day it was taken u16 · number of rules u8 · rules · names
//!   rule        standard i8 · summer i8, in quarter hours · begin, end of summer time [u8; 4]
//!   name        bytes shared with the name before u8 · other bytes u8 · these bytes · rule u8
//! ```

use crate::civil::{DAY, day_of, month_of};
use std::fmt;

static ZONES: &[u8] = include_bytes!("zones.bin");

/// The bytes of the version in the table, filled up with spaces.
const VERSION_BYTES: usize = 6;
/// Where the rules begin.
const RULES: usize = VERSION_BYTES + 3;
/// The bytes of a rule.
const RULE: usize = 10;
/// The times of shifts are counted in quarter hours from 2 h before midnight on.
const BEFORE_MIDNIGHT: i64 = 8;
/// In place of a rule, for a zone that has none.
const UNRULED: u8 = u8::MAX;

/// A time zone of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone(u8);

/// A zone whose clocks follow no yearly rule in the years to come, such as one whose summer time
/// pauses during Ramadan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unruled;

impl fmt::Display for Unruled {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the clocks of this zone follow no yearly rule")
    }
}

impl std::error::Error for Unruled {}

/// The version of the IANA database.
#[must_use]
pub fn version() -> &'static str {
    let text = ZONES.get(..VERSION_BYTES).and_then(|bytes| str::from_utf8(bytes).ok());
    text.unwrap_or_default().trim_end()
}

/// How many days before `now`, in seconds, the version was the newest.
#[must_use]
pub fn age_days(now: u64) -> u64 {
    let day = ZONES.get(VERSION_BYTES..).and_then(|rest| rest.first_chunk());
    (now / 86_400).saturating_sub(u16::from_le_bytes(*day.unwrap_or(&[0; 2])).into())
}

/// The names and rules of all zones, in the order of their names.
fn zones() -> impl Iterator<Item = (Vec<u8>, u8)> {
    let rules = usize::from(ZONES.get(RULES - 1).copied().unwrap_or(0));
    let mut rest = ZONES.get(RULES + rules * RULE..).unwrap_or_default();
    let mut name = Vec::new();
    std::iter::from_fn(move || {
        let [shared, length, tail @ ..] = rest else { return None };
        let (own, tail) = tail.split_at_checked((*length).into())?;
        let (rule, tail) = tail.split_first()?;
        name.truncate((*shared).into());
        name.extend_from_slice(own);
        rest = tail;
        Some((name.clone(), *rule))
    })
}

impl Zone {
    /// Universal time.
    pub const UTC: Zone = Zone(0);

    /// The zone with this name of the IANA database. `None` if there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Result<Zone, Unruled>> {
        let (_, rule) = zones().find(|(known, _)| known == name.as_bytes())?;
        Some(if rule == UNRULED { Err(Unruled) } else { Ok(Zone(rule)) })
    }

    /// The names of all zones.
    pub fn names() -> impl Iterator<Item = String> {
        zones().filter_map(|(name, _)| String::from_utf8(name).ok())
    }

    pub(crate) fn rule(self) -> Rule {
        let at = RULES + usize::from(self.0) * RULE;
        ZONES.get(at..).and_then(|rest| rest.first_chunk()).map_or(Rule::default(), Rule::read)
    }
}

/// The offsets of a zone in seconds, and when its summer time begins and ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rule {
    standard: i64,
    summer: i64,
    /// Begin and end. No month: there is no summer time.
    shifts: [Shift; 2],
}

/// A day of a month by its weekday, and the time by the clocks before the shift.
#[derive(Clone, Copy, Debug, Default)]
struct Shift {
    /// 1 to 12; 0 for none.
    month: i64,
    /// 1 to 5; 5 is the last one.
    week: i64,
    /// 0 is Sunday.
    weekday: i64,
    /// Seconds since midnight, which may lie outside of the day.
    time: i64,
}

impl Shift {
    /// The second of this shift by the clocks before it, in the year with this first month.
    fn in_year(self, january: i64) -> i64 {
        let month = january + self.month - 1;
        let first = day_of(month, 1);
        // 1 January 1970 was a Thursday, the day 4.
        let to_weekday = (self.weekday - first - 4).rem_euclid(7);
        let day = first + to_weekday + (self.week - 1) * 7;
        let day = if day > day_of(month, 31) { day - 7 } else { day };
        day * DAY + self.time
    }
}

impl Rule {
    fn read(bytes: &[u8; RULE]) -> Rule {
        let quarters = |byte: u8| i64::from(byte.cast_signed()) * 900;
        let [standard, summer, a, b, c, d, e, f, g, h] = *bytes;
        let shifts = [[a, b, c, d], [e, f, g, h]].map(|[month, week, weekday, quarters]| Shift {
            month: month.into(),
            week: week.into(),
            weekday: weekday.into(),
            time: (i64::from(quarters) - BEFORE_MIDNIGHT) * 900,
        });
        Rule { standard: quarters(standard), summer: quarters(summer), shifts }
    }

    /// The instants at which summer time begins and ends in a year, each with the offsets before
    /// and after it.
    #[inline(never)]
    fn shifts(&self, january: i64) -> [(i64, i64, i64); 2] {
        let Rule { standard, summer, shifts: [begin, end] } = *self;
        [
            (begin.in_year(january) - standard, standard, summer),
            (end.in_year(january) - summer, summer, standard),
        ]
    }

    fn january(at: i64) -> i64 {
        let month = month_of(at.div_euclid(DAY));
        month - month.rem_euclid(12)
    }

    /// The offset from universal time at an instant.
    #[inline(never)]
    pub(crate) fn offset_at(&self, at: i64) -> i64 {
        let [begin, _] = self.shifts;
        if begin.month == 0 {
            return self.standard;
        }
        let [(begin, ..), (end, ..)] = self.shifts(Rule::january(at));
        let is_summer = if begin < end { begin <= at && at < end } else { at < end || begin <= at };
        if is_summer { self.summer } else { self.standard }
    }

    /// The instant at which clocks show `local`: the first one if they show it twice, and the first
    /// one after it if they do not show it.
    #[inline(never)]
    pub(crate) fn instant(&self, local: i64) -> i64 {
        let [begin, _] = self.shifts;
        if begin.month == 0 {
            return local - self.standard;
        }
        for (at, before, after) in self.shifts(Rule::january(local)) {
            if (at + before..at + after).contains(&local) {
                return at;
            }
        }
        let first = local - self.standard.max(self.summer);
        let is_first = first + self.offset_at(first) == local;
        if is_first { first } else { local - self.standard.min(self.summer) }
    }
}
