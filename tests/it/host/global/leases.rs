//! Leases in the whole filter: all workers spend them, a timer fetches them, and they are returned
//! when they lapse.

use super::*;

fn leased(algo: &str, rpu: u64, lease: u64) -> String {
    let rule = format!(
        r#"{{"name": "leased", "algo": "{algo}", "rpu": {rpu}, "unit": "day", "scope": "global", "lease": {lease}}}"#
    );
    limit("/", &rule)
}

/// A request that is decided without a call.
fn at_once(gateway: &Gateway, worker: usize) -> Fate {
    let request = gateway.request(worker, "/", "ann");
    gateway.fate(request)
}

/// A lease of ten: the first request brings the lease. When less than half is left, the timer
/// refills the lease.
#[test]
fn the_timer_refills_a_lease_that_is_half_spent() {
    let gateway = start(2, &leased("W", 100, 10));
    assert_eq!((ask(&gateway, 0, "/"), clusters(&gateway).decisions()), (Fate::Upstream, 1));
    assert_eq!(clusters(&gateway).outstanding(2, 100), 11);
    // The other worker spends the lease, too.
    for worker in 0..5 {
        assert_eq!(at_once(&gateway, worker), Fate::Upstream, "{worker}");
        gateway.pass(10);
    }
    assert_eq!((clusters(&gateway).decisions(), clusters(&gateway).outstanding(2, 100)), (1, 11));
    assert_eq!((at_once(&gateway, 1), clusters(&gateway).decisions()), (Fate::Upstream, 1));
    gateway.pass(10);
    assert_eq!(
        (clusters(&gateway).decisions(), clusters(&gateway).outstanding(2, 100)),
        (2, 17),
        "once, the missing six"
    );
    for worker in 0..10 {
        assert_eq!(at_once(&gateway, worker), Fate::Upstream, "{worker}");
    }
    gateway.no_crash();
}

/// Many requests arrive at once, without a lease: in each worker one request brings a lease.
#[test]
fn of_many_requests_at_once_one_fetches_a_lease() {
    let gateway = start(1, &leased("W", 100, 10));
    let requests: Vec<usize> = (0..11).map(|_| gateway.request(0, "/", "ann")).collect();
    gateway.pass(20);
    assert_eq!(fates(&gateway, &requests), vec![Fate::Upstream; 11]);
    assert_eq!(clusters(&gateway).outstanding(2, 100), 11 + 10);
}

/// If many workers begin at once, they do not fetch a lease each. Otherwise requests would be
/// refused although returned quota is on its way.
#[test]
fn of_many_workers_one_fetches_and_nobody_is_refused_early() {
    for (algo, kind, first) in [("TB", 1, 864_000_000), ("W", 2, 100), ("SW", 3, 100)] {
        let gateway = start(24, &leased(algo, 100, 5));
        let mut went = 0;
        while went < 100 {
            let requests: Vec<usize> = (0..24).map(|worker| gateway.request(worker, "/", "ann")).collect();
            gateway.pass(1);
            let held = clusters(&gateway).outstanding(kind, first) - gateway_went(&gateway);
            assert!(held <= 5, "{algo}: {held} held of {went}");
            gateway.pass(40);
            let passed = fates(&gateway, &requests).iter().filter(|fate| **fate == Fate::Upstream).count();
            went += passed;
            // Near the end a lease may be on its way to one worker while the store refuses another
            // worker.
            assert!(passed == 24 || went >= 95, "{algo}: {passed} of 24, {went} went");
            assert!(passed > 0, "{algo}: {went} went");
        }
        assert_eq!(went, 100, "{algo}");
        gateway.no_crash();
    }
}

