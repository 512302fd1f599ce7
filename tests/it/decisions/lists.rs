//! The allow list and the deny list.

use super::check;

const LIMIT: &str =
    r#""limits": [{"url": "/", "rules": [{"name": "user", "actor": "user", "rpu": 1, "unit": "hour"}]}]"#;

#[test]
fn networks_are_allowed_and_denied() {
    check(
        &format!(
            r#"{{"allow": ["10.0.0.0/8", "2001:db8::/32"], "deny": ["192.0.2.7", "2001:db9::1"], {LIMIT}}}"#
        ),
        "0ms 3x user=ann ip=10.9.8.7       GET / -> allowed none
         0ms 3x user=ann ip=[2001:db8::1]:80 GET / -> allowed none
         0ms 3x user=ann ip=192.0.2.7:5000 GET / -> denied none
         0ms    user=ann ip=2001:db9::1    GET / -> denied
         0ms    user=ann ip=::ffff:192.0.2.7 GET / -> denied
         0ms    user=ann ip=2001:db9::2    GET / -> pass user=0
         0ms    user=ann ip=192.0.2.8      GET / -> refuse user
         0ms    user=ann ip=11.0.0.0       GET / -> refuse user
         0ms    user=ann                   GET / -> refuse user",
    );
}

#[test]
fn actors_are_allowed_and_denied() {
    check(
        &format!(r#"{{"allow": [{{"user": ["ann", "bob"]}}], "deny": [{{"device": "stolen"}}], {LIMIT}}}"#),
        "0ms 3x user=ann GET / -> allowed
         0ms 3x user=bob GET / -> allowed
         0ms    user=cyd device=stolen GET / -> denied
         0ms    user=cyd device=Stolen GET / -> pass
         0ms    user=cyd GET / -> refuse user
         0ms    device=ann GET / -> pass",
    );
}

#[test]
fn a_value_is_listed_for_its_own_actor_only() {
    check(
        &format!(
            r#"{{"deny": [{{"user": ["eve", "mal"]}}, {{"device": ["stolen", "lost"]}}, {{"user": "dan"}}], {LIMIT}}}"#
        ),
        "0ms user=eve device=own    GET / -> denied
         0ms user=mal device=own    GET / -> denied
         0ms user=dan device=own    GET / -> denied
         0ms user=ann device=stolen GET / -> denied
         0ms user=ann device=lost   GET / -> denied
         0ms user=stolen device=eve GET / -> pass user=0
         0ms user=lost device=dan   GET / -> pass user=0",
    );
}

#[test]
fn a_client_on_both_lists_is_denied() {
    check(
        &format!(r#"{{"allow": ["10.0.0.0/8"], "deny": ["10.0.0.7"], {LIMIT}}}"#),
        "0ms ip=10.0.0.7 GET / -> denied
         0ms ip=10.0.0.8 GET / -> allowed",
    );
}

/// A client that the deny list only reports is still on the allow list.
#[test]
fn a_client_that_is_denied_in_shadow_may_be_allowed() {
    for keys in [r#""mode": "shadow""#, r#""enforce": "0%""#] {
        check(
            &format!(r#"{{{keys}, "allow": ["10.0.0.0/8"], "deny": ["10.0.0.7", "192.0.2.7"], {LIMIT}}}"#),
            "0ms 3x user=ann ip=10.0.0.7  GET / -> allowed denied-in-shadow none
             0ms    user=ann ip=192.0.2.7 GET / -> pass denied-in-shadow user=0
             0ms    user=bob ip=10.0.0.8  GET / -> allowed none",
        );
    }
}

#[test]
fn lists_apply_without_a_limit() {
    let json =
        r#"{"deny": ["192.0.2.7"], "limits": [{"url": "/api", "rules": [{"rpu": 1, "unit": "hour"}]}]}"#;
    check(
        json,
        "0ms ip=192.0.2.7 GET /other -> denied
         0ms ip=192.0.2.8 GET /other -> pass none",
    );
}

#[test]
fn lists_know_the_client_behind_trusted_proxies() {
    check(
        &format!(r#"{{"ip": {{"trusted_hops": 1}}, "deny": ["192.0.2.7"], {LIMIT}}}"#),
        "0ms user=ann ip=10.0.0.1 x-forwarded-for=192.0.2.7 GET / -> denied
         0ms user=ann ip=10.0.0.1 x-forwarded-for=192.0.2.7,192.0.2.8 GET / -> pass",
    );
}
