//! A plugin gets a new configuration while the previous one still has streams: rules keep their
//! counts.

use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;

/// A limit of `rpu` a day, and beside it a bucket.
fn rules(rpu: u32, bucket: u32) -> String {
    format!(
        r#"[{{"url": "/", "rules": [
            {{"name": "day", "actor": "user", "algo": "W", "rpu": {rpu}, "unit": "7d"}},
            {{"name": "bucket", "actor": "user", "rpu": {bucket}, "unit": "7d"}}]}}]"#
    )
}

/// How many of ann's requests pass before the first refusal.
fn passes(gateway: &Gateway) -> usize {
    let ask = |turn: usize| {
        let request = gateway.request(turn, "/", "ann");
        gateway.fate(request) == Fate::Upstream
    };
    (0..1_000).take_while(|turn| ask(*turn)).count()
}

#[test]
fn a_new_plugin_keeps_counts() {
    let gateway = Gateway::start(CasSemantics::Lenient, 2, &rules(5, 1_000));
    (0..3).for_each(|turn| _ = gateway.request(turn, "/", "ann"));
    assert!(gateway.configure(&rules(5, 900)));
    assert_eq!(passes(&gateway), 2);
    assert!(gateway.configure(&rules(5, 800)), "and once more");
    assert_eq!(passes(&gateway), 0);
    assert!(gateway.configure(&rules(6, 800)), "another quota");
    assert_eq!(passes(&gateway), 1);
    gateway.no_crash();
}

#[test]
fn a_bucket_of_a_new_plugin_with_another_quota_keeps_what_was_used() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &rules(1_000, 10));
    assert_eq!(passes(&gateway), 10);
    assert!(gateway.configure(&rules(1_000, 20)));
    assert_eq!(passes(&gateway), 10);
}

/// The same plugin gets a new configuration, as with a remote document.
#[test]
fn a_bucket_of_a_plugin_that_is_configured_again_keeps_what_was_used() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &rules(1_000, 10));
    (0..5).for_each(|turn| _ = gateway.request(turn, "/", "ann"));
    gateway.world.configuration.replace(rules(1_000, 20));
    assert!(gateway.vms[0].configure_again());
    assert_eq!(passes(&gateway), 15);
    gateway.world.configuration.replace(rules(12, 20));
    assert!(gateway.vms[0].configure_again());
    assert_eq!(passes(&gateway), 0);
}

/// Two listeners share a `vm_id`: a name is an identity, numbers are not.
#[test]
fn two_listeners_count_rules_of_one_name_together_and_others_apart() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &rules(5, 1_000));
    assert_eq!(passes(&gateway), 5);
    assert!(gateway.configure(&rules(7, 2_000)), "the other listener");
    assert_eq!(passes(&gateway), 2);
    let other = rules(7, 2_000).replace(r#""day""#, r#""another""#);
    assert!(gateway.configure(&other));
    assert_eq!(passes(&gateway), 7);
}

/// A worker's reservation is refunded before the next configuration reads the cell.
#[test]
fn a_reservation_is_refunded_before_the_next_configuration_reads_the_cell() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &rules(10_000, 20_000));
    (0..100).for_each(|turn| _ = gateway.request(turn, "/", "ann"));
    gateway.world.configuration.replace(rules(10_000, 40_000));
    assert!(gateway.vms[0].configure_again());
    gateway.world.configuration.replace(rules(200, 40_000));
    assert!(gateway.vms[0].configure_again());
    assert_eq!(passes(&gateway), 100);
    gateway.world.configuration.replace(rules(300, 300));
    assert!(gateway.vms[0].configure_again());
    assert_eq!(passes(&gateway), 100);
}

/// The end of an old request frees its permit in a new plugin with another number of permits.
#[test]
fn a_release_frees_a_permit_of_a_new_plugin() {
    let permits = |rpu: u32| {
        format!(
            r#"[{{"url": "/", "rules": [{{"actor": "user", "algo": "C", "rpu": {rpu}, "max_hold": "1h"}}]}}]"#
        )
    };
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &permits(1));
    let take = || {
        let request = gateway.request(0, "/", "ann");
        (gateway.fate(request) == Fate::Upstream).then_some(request)
    };
    let first = take().unwrap();
    assert_eq!(take(), None);
    assert!(gateway.configure(&permits(2)));
    let second = take().unwrap();
    assert_eq!(take(), None, "two are out");
    gateway.vms[0].serve_request(first);
    assert!(take().is_some());
    assert_eq!(take(), None);
    gateway.vms[0].serve_request(second);
    assert!(take().is_some());
    gateway.no_crash();
}

/// How many host calls the end of a request takes if it began before a reload, with this many
/// limits.
fn calls_at_the_end(limits: usize) -> usize {
    let rules = |quota: u32| {
        let limit = |n: usize| {
            format!(
                r#"{{"url": "/{n}", "rules": [{{"name": "c{n}", "algo": "C", "rpu": 5}},
                    {{"name": "w{n}", "algo": "W", "rpu": {quota}, "unit": "day"}}]}}"#
            )
        };
        format!("[{}]", (0..limits).map(limit).collect::<Vec<_>>().join(", "))
    };
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &rules(50));
    let request = gateway.request(0, "/0", "ann");
    gateway.world.configuration.replace(rules(60));
    assert!(gateway.vms[0].configure_again());
    gateway.request(0, "/0", "ann");
    let before = gateway.world.called.get();
    gateway.vms[0].serve_request(request);
    gateway.no_crash();
    gateway.world.called.get() - before
}

#[test]
fn the_end_of_a_request_costs_the_same_host_calls_for_any_number_of_limits() {
    assert_eq!(calls_at_the_end(1), calls_at_the_end(20));
}