/// The store refuses one worker while another worker fetches the rest. The gateway's lease takes
/// precedence over the cached refusal.
#[test]
fn a_lease_takes_precedence_over_a_cached_refusal() {
    let mut refused = 0;
    for seed in 0..20 {
        // The store grants all it has at once, because enough arrives within a second.
        let rule = leased("TB", 24 * 86_400, 3).replace(r#""unit""#, r#""burst": 4, "unit""#);
        let gateway = start(2, &rule);
        clusters(&gateway).call_faults.replace(CallFaults {
            longest_us: 20_000,
            seed,
            ..CallFaults::default()
        });
        let requests = [0, 1].map(|worker| gateway.request(worker, "/", "ann"));
        gateway.pass(50);
        if fates(&gateway, &requests) == [Fate::Upstream, REFUSED] {
            refused += 1;
            assert_eq!(at_once(&gateway, 1), Fate::Upstream, "{seed}");
        }
    }
    assert!(refused > 0);
}

fn gateway_went(gateway: &Gateway) -> i64 {
    let records = gateway.world.records.borrow();
    records.iter().filter(|record| record.went.is_some() || record.fate == Fate::Paused).count() as i64
}

/// Quota above one lease is returned.
#[test]
fn a_gateway_holds_no_more_than_its_lease() {
    let numbers = [("TB", 1, 172_800_000), ("W", 2, 500), ("SW", 3, 500)];
    for (algo, kind, first) in numbers {
        let gateway = start(4, &leased(algo, 500, 20));
        let mut went = 0;
        for turn in 0..60 {
            let requests: Vec<usize> =
                (0..1 + (turn + 3) % 9).map(|worker| gateway.request(worker, "/", "ann")).collect();
            // The lease has been fetched, and the surplus returned.
            gateway.pass(30);
            assert_eq!(fates(&gateway, &requests), vec![Fate::Upstream; requests.len()], "{algo}");
            went += requests.len() as i64;
            let held = clusters(&gateway).outstanding(kind, first) - went;
            assert!((0..=20).contains(&held), "{algo}: {held} held at turn {turn}");
        }
        gateway.no_crash();
    }
}

#[test]
fn all_of_a_quota_is_spent_and_no_more() {
    for algo in ["W", "TB"] {
        let gateway = start(3, &leased(algo, 50, 7));
        let fates: Vec<Fate> = (0..60).map(|worker| ask(&gateway, worker, "/")).collect();
        assert!(fates[..50].iter().all(|fate| *fate == Fate::Upstream), "{algo}: {fates:?}");
        assert!(fates[50..].iter().all(|fate| *fate == REFUSED), "{algo}: {fates:?}");
        gateway.no_crash();
    }
}

/// A lease is not fetched if another rule of the request has none, because it could not be spent.
#[test]
fn no_lease_is_fetched_if_another_rule_has_none() {
    let leased = r#"{"name": "leased", "actor": "user", "algo": "W", "rpu": 50, "unit": "day", "scope": "global", "lease": 7}"#;
    // One rule needs a query for each request, and the other never leases.
    for other in [r#""algo": "W", "rpu": 1000"#, r#""algo": "TB", "rpu": 86400000, "burst": 1, "lease": 1"#] {
        let other = format!(r#"{{"name": "other", {other}, "unit": "day", "scope": "global"}}"#);
        let gateway = start(1, &limit("/", &format!("{leased}, {other}")));
        let fates: Vec<Fate> = (0..51).map(|_| ask(&gateway, 0, "/")).collect();
        let passed = fates.iter().filter(|fate| **fate == Fate::Upstream).count();
        assert!((43..=50).contains(&passed), "{passed} of 50 beside {other}");
        gateway.no_crash();
    }
}

/// The worker keeps the value of an actor with a lease for seconds, so a client may not choose its
/// length freely.
#[test]
fn an_actor_with_a_long_value_gets_no_lease() {
    let gateway = start(1, &leased("W", 100, 10).replace(r#""algo""#, r#""actor": "user", "algo""#));
    for (letters, fetched) in [(200, 10), (2_000, 0)] {
        let (user, before) = ("a".repeat(letters), clusters(&gateway).outstanding(2, 100));
        let request = gateway.request(0, "/", &user);
        gateway.pass(10);
        assert_eq!(gateway.fate(request), Fate::Upstream);
        assert_eq!(clusters(&gateway).outstanding(2, 100) - before, 1 + fetched, "{letters}");
    }
}

/// The unspent part of a bucket's lease returns after two seconds; the spent part does not.
#[test]
fn an_expired_lease_of_a_bucket_is_accounted_for() {
    let gateway = start(2, &leased("TB", 50, 20));
    let fates: Vec<Fate> = (0..5).map(|worker| ask(&gateway, worker, "/")).collect();
    assert_eq!(fates, vec![Fate::Upstream; 5]);
    // The store grants an eighth of what is left, twice: six units and five.
    assert_eq!((clusters(&gateway).decisions(), clusters(&gateway).outstanding(1, BUCKET_50)), (2, 12));
    gateway.pass(2_500);
    assert_eq!(clusters(&gateway).outstanding(1, BUCKET_50), 5);
    let mut rest = 0;
    while ask(&gateway, rest, "/") == Fate::Upstream {
        rest += 1;
    }
    assert_eq!(rest, 45);
}

/// The time of one token at 50 a day, µs.
const BUCKET_50: u64 = 1_728_000_000;

/// An actor that was busy for seconds leaves; nothing of its leases is lost.
#[test]
fn the_unspent_part_of_many_leases_returns() {
    let gateway = start(2, &leased("TB", 50, 8));
    let fates: Vec<Fate> = (0..30)
        .map(|worker| {
            gateway.pass(150);
            ask(&gateway, worker, "/")
        })
        .collect();
    assert_eq!(fates, vec![Fate::Upstream; 30]);
    gateway.pass(3_000);
    assert_eq!(clusters(&gateway).outstanding(1, BUCKET_50), 30);
}

/// The rest of a window's lease lapses with the window, and a window has charged the lease.
#[test]
fn a_lease_of_a_window_keeps_no_timer() {
    let gateway = start(1, &leased("W", 100, 10));
    assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
    gateway.pass(200);
    assert_eq!(gateway.vms[0].next_tick(), None);
}

/// The rest of a slice's lease returns when the slice ends, because the slice counts for longer. No
/// timer runs before.
#[test]
fn the_unspent_part_of_a_slices_lease_returns() {
    let gateway = start(2, &leased("SW", 100, 10));
    let fates: Vec<Fate> = (0..3).map(|worker| ask(&gateway, worker, "/")).collect();
    assert_eq!(fates, vec![Fate::Upstream; 3]);
    gateway.pass(200);
    assert_eq!(clusters(&gateway).outstanding(3, 100), 11);
    let slice_ms = 8_640_000;
    let next = gateway.vms[0].next_tick().expect("the end of the slice").0;
    let ms = (next - gateway.world.clock.get()) / 1_000_000;
    assert!((1_000..=slice_ms).contains(&ms), "{ms} ms");
    gateway.pass(ms + 110);
    assert_eq!((clusters(&gateway).outstanding(3, 100), gateway.vms[0].next_tick()), (3, None));
}

/// While the store is down, requests are counted locally.
#[test]
fn a_store_that_is_down_leases_nothing() {
    let gateway = start(1, &leased("W", 100, 10));
    assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
    clusters(&gateway).down.set(true);
    (0..60).for_each(|_| _ = ask(&gateway, 0, "/"));
    assert!(gateway.counter("diana.rule.leased.degraded") > 40);
    assert_eq!(gateway.world.logged("is not asked until it answers a probe"), 1);
    clusters(&gateway).down.set(false);
    gateway.pass(2_000);
    let before = gateway.counter("diana.rule.leased.degraded");
    assert_eq!(
        (ask(&gateway, 0, "/"), gateway.counter("diana.rule.leased.degraded")),
        (Fate::Upstream, before)
    );
}

/// The plugin is replaced and then removed. Its leases are still there for the new plugin.
#[test]
fn a_reload_keeps_leases() {
    let gateway = start(1, &leased("W", 100, 10));
    assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
    let vm = &gateway.vms[0];
    let old = vm.oldest_root().unwrap();
    assert!(vm.configure());
    gateway.end_all();
    vm.delete_root(old);
    assert_eq!((at_once(&gateway, 0), clusters(&gateway).decisions()), (Fate::Upstream, 1));
    gateway.no_crash();
}

/// Host calls cost more than everything else. With a lease a request makes as many as with a local
/// rule.
#[test]
fn a_leased_request_makes_no_more_calls_than_a_local_one() {
    let calls = |rule: &str| {
        let gateway =
            start(1, &limit("/", &rule.replace("RULE", r#""algo": "W", "rpu": 100000, "unit": "day""#)));
        let calls = |_| {
            let before = gateway.world.called.get();
            assert_eq!(at_once(&gateway, 0), Fate::Upstream);
            let calls = gateway.world.called.get() - before;
            gateway.pass(1);
            calls
        };
        assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
        (0..1_000).map(calls).skip(8).collect::<Vec<usize>>()
    };
    let (local, leased) = (calls("{RULE}"), calls(r#"{RULE, "scope": "global", "lease": "20%"}"#));
    let middle = |mut calls: Vec<usize>| *calls.select_nth_unstable(500).1;
    assert_eq!((middle(local.clone()), middle(leased.clone())), (1, 1), "the clock");
    // From time to time a worker renews the quota that it spends by itself.
    let most = |calls: Vec<usize>| calls.into_iter().max();
    assert!(most(leased) <= most(local).map(|most| most + 2));
}

/// Two gateways of two workers refuse a third of the requests of one actor: the number of calls,
/// and of admitted requests, in a second.
fn overload(algo: &str) -> (usize, usize) {
    const WARM_UP: usize = 2_000;
    const MS: usize = 4_000;
    let clusters = Clusters::of(&["a"]);
    let rule = format!(
        r#"{{"name": "leased", "algo": "{algo}", "rpu": 1000, "unit": "second", "scope": "global", "lease": "20%"}}"#
    );
    let gateways: Vec<Gateway> = (0..2)
        .map(|_| {
            let gateway = Gateway::among(Rc::clone(&clusters), 2, false);
            assert!(gateway.configure(&configuration(r#""a""#, &limit("/", &rule))));
            gateway
        })
        .collect();
    let passed = || {
        let of = |gateway: &Gateway| gateway.counter("diana.rule.leased.result.ok.requests") as usize;
        gateways.iter().map(of).sum::<usize>()
    };
    let calls = || gateways.iter().map(|one| one.counter("diana.store.a.calls") as usize).sum::<usize>();
    let (mut before, mut turn) = ((0, 0), 0);
    for ms in 0..WARM_UP + MS {
        if ms == WARM_UP {
            before = (calls(), passed());
        }
        for _ in 0..1 + ms % 2 {
            turn += 1;
            _ = gateways[turn % 2].request(turn / 2 % 2, "/", "ann");
        }
        Gateway::pass_all(&gateways, 1);
    }
    gateways.iter().for_each(Gateway::no_crash);
    ((calls() - before.0) * 1_000 / MS, (passed() - before.1) * 1_000 / MS)
}

/// After a refusal a worker queries again when a lease may be available, and not on each request.
#[test]
fn a_refused_actor_costs_few_calls_and_gets_all_of_its_quota() {
    for algo in ["TB", "W"] {
        let (calls, passed) = overload(algo);
        println!(
            "{algo}: {calls} calls and {passed} requests passed a second, of 1,500 and a quota of 1,000"
        );
        assert!(calls <= 250, "{algo}: {calls} calls a second");
        assert!((950..=1_050).contains(&passed), "{algo}: {passed} passed a second");
    }
}
