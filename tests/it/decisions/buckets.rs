//! Quotas over time, as a whole policy keeps them.

use super::check;

fn rule(keys: &str) -> String {
    format!(r#"{{"url": "/", "rules": [{{"name": "r", "actor": "user", {keys}}}]}}"#)
}

#[test]
fn a_full_bucket_empties_and_refills() {
    check(
        &rule(r#""rpu": 2, "unit": "500ms", "burst": 3"#),
        "0ms 3x  user=ann GET / -> pass
         0ms     user=ann GET / -> refuse r retry=250ms
         249ms   user=ann GET / -> refuse r retry=1ms
         250ms   user=ann GET / -> pass r=0
         250ms   user=ann GET / -> refuse r retry=250ms
         1250ms  user=ann GET / -> pass r=2
         9s      user=ann GET / -> pass r=2",
    );
}

#[test]
fn a_third_of_a_second_is_exact() {
    check(
        &rule(r#""rpu": 3, "unit": "second", "burst": 1"#),
        "0ms         user=ann GET / -> pass
         333333333ns user=ann GET / -> refuse r retry=1ns
         333333334ns user=ann GET / -> pass
         666666666ns user=ann GET / -> refuse r retry=2ns",
    );
}

#[test]
fn an_empty_bucket_fills() {
    check(
        &rule(r#""rpu": 2, "unit": "second", "start": "empty""#),
        "0ms      user=ann GET / -> refuse r retry=500ms
         300ms w1 user=ann GET / -> refuse r retry=200ms
         499ms w2 user=ann GET / -> refuse r retry=1ms
         500ms w3 user=ann GET / -> pass r=0
         500ms    user=ann GET / -> refuse r retry=500ms
         9s       user=ann GET / -> pass r=1
         9s       user=bob GET / -> refuse r retry=500ms",
    );
}

#[test]
fn a_new_cell_that_refuses_is_stored_although_others_refuse() {
    let json = r#"{"url": "/", "rules": [
        {"name": "saved", "actor": "user", "rpu": 1, "unit": "second", "start": "empty"},
        {"name": "total", "rpu": 1, "unit": "2s"}]}"#;
    check(
        json,
        "0ms      user=ann GET / -> refuse saved retry=1s saved=refused total=1
         1s       user=ann GET / -> pass saved=0 total=0
         1s       user=bob GET / -> refuse total retry=2s saved=refused total=refused
         3s       user=bob GET / -> pass saved=0 total=0",
    );
    // The reverse: a new cell that admits is stored although another rule refuses.
    let json = r#"{"url": "/", "rules": [
        {"name": "saved", "actor": "user", "rpu": 1, "unit": "second", "start": "empty", "mode": "shadow"},
        {"name": "closed", "rpu": 0, "unit": "second"}]}"#;
    check(
        json,
        "0ms      user=ann GET / -> refuse closed saved=shadowed closed=refused
         2s       user=ann GET / -> refuse closed saved=1 closed=refused",
    );
}

#[test]
fn a_rule_of_zero_refuses_every_request() {
    check(
        &rule(r#""rpu": 0, "unit": "second""#),
        "0ms  user=ann GET / -> refuse r retry=never r=refused
         1d   user=ann GET / -> refuse r retry=never r=refused",
    );
}

#[test]
fn a_clock_that_steps_back_frees_nothing_and_locks_nobody_out() {
    check(
        &rule(r#""rpu": 1, "unit": "minute""#),
        "1d        user=ann GET / -> pass
         1h        user=ann GET / -> refuse r retry=1m
         1h     w1 user=ann GET / -> refuse r retry=1m
         3659s  w2 user=ann GET / -> refuse r retry=1s
         3660s  w3 user=ann GET / -> pass
         3660s     user=ann GET / -> refuse r retry=1m",
    );
}

#[test]
fn a_worker_whose_clock_lags_frees_nothing() {
    check(
        &rule(r#""rpu": 10, "unit": "10ms", "burst": 5"#),
        "10ms    5x user=ann GET / -> pass
         9ms     w1 user=ann GET / -> refuse r
         10ms    w2 user=ann GET / -> refuse r
         9ms     w3 user=ann GET / -> refuse r
         10ms    w4 user=ann GET / -> refuse r
         11ms    w5 user=ann GET / -> pass r=0",
    );
}
