//! Tests of periods of the calendar: the script chooses the period by its own clock, and counts
//! like the algorithm.

use super::redis::{Query, TestRedis, check, visible};
use diana_base::time::Time;
use diana_calendar::{Calendar, Unit, Zone};
use diana_limiter::algorithm::{Algorithm, Charge};
use proptest::prelude::*;
use proptest::sample::select;

const SECOND: u64 = 1_000_000;
/// 1 January 2027, in µs.
const SINCE: u64 = 1_798_761_600 * SECOND;

fn instant(us: u64) -> Time {
    Time::from_ns(us * 1_000)
}

fn calendars(unit: Unit) -> impl Strategy<Value = Calendar> {
    let zones = ["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"];
    let zones = select(zones.map(|name| Zone::named(name).unwrap().unwrap()).to_vec());
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

/// What a request does: by which calendar, how long after the one before, its cost, what is changed
/// afterwards, and by how much the gateway's clock is off.
type Arrival = (usize, u64, u64, u8, i64);

fn runs() -> impl Strategy<Value = (Vec<Calendar>, Vec<Arrival>)> {
    select(vec![Unit::Day, Unit::Week, Unit::Month, Unit::Year]).prop_flat_map(|unit| {
        let after = prop_oneof![4 => 0..unit.days() * 86_400 * SECOND / 2, 1 => 0..SECOND];
        let arrival = (0..3usize, after, 0..4u64, 0..6u8, -30_000_000..30_000_000i64);
        (prop::collection::vec(calendars(unit), 3), prop::collection::vec(arrival, 1..30))
    })
}

#[test]
fn periods_are_those_of_the_algorithm_whatever_the_gateways_clock_says() {
    check(300, runs(), |redis, (calendars, arrivals)| {
        let (key, mut now) = (redis.key(), SINCE);
        let mut cell = vec![0; 24];
        for (which, after, cost, kind, skew) in arrivals {
            now += after;
            let calendar = Algorithm::calendar(6, calendars[which]).unwrap().borrowing(4).unwrap();
            let parameters = calendar.parameters_at(instant(now.saturating_add_signed(skew)));
            calendar.prepare(&mut cell, instant(now));
            let verdict = calendar.step(&mut cell, instant(now), cost);
            let reply = redis.ask(now, Query::of(&key, parameters, cost));
            prop_assert_eq!(reply.visible(), visible(&verdict), "{:?} at {}", calendars[which], now);
            match kind {
                0 if reply.charge[0] > 0 => {
                    redis.refund(now, &key, parameters, reply.charge);
                    calendar.refund(&mut cell, instant(now), verdict.charge);
                }
                1 => {
                    redis.correct(now, &key, parameters, reply.charge, reply.charge[0] + 7);
                    calendar.settle(&mut cell, instant(now), verdict.charge, verdict.charge.cost + 7);
                }
                // A charge of the last period is refunded nowhere.
                2 => {
                    let old = Charge { booked_at: instant(now - now % SECOND), cost: 3, ..verdict.charge };
                    let numbers = [3, now, old.booked_at.as_ns() / 1_000, old.stamp.0.into(), 0];
                    redis.refund(now, &key, parameters, numbers);
                    calendar.refund(&mut cell, instant(now), old);
                }
                _ => {}
            }
        }
        Ok(())
    });
}

/// Two gateways whose zone data differ by an hour of summer time count one month together, and its
/// quota once: a month begins when the stored one has ended, for the first of them whose own has.
#[test]
fn gateways_with_zone_data_of_different_age_share_each_quota() {
    let (redis, day, hour) = (TestRedis::start(), 86_400 * SECOND, 3_600 * SECOND);
    let month = |zone| {
        let zone = Zone::named(zone).unwrap().unwrap();
        Algorithm::calendar(10, Calendar { zone, ..Calendar::new(Unit::Month) }).unwrap()
    };
    let (new, old) = (month("Africa/Cairo"), month("Etc/GMT-2"));
    // 1 July by summer time, which the old data do not know: by them, it comes an hour later.
    let july = SINCE + 181 * day - 3 * hour;
    let key = redis.key();
    let ask = |rule: &Algorithm, now: u64, cost| {
        redis.ask(now, Query::of(&key, rule.parameters_at(instant(now)), cost)).visible()
    };
    assert_eq!(ask(&old, july - day, 10).2, 0);
    // The old data wrote when June ends, and that holds for both.
    assert_eq!(ask(&new, july, 1).1, hour);
    assert_eq!(ask(&old, july, 1).1, hour);
    assert_eq!(ask(&new, july + hour, 10).2, 0);
    assert_eq!(ask(&old, july + hour, 1).0, 1);
    // The new data wrote when July ends. It ends then for those who have it.
    let august = july + 31 * day;
    assert_eq!(ask(&old, august, 1).1, hour);
    assert_eq!(ask(&new, august, 10).2, 0);
    assert_eq!([ask(&old, august + 1, 1).0, ask(&old, august + hour, 1).0], [1, 1]);
}

/// The clock of the gateway is two months behind: it never says that a wait is over.
#[test]
fn a_clock_that_is_far_behind_waits_a_second() {
    let (redis, rule) = (TestRedis::start(), Algorithm::calendar(1, Calendar::new(Unit::Day)).unwrap());
    let (key, parameters) = (redis.key(), rule.parameters_at(instant(SINCE)));
    let late = SINCE + 5 * 86_400 * SECOND;
    assert_eq!(redis.ask(late, Query::of(&key, parameters, 1)).outcome, 0);
    assert_eq!(redis.ask(late, Query::of(&key, parameters, 1)).wait, SECOND);
}
