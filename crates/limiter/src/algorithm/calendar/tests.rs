//! Periods that a model keeps, calendars that change all the time, clocks that step.

use super::super::{Admission, Algorithm};
use super::*;
use diana_calendar::{Unit, Zone};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// 1 January 2027.
const SINCE: u64 = 1_798_761_600;
const DAY: u64 = 86_400;

fn zone(name: &str) -> Zone {
    Zone::named(name).unwrap().unwrap()
}

fn algorithm(rpu: u64, calendar: Calendar) -> Algorithm {
    Algorithm::calendar(rpu, calendar).unwrap()
}

/// 10 units in a month that begins on this day, in UTC.
fn monthly(day: u8) -> Algorithm {
    algorithm(10, Calendar { day, ..Calendar::new(Unit::Month) })
}

fn step(algorithm: &Algorithm, cell: &mut [u8], now: Time, cost: u64) -> Verdict {
    algorithm.prepare(cell, now);
    algorithm.step(cell, now, cost)
}

fn wait(verdict: &Verdict) -> u64 {
    match verdict.admission {
        Admission::Refuse { retry_after: Some(wait) } => wait.as_secs_ceil(),
        other => panic!("{other:?}"),
    }
}

fn calendars(unit: Unit) -> impl Strategy<Value = Calendar> {
    let zones = ["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Pacific/Kiritimati"];
    let zones = prop::sample::select(zones.map(zone).to_vec());
    let parts = (zones, 1..=12u8, 1..=31u8, 0..7u8, 0..24u8);
    parts.prop_map(move |(zone, month, day, weekday, hour)| Calendar {
        unit,
        zone,
        month,
        day,
        weekday,
        hour,
    })
}

fn units() -> impl Strategy<Value = Unit> {
    prop::sample::select(vec![Unit::Day, Unit::Week, Unit::Month, Unit::Year])
}

