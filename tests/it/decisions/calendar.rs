//! Periods of the calendar.

use super::check;
use crate::harness::{Gateway, get};
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::Memory;
use diana_limiter::request::Part;

fn document(rule: &str) -> String {
    format!(
        r#"{{"plan": {{"header": "x-plan"}}, "limits": [{{"url": "/", "rules": [{{"name": "r", "actor": "user", "algo": "W",
            "rpu": 2, {rule}}}]}}]}}"#
    )
}

/// 20 November 2027, noon UTC.
const NOVEMBER: u64 = 1_826_712_000;

fn wait(gateway: &mut Gateway<Memory>, now: u64, day: &str) -> Option<u64> {
    let request = get("/", "ann").with(Part::Header("x-day".into()), day);
    let decision = gateway.ask(0, &request, Time::ZERO.after(Span::from_secs(now)));
    decision.checks[0].verdict().map(|verdict| verdict.full_in.as_secs_ceil())
}

#[test]
fn a_month_ends_where_its_time_zone_says() {
    for (rule, ends) in [
        (r#""unit": "month""#, 1_827_619_200),
        (r#""unit": "month", "timezone": "Europe/Berlin""#, 1_827_615_600),
        (r#""unit": "month", "anchor": {"day": 31, "hour": 6}, "timezone": "Europe/Berlin""#, 1_827_550_800),
        (r#""unit": "week""#, 1_826_841_600),
        (r#""unit": "week", "anchor": {"weekday": "sunday"}"#, 1_826_755_200),
        (r#""unit": "day", "timezone": "Australia/Lord_Howe""#, 1_826_715_600),
        (r#""unit": "year", "anchor": {"month": 2, "day": 29}"#, 1_835_395_200),
    ] {
        let mut gateway = Gateway::new(&document(rule), Memory::new());
        assert_eq!(wait(&mut gateway, NOVEMBER, ""), Some(ends - NOVEMBER), "{rule}");
    }
}

#[test]
fn a_request_brings_the_day_on_which_its_month_begins() {
    let json = document(r#""unit": "month", "anchor": {"day": {"header": "x-day", "default": 1}}"#);
    // The month from the 25th is October's until the 25th, and ends then.
    for (day, ends) in [
        ("25", 1_827_100_800),
        ("1", 1_827_619_200),
        ("31", 1_827_532_800),
        ("0", 1_827_619_200),
        ("32", 1_827_619_200),
        ("first", 1_827_619_200),
    ] {
        let mut gateway = Gateway::new(&json, Memory::new());
        assert_eq!(wait(&mut gateway, NOVEMBER, day), Some(ends - NOVEMBER), "{day}");
    }
    // Another day frees nothing.
    check(
        &json,
        "0ms    user=ann x-day=5  GET / -> pass r=1
         0ms    user=ann x-day=20 GET / -> pass r=0
         0ms w1 user=ann x-day=7  GET / -> refuse r
         0ms    user=ann          GET / -> refuse r
         150ms  user=bob x-day=7  GET / -> pass r=1",
    );
}

#[test]
fn plans_and_overrides_have_their_own_quota_anchor_and_zone() {
    check(
        &document(
            r#""unit": "month", "overrides": {"eve": {"rpu": 1, "anchor": {"day": 15}}},
               "plans": {"gold": {"rpu": 9, "timezone": "Asia/Tokyo"}}"#,
        ),
        "0ms 2x user=ann             GET / -> pass
         0ms    user=ann             GET / -> refuse r
         0ms    user=eve             GET / -> pass r=0
         0ms    user=ann x-plan=gold GET / -> pass r=6",
    );
}

/// Also of a plan in UTC beside a rule in another zone.
#[test]
fn plans_in_all_zones_share_the_count_of_a_day() {
    check(
        &document(r#""unit": "day", "timezone": "Europe/Berlin", "plans": {"gold": {"timezone": "UTC"}}"#),
        "0ms user=ann             GET / -> pass r=1
         0ms user=ann x-plan=gold GET / -> pass r=0",
    );
}
