//! `jiff` is the oracle: it reads the same database and knows nothing of our tables.

use super::*;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

/// December 2026, since when all rules of the table hold, and the end of 2040.
const SINCE: i64 = 1_796_083_200;
const UNTIL: i64 = 2_240_611_200;

fn zone(name: &str) -> Zone {
    Zone::named(name).unwrap().unwrap()
}

fn ruled() -> Vec<(String, Zone, TimeZone)> {
    let zone = |name: String| {
        let (zone, oracle) = (Zone::named(&name)?.ok()?, TimeZone::get(&name).unwrap());
        Some((name, zone, oracle))
    };
    Zone::names().filter_map(zone).collect()
}

/// The first instant at which clocks show `local`, or the first one after it.
fn first(oracle: &TimeZone, local: DateTime) -> i64 {
    let at = |offset: Offset| offset.to_timestamp(local).unwrap();
    match oracle.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => at(offset).as_second(),
        AmbiguousOffset::Fold { before, .. } => at(before).as_second(),
        AmbiguousOffset::Gap { after, .. } => {
            let before = at(after) - SignedDuration::from_secs(1);
            oracle.following(before).next().unwrap().timestamp().as_second()
        }
    }
}

/// The first instants of the periods from 2026 to 2041, in order.
fn boundaries(calendar: &Calendar, oracle: &TimeZone) -> Vec<i64> {
    let begins = |date: Date| match calendar.unit {
        Unit::Day => true,
        Unit::Week => date.weekday() == Weekday::from_monday_zero_offset(calendar.weekday as i8).unwrap(),
        Unit::Month => date.day() == (calendar.day as i8).min(date.days_in_month()),
        Unit::Year => {
            date.month() == calendar.month as i8
                && date.day() == (calendar.day as i8).min(date.days_in_month())
        }
    };
    let days = Date::constant(2026, 12, 1).series(jiff::Span::new().days(1));
    let days = days.take_while(|date| date.year() <= 2040).filter(|date| begins(*date));
    let time = Time::constant(calendar.hour as i8, 0, 0, 0);
    days.map(|date| first(oracle, date.to_datetime(time))).collect()
}

#[test]
fn instants_are_written_as_the_oracle_writes_them() {
    for at in (0..18_000_000_000).step_by(1_234_567).chain([951_782_399, 951_868_799, 951_868_800]) {
        assert_eq!(timestamp(at), Timestamp::from_second(at as i64).unwrap().to_string());
    }
}

#[test]
fn every_zone_has_the_offsets_of_the_database() {
    let zones = ruled();
    assert!(zones.len() > 550, "{}", zones.len());
    for (name, zone, oracle) in zones {
        let offset = |at: i64| {
            let at = Timestamp::from_second(at).unwrap();
            i64::from(oracle.to_offset(at).seconds())
        };
        let shifts = oracle.following(Timestamp::from_second(SINCE).unwrap());
        let shifts = shifts.map(|shift| shift.timestamp().as_second()).take_while(|at| *at < UNTIL);
        let around = shifts.flat_map(|at| [at - 1, at, at + 1]);
        for at in around.chain((SINCE..UNTIL).step_by(1_000_003)) {
            assert_eq!(zone.rule().offset_at(at), offset(at), "{name} at {at}");
        }
    }
}

