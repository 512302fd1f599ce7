//! Days and months of the Gregorian calendar, counted from January 1970. The formulas are those of
//! Howard Hinnant, *chrono-Compatible Low-Level Date Algorithms*: a year begins in March, so that a
//! leap day is its last one.

/// The seconds of a day.
pub const DAY: i64 = 86_400;

/// The days from 1 March of the year 0 to 1 January 1970.
const EPOCH: i64 = 719_468;
/// The days of 400 years.
const ERA: i64 = 146_097;

/// The month of a day: 0 is January 1970.
#[inline(never)]
pub fn month_of(day: i64) -> i64 {
    let day = day + EPOCH;
    let (era, of_era) = (day.div_euclid(ERA), day.rem_euclid(ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // 0 is March.
    let month = (5 * of_year + 2) / 153;
    (era * 400 + year - 1_970) * 12 + month + 2
}

/// Day `of_month` of a month, from 1, or the last day of a shorter month.
pub fn day_of(month: i64, of_month: i64) -> i64 {
    (first_day(month) + of_month - 1).min(first_day(month + 1) - 1)
}

/// The year, the month and the day of the month of a day, each from 1.
pub fn date(day: i64) -> [i64; 3] {
    let month = month_of(day);
    [1_970 + month.div_euclid(12), month.rem_euclid(12) + 1, day - first_day(month) + 1]
}

#[inline(never)]
fn first_day(month: i64) -> i64 {
    let (year, month) = ((month - 2).div_euclid(12) + 1_970, (month - 2).rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5;
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH
}
