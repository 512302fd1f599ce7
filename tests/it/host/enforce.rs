//! Rules that are enforced for a part of their actors, in the whole filter: counted in one gateway,
//! or in a store that several gateways share.

use super::callouts::Clusters;
use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use std::rc::Rc;

const REFUSED: Fate = Fate::Answered(429);

fn rules(keys: &str) -> String {
    format!(
        r#"{{"limits": [{{"url": "/", "rules": [
            {{"name": "login", "algo": "W", "rpu": 1, "unit": "day", "enforce": "40%", {keys}}}]}}],
        "store": {{"redis": {{"cluster": "a", "secret": "sixteen letters!"}}}}}}"#
    )
}

/// The fates of the second request of each user, and what the filter shows of it.
fn second(gateway: &Gateway) -> Vec<Fate> {
    let ask = |worker: usize, user: &str| {
        let request = gateway.request(worker, "/", user);
        gateway.pass(10);
        request
    };
    let fate = |user: usize| {
        let user = format!("user-{user}");
        assert_eq!(gateway.fate(ask(0, &user)), Fate::Upstream);
        let fate = gateway.fate(ask(1, &user));
        // From the worker's cache of refusals.
        assert_eq!(gateway.fate(ask(1, &user)), fate, "{user}");
        fate
    };
    let fates = (0..40).map(fate).collect();
    // A busy worker counts at its ticks.
    gateway.pass(100);
    fates
}