#[test]
fn days_of_every_zone_begin_when_the_database_says() {
    for (name, zone, oracle) in ruled() {
        for hour in [0, 2, 3] {
            let calendar = Calendar { zone, hour, ..Calendar::new(Unit::Day) };
            let boundaries = boundaries(&calendar, &oracle);
            for pair in boundaries.windows(3).filter(|pair| pair[1] - pair[0] != 86_400) {
                let period = calendar.period(u64::try_from(pair[0]).unwrap());
                let found = [period.start, period.end, period.next_end].map(|at| i64::try_from(at).unwrap());
                assert_eq!(found, pair, "{name}, {hour} h");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn periods_are_those_of_a_list_of_dates(
        which in any::<prop::sample::Index>(), unit in 0..4, month in 1..=12u8, day in 1..=31u8,
        weekday in 0..7u8, hour in 0..24u8, at in SINCE + 800 * 86_400..UNTIL - 800 * 86_400,
    ) {
        let zones = ruled();
        let (name, zone, oracle) = which.get(&zones);
        let unit = [Unit::Day, Unit::Week, Unit::Month, Unit::Year][usize::try_from(unit).unwrap()];
        let calendar = Calendar { unit, zone: *zone, month, day, weekday, hour };
        let boundaries = boundaries(&calendar, oracle);
        let after = boundaries.partition_point(|begins| *begins <= at);
        let at = u64::try_from(at).unwrap();
        let period = calendar.period(at);
        let expected = [after - 1, after, after + 1].map(|index| boundaries[index] as u64);
        prop_assert_eq!([period.start, period.end, period.next_end], expected, "{} {:?}", name, calendar);
        // The numbers are in a row.
        let next = calendar.period(period.end);
        prop_assert_eq!((next.number, next.start), (period.number + 1, period.end));
        prop_assert_eq!(calendar.period(period.end - 1), period);
    }
}

#[test]
fn a_month_from_the_31st_ends_on_the_last_day_of_shorter_months() {
    let calendar = Calendar { day: 31, ..Calendar::new(Unit::Month) };
    let date = |at: u64| Timestamp::from_second(at as i64).unwrap().strftime("%m-%d").to_string();
    let mut at = SINCE as u64;
    for year in 2027..=2031 {
        let february = if year == 2028 { "02-29" } else { "02-28" };
        let dates = [
            "12-31", "01-31", february, "03-31", "04-30", "05-31", "06-30", "07-31", "08-31", "09-30",
            "10-31", "11-30",
        ];
        for expected in dates {
            at = calendar.period(at).end;
            assert_eq!(date(at), expected, "{year}");
        }
    }
}

/// Both shifts of six zones: midnight before the shift, and the length of this day in minutes.
#[test]
fn days_have_23_to_25_hours() {
    for (name, spring, autumn, shift) in [
        ("Europe/Berlin", "2027-03-28", "2027-10-31", 60),
        ("America/New_York", "2027-03-14", "2027-11-07", 60),
        // Clocks go from midnight to 1:00, so the day begins at 1:00.
        ("America/Santiago", "2027-09-05", "2027-04-03", 60),
        ("Africa/Cairo", "2027-04-30", "2027-10-28", 60),
        ("Asia/Beirut", "2027-03-28", "2027-10-30", 60),
        ("Australia/Lord_Howe", "2027-10-03", "2027-04-04", 30),
    ] {
        let oracle = TimeZone::get(name).unwrap();
        let calendar = Calendar { zone: zone(name), ..Calendar::new(Unit::Day) };
        for (date, minutes) in [(spring, 24 * 60 - shift), (autumn, 24 * 60 + shift)] {
            let noon: DateTime = format!("{date}T12:00").parse().unwrap();
            let noon = oracle.to_timestamp(noon).unwrap().as_second() as u64;
            let day = calendar.period(noon);
            assert_eq!((day.end - day.start) / 60, minutes, "{name} {date}");
        }
    }
}

#[test]
fn an_hour_that_clocks_skip_is_the_instant_of_the_shift_and_one_twice_the_first() {
    let berlin = Calendar { zone: zone("Europe/Berlin"), hour: 2, ..Calendar::new(Unit::Day) };
    // 28 March 2027, when 2:00 is 3:00, which is 1:00 UTC.
    assert_eq!(berlin.period(1_806_200_000).start, 1_806_195_600);
    // 31 October 2027, when 2:00 is at 0:00 UTC, and at 1:00 UTC again.
    assert_eq!(berlin.period(1_824_950_000).start, 1_824_940_800);
}

#[test]
fn zones_without_a_rule_are_refused_and_the_table_has_an_age() {
    assert_eq!(Zone::named("Asia/Gaza"), Some(Err(Unruled)));
    assert_eq!(Zone::named("Europe/berlin"), None);
    assert_eq!(Zone::named("UTC"), Some(Ok(Zone::UTC)));
    let taken = age_days(u64::MAX / 2);
    let day = u64::MAX / 2 / 86_400 - taken;
    assert_eq!((age_days(day * 86_400), age_days((day + 366) * 86_400 + 5)), (0, 366));
    assert_eq!(age_days(0), 0, "a clock that is not set");
    assert!(version().starts_with("20") && version().len() >= 5);
}

#[test]
fn the_first_and_the_last_instants_have_periods() {
    for unit in [Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
        for name in ["UTC", "Pacific/Kiritimati", "America/New_York", "Pacific/Niue"] {
            let calendar = Calendar { zone: zone(name), day: 31, hour: 23, ..Calendar::new(unit) };
            for at in [0, 1, 18_446_744_073] {
                let period = calendar.period(at);
                assert!(period.start <= at && at < period.end && period.end < period.next_end, "{period:?}");
            }
        }
    }
}
