//! Requests that wait for a store while their configuration is replaced. When they have ended,
//! nothing stays reserved.

use super::*;

const LOCAL: &str = r#"{"name": "local", "algo": "ALGO", "rpu": 400, "unit": "day"}"#;
const GLOBAL: &str = r#"{"name": "global", "algo": "W", "rpu": 9000, "unit": "day", "scope": "global"}"#;

/// Some requests begin, their configuration is replaced, and the store replies.
fn reload_while_the_store_is_asked(limits: &str, after: &str, requests: usize) -> Gateway {
    let gateway = start(1, limits);
    for _ in 0..requests {
        gateway.request(0, "/", "ann");
        gateway.pass(1);
    }
    let requests: Vec<usize> = (0..requests).map(|_| gateway.request(0, "/", "ann")).collect();
    assert!(requests.iter().all(|request| gateway.fate(*request) == Fate::Paused));
    gateway.world.configuration.replace(configuration(r#""a""#, after));
    assert!(gateway.vms[0].configure_again());
    gateway.pass(20);
    assert!(requests.iter().all(|request| gateway.fate(*request) == Fate::Upstream));
    gateway
}

fn passed(gateway: &Gateway) -> usize {
    gateway.world.records.borrow().iter().filter(|record| record.went.is_some()).count()
}

/// The actor is busy, so an active worker would reserve quota.
#[test]
fn requests_of_a_retired_configuration_reserve_nothing() {
    for algo in ["TB", "W", "SW"] {
        let local = LOCAL.replace("ALGO", algo);
        let before = limit("/", &format!("{GLOBAL}, {local}"));
        let gateway = reload_while_the_store_is_asked(&before, &limit("/", &local), 9);
        // Reservations of the active configuration return within this time.
        gateway.pass(200);
        (0..500).for_each(|_| _ = gateway.request(0, "/", "ann"));
        gateway.pass(200);
        (0..500).for_each(|_| _ = gateway.request(0, "/", "ann"));
        assert_eq!(passed(&gateway), 400, "{algo}");
        gateway.no_crash();
    }
}

/// A lease that the store grants to a worker that is retired meanwhile is returned.
#[test]
fn a_lease_granted_to_a_retired_configuration_is_returned() {
    for (algo, kind, first) in [("TB", 1, 864_000_000), ("W", 2, 100)] {
        let leased = format!(
            r#"{{"name": "leased", "algo": "{algo}", "rpu": 100, "unit": "day", "scope": "global", "lease": 10}}"#
        );
        let gateway = start(1, &limit("/", &leased));
        let request = gateway.request(0, "/", "ann");
        gateway.world.configuration.replace(configuration(r#""a""#, &limit("/other", GLOBAL)));
        assert!(gateway.vms[0].configure_again());
        gateway.pass(20);
        assert_eq!((gateway.fate(request), clusters(&gateway).decisions()), (Fate::Upstream, 1));
        assert_eq!(clusters(&gateway).outstanding(kind, first), 1, "{algo}");
    }
}

/// The rest of a bucket's lease is returned at once; otherwise it would count as spent.
#[test]
fn the_rest_of_a_buckets_lease_is_returned_with_its_configuration() {
    let leased =
        r#"{"name": "leased", "algo": "TB", "rpu": 100, "unit": "day", "scope": "global", "lease": 10}"#;
    let gateway = start(1, &limit("/", leased));
    assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
    assert_eq!(clusters(&gateway).outstanding(1, 864_000_000), 11);
    gateway.world.configuration.replace(configuration(r#""a""#, &limit("/other", GLOBAL)));
    assert!(gateway.vms[0].configure_again());
    gateway.pass(20);
    assert_eq!(clusters(&gateway).outstanding(1, 864_000_000), 1);
}