#[test]
fn the_same_users_are_refused_in_every_gateway_and_scope() {
    let local = [0; 2].map(|_| Gateway::start(CasSemantics::Lenient, 2, &rules(r#""actor": "user""#)));
    let of_first = second(&local[0]);
    let refused = of_first.iter().filter(|fate| **fate == REFUSED).count();
    assert!((8..24).contains(&refused), "{refused} of 40");
    assert_eq!(of_first.iter().filter(|fate| **fate == Fate::Upstream).count(), 40 - refused);
    assert_eq!(second(&local[1]), of_first);
    assert_eq!(local[0].counter("diana.rule.login.result.ok.requests"), 40);
    assert_eq!(local[0].counter("diana.rule.login.result.refused.requests"), 2 * refused as i64);
    assert_eq!(local[0].counter("diana.rule.login.result.shadow.requests"), 2 * (40 - refused) as i64);

    for more in ["", r#", "lease": 0"#, r#", "on_error": "deny""#] {
        let clusters = Clusters::of(&["a"]);
        let keys = format!(r#""actor": "user", "scope": "global"{more}"#);
        let global = [0; 2].map(|_| {
            let gateway = Gateway::among(Rc::clone(&clusters), 2, false);
            assert!(gateway.configure(&rules(&keys)), "{:?}", gateway.world.log.borrow());
            gateway
        });
        assert_eq!(second(&global[0]), of_first, "{keys}");
        // The other gateway counts with the first one: every user has had its request.
        for (user, fate) in of_first.iter().enumerate() {
            let request = global[1].request(0, "/", &format!("user-{user}"));
            global[1].pass(10);
            assert_eq!(global[1].fate(request), *fate, "{keys}: user-{user}");
        }
        global.iter().for_each(Gateway::no_crash);
    }
}

/// What the rule would admit is leased; the part decides only about the rest.
#[test]
fn a_lease_serves_everybody_and_refuses_the_part() {
    let clusters = Clusters::of(&["a"]);
    let gateway = Gateway::among(Rc::clone(&clusters), 1, false);
    let json =
        rules(r#""actor": "user", "scope": "global", "lease": 5"#).replace(r#""rpu": 1"#, r#""rpu": 40"#);
    assert!(gateway.configure(&json), "{:?}", gateway.world.log.borrow());
    let passed = |user: usize| {
        let passes = |_: &usize| {
            let request = gateway.request(0, "/", &format!("user-{user}"));
            gateway.pass(10);
            gateway.fate(request) == Fate::Upstream
        };
        (0..60).filter(passes).count()
    };
    let of_first = second(&Gateway::start(CasSemantics::Lenient, 2, &rules(r#""actor": "user""#)));
    for (user, fate) in of_first.iter().enumerate().take(6) {
        let expected = if *fate == REFUSED { 40 } else { 60 };
        assert_eq!(passed(user), expected, "user-{user}");
    }
}

/// The store charges the other rules of a request that a rule in shadow would refuse.
#[test]
fn a_rule_in_shadow_for_a_client_hides_nothing_from_the_other_rules() {
    let of_first = second(&Gateway::start(CasSemantics::Lenient, 2, &rules(r#""actor": "user""#)));
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    let total =
        r#""scope": "global"}, {"name": "total", "actor": "user", "algo": "W", "rpu": 3, "unit": "day""#;
    let json = rules(&format!(r#""actor": "user", {total}, "scope": "global""#));
    assert!(gateway.configure(&json), "{:?}", gateway.world.log.borrow());
    for (user, fate) in of_first.iter().enumerate().take(12) {
        let passed = (0..6).filter(|_| {
            let request = gateway.request(0, "/", &format!("user-{user}"));
            gateway.pass(10);
            gateway.fate(request) == Fate::Upstream
        });
        assert_eq!(passed.count(), if *fate == REFUSED { 1 } else { 3 }, "user-{user}");
    }
}

/// Without its store, and with `on_error: deny`, the rule refuses its part.
#[test]
fn a_store_that_is_down_refuses_the_part() {
    let of_first = second(&Gateway::start(CasSemantics::Lenient, 2, &rules(r#""actor": "user""#)));
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(&rules(r#""actor": "user", "scope": "global", "on_error": "deny""#)));
    gateway.world.clusters.down.set(true);
    for (user, fate) in of_first.into_iter().enumerate() {
        let request = gateway.request(0, "/", &format!("user-{user}"));
        gateway.pass(200);
        let expected = if fate == REFUSED { Fate::Answered(503) } else { Fate::Upstream };
        assert_eq!(gateway.fate(request), expected, "user-{user}");
    }
}

/// Clients of one count in a store: a refusal that the worker has cached is not for everybody.
#[test]
fn a_cached_refusal_of_a_store_is_for_its_part_only() {
    let fates = |gateway: &Gateway| -> Vec<Fate> {
        let ask = |client: u32| {
            let parts =
                vec![(Part::Path, b"/".to_vec()), (Part::Address, format!("10.0.0.{client}:0").into_bytes())];
            let request = gateway.vms[0].ask(parts);
            gateway.pass(1);
            (0..20).for_each(|_| {
                if gateway.fate(request) == Fate::Paused {
                    gateway.pass(1);
                }
            });
            gateway.fate(request)
        };
        ask(250);
        (0..40).chain(0..40).map(ask).collect()
    };
    let local = fates(&Gateway::start(CasSemantics::Lenient, 1, &rules(r#""actor": "all""#)));
    assert!(local.contains(&REFUSED) && local.contains(&Fate::Upstream));
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, false);
    assert!(gateway.configure(&rules(r#""actor": "all", "scope": "global""#)));
    assert_eq!(fates(&gateway), local);
    assert!(gateway.counter("diana.cached_refusals") > 0);
}

/// For an actor in shadow, the access log names the rule, and no header does.
#[test]
fn a_client_in_shadow_does_not_see_the_rule() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &rules(r#""actor": "user""#));
    for user in 0..20 {
        let [_, last] = [0; 2].map(|_| gateway.request(0, "/", &format!("user-{user}")));
        let fate = gateway.fate(last);
        gateway.end_all();
        let record = gateway.world.records.borrow()[last].clone();
        let has_headers = record.headers.iter().any(|(name, _)| name.starts_with("ratelimit"));
        let attributes: Vec<(&str, &str)> =
            record.attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
        match fate {
            Fate::Upstream => {
                assert!(!has_headers, "{:?}", record.headers);
                assert_eq!(attributes, [("diana.shadow", "login")]);
            }
            fate => {
                assert_eq!(fate, REFUSED);
                assert_eq!(attributes, [("diana.rule", "login")]);
            }
        }
    }
}
