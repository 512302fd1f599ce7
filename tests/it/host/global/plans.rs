//! Plans of global rules: the store has one count for all quotas of a rule.

use super::*;
use crate::host::faults::FaultKind;

/// A gateway with these rules. The first segment of the path is the plan.
fn start(rules: &str) -> Gateway {
    let gateway = Gateway::among(Clusters::of(&["a"]), 2, false);
    let json = configuration(r#""a""#, &limit("/", rules));
    let json = json.replacen('{', r#"{"plan": {"path": 1}, "#, 1);
    assert!(gateway.configure(&json), "{:?}", gateway.world.log.borrow());
    gateway
}

const PLANS: &str = r#""plans": {"gold": {"rpu": 5}, "internal": "unlimited"}"#;

fn window(more: &str) -> String {
    format!(r#"{{"name": "w", "algo": "W", "rpu": 2, "unit": "day", "scope": "global", {PLANS}{more}}}"#)
}

#[test]
fn requests_of_all_plans_count_together() {
    let gateway = start(&window(""));
    let passes = |path: &str, times: usize| {
        (0..times).for_each(|_| assert_eq!(ask(&gateway, 0, path), Fate::Upstream, "{path}"));
    };
    passes("/", 1);
    passes("/gold", 2);
    assert_eq!(clusters(&gateway).outstanding(2, 2), 3);
    // The worker caches this refusal, which says nothing about the plan.
    assert_eq!(ask(&gateway, 0, "/"), REFUSED);
    assert_eq!(ask(&gateway, 0, "/other"), REFUSED);
    passes("/gold", 2);
    assert_eq!(ask(&gateway, 0, "/gold"), REFUSED);
    assert_eq!(ask(&gateway, 1, "/gold"), REFUSED);
    let asked = clusters(&gateway).decisions();
    passes("/internal", 20);
    assert_eq!(clusters(&gateway).decisions(), asked, "the store is not asked");
    assert_eq!(clusters(&gateway).outstanding(2, 2), 5);
    assert_eq!(gateway.counter("diana.rule.w.result.ok.requests"), 5);
    gateway.no_crash();
}

#[test]
fn permits_of_every_plan_come_back() {
    let rule = r#"{"name": "c", "algo": "C", "rpu": 1, "max_hold": "1d", "scope": "global",
        "plans": {"gold": {"rpu": 2}}}"#;
    let gateway = start(rule);
    assert_eq!(ask(&gateway, 0, "/gold"), Fate::Upstream);
    assert_eq!(ask(&gateway, 1, "/"), REFUSED);
    assert_eq!(ask(&gateway, 1, "/gold"), Fate::Upstream);
    assert_eq!(ask(&gateway, 1, "/gold"), REFUSED);
    gateway.end_all();
    gateway.pass(2_500);
    assert_eq!(ask(&gateway, 1, "/"), Fate::Upstream);
    assert_eq!(ask(&gateway, 0, "/gold"), Fate::Upstream);
    gateway.end_all();
    gateway.settle();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
}

#[test]
fn without_its_store_a_plan_follows_on_error() {
    for (on_error, free, gold) in
        [("local", REFUSED, Fate::Upstream), ("deny", Fate::Answered(503), Fate::Answered(503))]
    {
        let gateway = start(&window(&format!(r#", "on_error": "{on_error}""#)));
        clusters(&gateway).down.set(true);
        (0..2).for_each(|_| _ = ask(&gateway, 0, "/gold"));
        assert_eq!(ask(&gateway, 0, "/"), free, "{on_error}");
        assert_eq!(ask(&gateway, 0, "/gold"), gold, "{on_error}");
        assert_eq!(ask(&gateway, 0, "/internal"), Fate::Upstream, "{on_error}");
        gateway.no_crash();
    }
}

/// In the store and while it is down.
#[test]
fn what_one_plan_used_is_used_for_the_other() {
    for is_down in [false, true] {
        let rule = r#"{"name": "w", "algo": "W", "rpu": 4, "unit": "day", "scope": "global", "cost": 3,
            "plans": {"gold": {"rpu": 9}}}"#;
        let gateway = start(rule);
        clusters(&gateway).down.set(is_down);
        (0..3).for_each(|_| assert_eq!(ask(&gateway, 0, "/gold"), Fate::Upstream));
        assert_eq!([ask(&gateway, 0, "/"), ask(&gateway, 1, "/gold")], [REFUSED, REFUSED], "{is_down}");
        assert_eq!(clusters(&gateway).outstanding(2, 9), if is_down { 0 } else { 9 });
        gateway.no_crash();
    }
}

/// Each quota has a lease of its own, and the store has one count.
#[test]
fn leases_of_all_plans_spend_one_count() {
    for (algo, cost) in [("W", 1), ("SW", 1), ("W", 3), ("SW", 3)] {
        let rule = format!(
            r#"{{"name": "w", "algo": "{algo}", "rpu": 60, "unit": "day", "scope": "global", "lease": 4, "cost": {cost},
                "plans": {{"gold": {{"rpu": 180}}}}}}"#
        );
        let gateway = start(&rule);
        let (mut passed, mut of_free) = (0, 0);
        for turn in 0..600 {
            let path = if turn % 3 == 0 { "/" } else { "/gold" };
            let fate = ask(&gateway, turn % 2, path);
            passed += cost * usize::from(fate == Fate::Upstream);
            of_free += cost * usize::from(fate == Fate::Upstream && turn % 3 == 0);
            if turn == 15 && cost == 1 {
                let asked = clusters(&gateway).decisions();
                assert!(asked < 12, "{algo}: {asked} of 16 requests and their refills");
            }
            gateway.pass(110);
        }
        assert!((180 - cost..=180).contains(&passed) && of_free <= 60, "{algo}: {passed}, {of_free}");
        gateway.no_crash();
    }
}

#[test]
fn a_store_that_fails_at_random_loses_no_charge_of_a_plan() {
    let gateway = start(&window(""));
    for seed in 0..40 {
        let mut faults = CallFaults { one_in: 3, seed, ..CallFaults::default() };
        faults.faults = crate::host::callouts::ALL;
        set_call_faults(&gateway, faults);
        let plan = ["/", "/gold", "/internal"][seed as usize % 3];
        gateway.request(seed as usize, plan, "ann");
        gateway.pass(70);
    }
    gateway.fail(FaultKind::Nothing);
    gateway.end_all();
    gateway.settle();
    assert_eq!(gateway.kept_streams(), 0);
    let first = if clusters(&gateway).outstanding(2, 2) > 0 { 2 } else { 5 };
    assert!(clusters(&gateway).outstanding(2, first) <= 5);
    gateway.no_crash();
}
