//! Limits that come with the request.

use super::check;
use crate::harness::{Gateway, at, get};
use diana_limiter::cells::store::Memory;
use diana_limiter::request::Part;

fn document(rule: &str) -> String {
    format!(
        r#"{{"plan": {{"header": "x-plan"}}, "limits": [{{"url": "/", "rules": [{{"name": "r", "actor": "user",
            "rpu": {{"header": "x-limit", "default": 3, "max": 10}}, "unit": "day", {rule}}}]}}]}}"#
    )
}

#[test]
fn what_was_used_stays_used_under_each_limit() {
    for algorithm in ["W", "SW", "SL", "TB"] {
        check(
            &document(&format!(r#""algo": "{algorithm}""#)),
            "0ms        user=ann                GET / -> pass r=2
             0ms        user=ann x-limit=5      GET / -> pass r=3
             0ms   w1   user=ann x-limit=2      GET / -> refuse r
             150ms      user=ann x-limit=99     GET / -> pass r=7
             150ms w1   user=ann                GET / -> refuse r
             150ms 7x   user=ann x-limit=10     GET / -> pass
             150ms      user=ann x-limit=10     GET / -> refuse r
             300ms      user=bob x-limit=1      GET / -> pass r=0",
        );
    }
}

#[test]
fn what_is_no_whole_number_from_1_counts_as_none() {
    let numbers = ["0", "-4", "4.5", "4e0", "0x4", "four", "4,9", "", "٤", "+4"];
    let mut gateway = Gateway::new(&document(r#""algo": "W""#), Memory::new());
    for (index, number) in numbers.into_iter().enumerate() {
        let request = get("/", &format!("user-{index}")).with(Part::Header("x-limit".into()), number);
        let decision = gateway.ask(0, &request, at(0));
        assert_eq!(decision.checks[0].configured().rpu, 3, "{number}");
    }
    for (number, limit) in [("4", 4), (" 4 ", 4), ("007", 7), ("11", 10), ("99999999999999999999999", 10)] {
        let request = get("/", number).with(Part::Header("x-limit".into()), number);
        let decision = gateway.ask(0, &request, at(0));
        assert_eq!(decision.checks[0].configured().rpu, limit, "{number}");
    }
}

#[test]
fn overrides_and_plans_state_their_own_number_or_take_that_of_the_request() {
    check(
        &document(
            r#""algo": "TB", "burst": "2x", "overrides": {"eve": {"rpu": 1}},
               "plans": {"fixed": {"rpu": 2}, "small": {"burst": "1x"}}"#,
        ),
        "0ms user=ann x-limit=4                GET / -> pass r=7
         0ms user=eve x-limit=4                GET / -> pass r=1
         0ms user=bob x-plan=fixed x-limit=4   GET / -> pass r=3
         0ms user=cyd x-plan=small x-limit=4   GET / -> pass r=3
         0ms user=dan x-plan=small             GET / -> pass r=2",
    );
}

#[test]
fn a_request_that_costs_more_than_its_limit_passes_alone() {
    check(
        &document(r#""algo": "W", "cost": 3"#),
        "0ms user=ann x-limit=1 GET / -> pass r=0
         0ms user=ann x-limit=1 GET / -> refuse r
         0ms user=ann x-limit=6 GET / -> pass r=0",
    );
}

#[test]
fn headroom_follows_and_leaves_room_for_one_request() {
    let json = r#"{"limits": [
        {"url": "/", "rules": [{"name": "r", "actor": "user", "algo": "W", "unit": "day", "headroom": "50%",
            "rpu": {"header": "x-limit", "default": 4, "max": 10}}]},
        {"url": "/high", "priority": "high", "rules": []}]}"#;
    check(
        json,
        "0ms    user=ann x-limit=8 GET /     -> pass r=3
         0ms    user=bob x-limit=1 GET /     -> pass r=0
         0ms 3x user=ann x-limit=8 GET /     -> pass
         0ms    user=ann x-limit=8 GET /     -> refuse r
         0ms    user=ann x-limit=8 GET /high -> pass r=3",
    );
}

#[test]
fn permits_follow_the_request() {
    check(
        r#"{"limits": [{"url": "/", "rules": [{"name": "r", "actor": "user", "algo": "C",
            "rpu": {"header": "x-limit", "default": 1, "max": 3}}]}]}"#,
        "0ms user=ann           GET / -> pass r=0
         0ms user=ann           GET / -> refuse r
         0ms user=ann x-limit=9 GET / -> pass r=1
         0ms user=ann x-limit=3 GET / -> pass r=0
         0ms user=ann x-limit=3 GET / -> refuse r
         1s 3x settle
         1s  user=ann           GET / -> pass r=0",
    );
}
