//! The verdict about a candidate.

use super::*;

/// The previous document has no store to query, so it would admit actors over their limits.
#[test]
fn an_unchanged_global_rule_rolls_nothing_back() {
    let shared =
        rules(r#"{"name": "w", "actor": "user", "algo": "W", "rpu": 3, "unit": "day", "scope": "global"}"#);
    let gateway = with_canary(1, &shared, 100, "5%", STORE);
    for user in 0..40 {
        assert_eq!(passes(&gateway, 3, 10, &format!("user-{user}")), 3);
    }
    put_candidate(&gateway, &with_unused_rule(&shared, "b"));
    gateway.pass(62_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1);
    gateway.pass(1_000);
    for user in 0..40 {
        assert_eq!(passes(&gateway, 1, 10, &format!("user-{user}")), 0);
    }
    gateway.pass(2_000);
    assert_eq!(gateway.world.logged("rolled back"), 0, "{:?}", log_lines(&gateway));
}

/// Each gateway then counts a part, while the previous document would be compared with the whole.
#[test]
fn a_store_outage_rolls_nothing_back() {
    let store = STORE.replace(r#""secret""#, r#""replicas": 5, "secret""#);
    let shared =
        rules(r#"{"name": "w", "actor": "user", "algo": "W", "rpu": 100, "unit": "day", "scope": "global"}"#);
    let gateway = with_canary(1, &shared, 100, "5%", &store);
    put_candidate(&gateway, &with_unused_rule(&shared, "b"));
    gateway.pass(62_000);
    assert_eq!(gateway.world.logged("config promoted: "), 1);
    gateway.pass(1_000);
    set_call_faults(
        &gateway,
        CallFaults { faults: &[CallFault::Unavailable], one_in: 1, ..CallFaults::default() },
    );
    // Polls fail as well, which does not matter for so short a time.
    let passed = passes(&gateway, 60, 10, "ann");
    assert_eq!(passed, 20, "a fifth");
    set_call_faults(&gateway, CallFaults::default());
    gateway.pass(3_000);
    assert_eq!(gateway.world.logged("rolled back"), 0, "{:?}", log_lines(&gateway));
}

/// Clients on a list are compared for a tenth of them, like all others.
#[test]
fn clients_on_a_list_are_sampled_like_others() {
    let quota = r#"{"name": "w", "actor": "user", "algo": "W", "rpu": 1000, "unit": "day"}"#;
    let denies = rules(quota).replacen(
        '{',
        r#"{"deny": [{"user": "user-0"}, {"user": "user-1"}, {"user": "user-2"}, {"user": "user-3"}], "#,
        1,
    );
    let gateway = with_canary(1, &rules(quota), 10, "10%", "");
    put_candidate(&gateway, &denies);
    for user in 0..100 {
        passes(&gateway, 5, 1, &format!("user-{user}"));
    }
    let [same, refused, _] = comparisons(&gateway);
    gateway.pass(60_500);
    assert_eq!(
        gateway.world.logged(" not promoted: "),
        0,
        "4 of 100 users, but {refused} of {}",
        same + refused
    );
}

/// The source is the same whatever the token, so its document is not the first one.
#[test]
fn another_token_activates_no_rejected_document() {
    let gateway =
        gateway(1, &rules(r#"{"name": "w", "actor": "user", "algo": "W", "rpu": 9, "unit": "day"}"#));
    let with = |token: &str| {
        configuration(&format!(
            r#", "headers": {{"authorization": "{token}"}}, "canary": {{"percent": 100, "hold": "1m"}}"#
        ))
    };
    assert!(gateway.configure(&with("one")));
    gateway.pass(1_000);
    put_candidate(&gateway, &document(431));
    passes(&gateway, 5, 1, "ann");
    gateway.pass(61_000);
    assert_eq!(gateway.world.logged(" not promoted: "), 1);
    assert!(gateway.configure(&with("two")));
    let at_once = gateway.fate(gateway.request(0, "/", "bob"));
    gateway.pass(2_000);
    let later = gateway.fate(gateway.request(0, "/", "bob"));
    assert_eq!(
        (at_once, later),
        (Fate::Upstream, Fate::Upstream),
        "the active document; never the rejected one"
    );
}

/// Admitting one of them does not make up for another.
#[test]
fn a_tenant_is_not_the_user_of_the_same_number() {
    let document = |a: u32, b: u32| {
        format!(
            r#"{{"actors": {{"tenant": {{"path": 2}}}}, "limits": [
                {{"url": "/a", "rules": [{{"name": "a", "actor": "user", "algo": "W", "rpu": {a}, "unit": "day"}}]}},
                {{"url": "/b", "rules": [{{"name": "b", "actor": "tenant", "algo": "W", "rpu": {b}, "unit": "day"}}]}}]}}"#
        )
    };
    let gateway = with_canary(1, &document(1, 100), 100, "5%", "");
    put_candidate(&gateway, &document(100, 1));
    for _ in 0..50 {
        for path in ["/a", "/b/7"] {
            gateway.request(0, path, "7");
            gateway.end_all();
        }
    }
    assert_eq!(comparisons(&gateway)[1], 49);
    gateway.pass(61_000);
    assert_eq!(gateway.world.logged(" not promoted: "), 1, "{:?}", log_lines(&gateway));
}

/// If the host fails while the candidate is built, the worker tries again and again.
#[test]
fn the_log_says_why_a_document_is_not_activated() {
    let gateway = start(2, &document(430));
    gateway.pass(1_000);
    assert_eq!(active_statuses(&gateway), [430; 2]);
    // What the first worker has found out about the host, and what each switch reads again.
    gateway.world.overwrite(|bytes| {
        if bytes == b"lenient" {
            *bytes = b"strict".into();
        }
    });
    put_document(&gateway, &document(431));
    gateway.pass(60_000);
    let warned = gateway.world.log.borrow().iter().filter(|(level, _)| *level >= 3).count();
    assert!(
        active_statuses(&gateway) == [431; 2] || warned > 0,
        "{:?} serve, and {:?}",
        active_statuses(&gateway),
        log_lines(&gateway)
    );
}

/// A gateway has few tenants, none of them in the sample. The document becomes active, and then
/// they are compared as well.
#[test]
fn a_candidate_without_compared_requests_is_still_watched() {
    let quota = |rpu: u32| {
        rules(&format!(r#"{{"name": "t", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day"}}"#))
    };
    let gateway = with_canary(1, &quota(1_000_000), 10, "5%", "");
    put_candidate(&gateway, &quota(2));
    // Nine of ten actors, which the canary does not sample.
    let unheard: Vec<String> = (0..60)
        .map(|user| format!("tenant-{user}"))
        .filter(|user| {
            let before: i64 = comparisons(&gateway).iter().sum();
            passes(&gateway, 1, 0, user);
            comparisons(&gateway).iter().sum::<i64>() == before
        })
        .take(5)
        .collect();
    put_document(&gateway, &quota(3));
    gateway.pass(1_200);
    for _ in 0..100 {
        unheard.iter().for_each(|user| assert_eq!(passes(&gateway, 1, 1, user), 1));
    }
    gateway.pass(61_000);
    let mut refused = 0;
    for _ in 0..100 {
        refused += unheard.iter().filter(|user| passes(&gateway, 1, 10, user) == 0).count();
    }
    gateway.pass(61_000);
    let generation = gateway.counter("diana.config.generation");
    assert!(generation != 2 || refused == 0, "{refused} of 500 requests refused: {:?}", log_lines(&gateway));
}

/// What counts is which actors would be admitted.
#[test]
fn a_flood_that_both_documents_refuse_hides_nobody() {
    let quota = |rpu: u32| {
        format!(
            r#"{{"deny": [{{"user": "bot"}}], "limits": [{{"url": "/", "rules": [
                {{"name": "u", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "day"}}]}}]}}"#
        )
    };
    let gateway = with_canary(1, &quota(1_000), 100, "5%", "");
    put_candidate(&gateway, &quota(0));
    for user in 0..40 {
        passes(&gateway, 25, 1, "bot");
        assert_eq!(passes(&gateway, 1, 1, &format!("user-{user}")), 1);
    }
    assert_eq!(comparisons(&gateway), [1_000, 40, 0]);
    gateway.pass(61_000);
    assert_eq!(
        gateway.world.logged("config promoted: "),
        0,
        "all 40 of the users would be refused: {:?}",
        log_lines(&gateway)
    );
}

/// Removing a list admits the actors that it refused.
#[test]
fn a_removed_list_is_compared() {
    let quota = r#"{"name": "w", "actor": "user", "algo": "W", "rpu": 9, "unit": "day"}"#;
    let denies = rules(quota).replacen('{', r#"{"deny": [{"user": "ann"}], "#, 1);
    let gateway = with_canary(1, &denies, 100, "0%", "");
    put_candidate(&gateway, &rules(quota));
    assert_eq!((passes(&gateway, 3, 1, "ann"), passes(&gateway, 3, 1, "bob")), (0, 3));
    assert_eq!(comparisons(&gateway), [0, 0, 3], "both documents admit bob");
}