proptest! {
    /// A model that keeps what was used of each period.
    #[test]
    fn each_period_admits_its_quota(
        (calendar, arrivals) in units().prop_flat_map(|unit| {
            let arrival = (0..2 * unit.days() * DAY / 3, 0..5u64, 0..4u8);
            (calendars(unit), prop::collection::vec(arrival, 1..60))
        }),
    ) {
        let (rule, mut cell, mut used) = (algorithm(6, calendar), vec![0; SIZE], BTreeMap::new());
        let (mut now, mut charges) = (SINCE, Vec::new());
        for (after, cost, kind) in arrivals {
            now += after;
            let period = calendar.period(now);
            let taken: &mut u64 = used.entry(period.number).or_default();
            let at = instant(now);
            if let (0, Some((number, charge))) = (kind, charges.pop()) {
                rule.prepare(&mut cell, at);
                rule.refund(&mut cell, at, charge);
                if number == period.number {
                    *taken -= charge.cost;
                }
                continue;
            }
            let verdict = step(&rule, &mut cell, at, cost);
            prop_assert_eq!(verdict.admits(), *taken + cost <= 6);
            if verdict.admits() {
                *taken += cost;
                charges.push((period.number, verdict.charge));
            } else {
                prop_assert_eq!(now + wait(&verdict), period.end);
                // Exact to the nanosecond.
                let opens = instant(period.end);
                let (mut early, mut due) = (cell.clone(), cell.clone());
                prop_assert!(!step(&rule, &mut early, Time::from_ns(opens.as_ns() - 1), cost).admits());
                prop_assert!(step(&rule, &mut due, opens, cost).admits());
            }
            prop_assert_eq!(verdict.remaining, 6 - *taken);
        }
    }

    /// Anchors and zones that change all the time, as documents, tokens and builds of another age
    /// may make them: no change frees anything, and each number has its quota once.
    #[test]
    fn a_changed_anchor_or_zone_gives_no_quota(
        (all, arrivals) in units().prop_flat_map(|unit| {
            let arrival = (0..4usize, 0..unit.days() * DAY / 2, 1..4u64);
            (prop::collection::vec(calendars(unit), 4), prop::collection::vec(arrival, 1..80))
        }),
    ) {
        let (mut cell, mut now, mut admitted) = (vec![0; SIZE], SINCE + 400 * DAY, 0);
        let numbers = |now: u64| all.iter().map(move |calendar| u64::from(calendar.period(now).number));
        let first = numbers(now).min().unwrap();
        for (which, after, cost) in arrivals {
            now += after;
            let at = instant(now);
            let verdict = step(&algorithm(6, all[which]), &mut cell, at, cost);
            admitted += verdict.charge.cost;
            let periods = numbers(now).max().unwrap() - first + 1;
            prop_assert!(admitted <= 6 * periods, "{} in {} periods", admitted, periods);
            if verdict.admits() {
                for calendar in &all {
                    let mut cell = cell.clone();
                    let look = step(&algorithm(6, *calendar), &mut cell, at, 0);
                    // A period that has begun by this calendar alone has a quota of its own.
                    let begins = calendar.period(now).number > verdict.charge.stamp.0;
                    prop_assert_eq!(look.remaining, if begins && verdict.charge.booked_at <= at { 6 } else { verdict.remaining });
                }
            }
            // Whoever forgets a state at rest gives nothing either.
            for calendar in &all {
                let rule = algorithm(6, *calendar);
                let rests = at.after(rule.rests_in(&cell, at)).after(Span::from_secs(2 * DAY));
                let (mut new, mut old) = (vec![0; SIZE], cell.clone());
                let of_new = step(&rule, &mut new, rests, 0);
                let of_old = step(&rule, &mut old, rests, 0);
                prop_assert_eq!(of_new.remaining, of_old.remaining);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_cell(
        bytes in prop::collection::vec(any::<u8>(), SIZE),
        calendar in units().prop_flat_map(calendars), now in any::<u64>(), cost in any::<u64>(),
    ) {
        let (rule, mut cell, now) = (algorithm(6, calendar), bytes, Time::from_ns(now));
        rule.prepare(&mut cell, now);
        prop_assert!(!rule.prepare(&mut cell.clone(), now), "prepared twice");
        let before = cell.clone();
        let verdict = rule.step(&mut cell, now, cost);
        prop_assert!(verdict.admits() || cell == before);
        let longest = Span::from_secs(3 * (calendar.unit.days() + 3) * DAY);
        prop_assert!(verdict.full_in <= longest);
    }
}

#[test]
fn a_month_that_begins_elsewhere_goes_on_until_both_are_over() {
    // 20 November 2027: the month from the 1st has the number of the one from the 15th.
    let (mut cell, now) = (vec![0; SIZE], 1_826_668_800);
    assert!(step(&monthly(1), &mut cell, instant(now), 10).admits());
    // From the 15th, the present month is November's, which ends on 15 December.
    let refused = step(&monthly(15), &mut cell, instant(now), 1);
    assert_eq!(now + wait(&refused), 1_828_828_800);
    assert_eq!(refused.remaining, 0);
    // From the 25th, it is October's: December, from the 25th, is the next that is not begun.
    let refused = step(&monthly(25), &mut cell, instant(now), 1);
    assert_eq!(now + wait(&refused), 1_829_692_800);
}

#[test]
fn a_clock_that_steps_back_keeps_what_was_used() {
    let (rule, mut cell) = (monthly(1), vec![0; SIZE]);
    assert!(step(&rule, &mut cell, instant(SINCE + 5), 10).admits());
    // A minute before: the new month goes on, and nothing is free when it begins.
    assert_eq!(wait(&step(&rule, &mut cell, instant(SINCE - 60), 1)), 60 + 31 * DAY);
    // Half a year before: what was used counts for the month that runs then.
    let back = SINCE - 180 * DAY;
    let refused = step(&rule, &mut cell, instant(back), 1);
    assert_eq!(back + wait(&refused), 1_785_542_400, "until August");
    assert!(step(&rule, &mut cell, instant(1_785_542_400), 1).admits());
}

#[test]
fn a_reservation_ends_with_the_period() {
    let (rule, mut cell) = (monthly(1), vec![0; SIZE]);
    let last = instant(SINCE + 31 * DAY - 1);
    rule.prepare(&mut cell, last);
    let reservation = rule.reserve(&mut cell, last, 4).unwrap();
    assert!(rule.covers(&reservation, last));
    assert!(!rule.covers(&reservation, instant(SINCE + 31 * DAY)));
    assert_eq!(rule.unit_at(last, Span::ZERO), Span::from_secs(31 * DAY));
}

#[test]
fn settling_borrows_until_the_period_ends() {
    let rule = monthly(1).borrowing(5).unwrap();
    let (mut cell, now) = (vec![0; SIZE], instant(SINCE));
    assert_eq!(rule.charge(&mut cell, now, 100).cost, 15);
    let debt = step(&rule, &mut cell, now, 1);
    assert_eq!((wait(&debt), debt.remaining), (31 * DAY, 0));
    assert_eq!(step(&rule, &mut cell, instant(SINCE + 31 * DAY), 0).remaining, 10);
}
