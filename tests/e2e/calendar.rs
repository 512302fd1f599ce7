//! Periods of the calendar, in Envoy and in Redis.

use crate::global::{Shared, shared_rule};
use crate::start;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use diana_calendar::{Calendar, Period, Unit, Zone};
use serde_json::json;
use std::time::SystemTime;

fn berlin() -> Zone {
    Zone::named("Europe/Berlin").unwrap().unwrap()
}

fn present(calendar: Calendar) -> (u64, Period) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    (now, calendar.period(now))
}

/// A number of the header `ratelimit`, or of its policy.
fn number(header: &str, key: &str) -> u64 {
    let rest = header.split(&format!(";{key}=")).nth(1).unwrap_or_else(|| panic!("{header}"));
    rest.split([';', ',']).next().unwrap().parse().unwrap()
}

#[test]
fn a_month_is_true_to_the_second_and_may_be_refused_with_403() {
    let gateway = start(json!({"headers": "ietf", "response": {"jitter": "0%"}, "limits": [
        {"url": "/", "response": {"status": 403}, "rules": [{"name": "month", "algo": "W", "rpu": 1, "unit": "month",
            "anchor": {"day": 31, "hour": 6}, "timezone": "Europe/Berlin"}]},
        {"url": "/day", "rules": [{"name": "day", "algo": "W", "rpu": 1, "unit": "day", "timezone": "Europe/Berlin"}]}]}));
    let month = Calendar { day: 31, hour: 6, zone: berlin(), ..Calendar::new(Unit::Month) };
    let first = gateway.get("/", &[]).unwrap();
    assert_eq!(first.status, 200);
    let refused = gateway.get("/", &[]).unwrap();
    let (now, period) = present(month);
    assert_eq!(refused.status, 403);
    let policy = refused.header("ratelimit-policy").unwrap();
    assert_eq!(number(policy, "w"), period.end - period.start);
    // The gateway has answered at most two seconds before.
    let left = period.end - now;
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((left..=left + 2).contains(&wait), "{wait} of {left}");
    assert!((left..=left + 2).contains(&number(refused.header("ratelimit").unwrap(), "t")));
    assert_eq!(gateway.get("/day", &[]).unwrap().status, 403, "the month refuses as well");
}

#[test]
fn the_claim_of_a_token_is_the_first_day_and_another_frees_nothing() {
    let gateway = start(json!({"headers": "ietf", "limits": [{"url": "/", "rules": [
        {"name": "month", "actor": "user", "algo": "W", "rpu": 3, "unit": "month", "timezone": "Europe/Berlin",
            "anchor": {"day": {"jwt": "billing.day", "default": 1}}}]}]}));
    let get = |user: &str, day: u8| {
        let token = URL_SAFE_NO_PAD.encode(json!({"billing": {"day": day}}).to_string());
        let token = format!("Bearer e30.{token}.c2ln");
        gateway.get("/", &[("x-user-id", user), ("authorization", &token)]).unwrap()
    };
    for day in [1, 15, 31] {
        let response = get(&format!("user-{day}"), day);
        let (now, period) = present(Calendar { day, zone: berlin(), ..Calendar::new(Unit::Month) });
        let left = period.end - now;
        let found = number(response.header("ratelimit").unwrap(), "t");
        assert!((left..=left + 2).contains(&found), "{found} of {left} from day {day}");
    }
    assert_eq!([1, 9, 20, 31].map(|day| get("ann", day).status), [200, 200, 200, 429]);
}

#[test]
fn gateways_count_one_month_together() {
    let keys =
        json!({"algo": "W", "rpu": 3, "unit": "month", "timezone": "Europe/Berlin", "anchor": {"day": 31}});
    let shared = Shared::start(&json!([shared_rule("/", "tenant", &keys)]));
    let get = |gateway: usize| shared.gateways[gateway].get("/", &[("x-user-id", "ann")]).unwrap();
    assert_eq!([get(0), get(1), get(0), get(1)].map(|response| response.status), [200, 200, 200, 429]);
    let refused = get(0);
    let (now, period) = present(Calendar { day: 31, zone: berlin(), ..Calendar::new(Unit::Month) });
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    let left = period.end - now;
    // At most a fifth of jitter.
    assert!((left..=left + left / 5 + 2).contains(&wait), "{wait} of {left}");
}
