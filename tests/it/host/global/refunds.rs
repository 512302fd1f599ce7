//! Which charges of a global store are refunded, however a request ends.

use super::*;

#[test]
fn permits_come_back_when_requests_end() {
    let gateway = start(2, &limit("/", PERMITS));
    let fates: Vec<Fate> = (0..3).map(|worker| ask(&gateway, worker, "/")).collect();
    assert_eq!(
        (fates, clusters(&gateway).outstanding(7, 2)),
        (vec![Fate::Upstream, Fate::Upstream, REFUSED], 2)
    );
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).outstanding(7, 2), ask(&gateway, 0, "/")), (0, Fate::Upstream));
}

/// The request leaves before the store has replied; its query is in the call or still in the queue.
#[test]
fn a_request_that_leaves_during_a_query_is_charged_nothing() {
    let gateway = start(1, &limit("/", PERMITS));
    // The first call uploads the script.
    assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
    gateway.end_all();
    gateway.pass(10);
    let requests: Vec<usize> = (0..2).map(|_| gateway.request(0, "/", "ann")).collect();
    let vm = &gateway.vms[0];
    vm.streams().into_iter().for_each(|id| vm.reset(id));
    assert!(requests.iter().all(|request| gateway.fate(*request) == Fate::Reset));
    gateway.pass(10);
    assert_eq!((clusters(&gateway).decisions(), clusters(&gateway).reports()), (2, 2));
    assert_eq!((clusters(&gateway).outstanding(7, 2), gateway.kept_streams()), (0, 0));
}

/// The store lacks the script, so it has charged nothing, and no request waits for the reply.
#[test]
fn a_call_without_its_script_is_not_repeated_for_ended_requests() {
    let gateway = start(1, &limit("/", PERMITS));
    gateway.request(0, "/", "ann");
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).decisions(), clusters(&gateway).outstanding(7, 2)), (0, 0));
}

/// A request that gives up is decided locally. The host waits for the reply for longer, and the
/// late reply is refunded.
#[test]
fn a_late_reply_is_refunded() {
    let gateway = start(1, &limit("/", WINDOW));
    // The first call uploads the script.
    assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
    let late = CallFaults { longest_us: 900_000, ..CallFaults::default() };
    let mut is_late = false;
    for seed in 0..40 {
        set_call_faults(&gateway, CallFaults { seed, ..late.clone() });
        let (request, before) = (gateway.request(0, "/", "ann"), clusters(&gateway).refunds());
        gateway.pass(50);
        is_late = gateway.counter("diana.rule.window.degraded") > 0;
        assert_ne!(gateway.fate(request), Fate::Paused);
        set_call_faults(&gateway, CallFaults::default());
        gateway.pass(1_000);
        if is_late {
            assert_eq!(clusters(&gateway).refunds(), before + 1);
            break;
        }
        gateway.pass(86_400_000);
    }
    assert!(is_late, "no answer was late");
}

/// The worker was held up. It sees the timeout before the reply, which says what was charged.
#[test]
fn a_reply_after_the_timeout_is_refunded() {
    let gateway = start(1, &limit("/", PERMITS));
    // The first call uploads the script.
    assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream);
    let request = gateway.request(0, "/", "ann");
    let (vm, clock) = (&gateway.vms[0], &gateway.world.clock);
    clock.set(clock.get() + 200_000_000);
    vm.tick(vm.newest_root().unwrap());
    assert_eq!(gateway.fate(request), Fate::Upstream);
    gateway.end_all();
    gateway.pass(10);
    assert_eq!(clusters(&gateway).outstanding(7, 2), 0);
    gateway.no_crash();
}

/// While the host resumes one request, the host ends others that wait for the same reply.
#[test]
fn a_request_that_ends_while_its_reply_is_handled_is_refunded() {
    let gateway = Gateway::among(Clusters::of(&["a"]), 1, true);
    assert!(
        gateway.configure(&configuration(r#""a""#, &limit("/", &PERMITS.replace("2, \"max", "9, \"max"))))
    );
    // The first call brings the script alone; the other queries go in the next call.
    let requests: Vec<usize> = (0..5).map(|_| gateway.request(0, "/", "ann")).collect();
    gateway.pass(3);
    gateway.world.breaks.set(true);
    gateway.pass(10);
    let gone = fates(&gateway, &requests).into_iter().filter(|fate| *fate == Fate::Reset).count();
    assert!((1..5).contains(&gone), "{gone}");
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).outstanding(7, 9), gateway.kept_streams()), (0, 0));
    gateway.no_crash();
}

#[test]
fn a_request_that_another_rule_refuses_is_refunded() {
    let local = r#"{"name": "local", "algo": "W", "rpu": 1, "unit": "day"}"#;
    let gateway = start(1, &limit("/", &format!("{WINDOW}, {local}")));
    let requests: Vec<usize> = (0..2).map(|_| gateway.request(0, "/", "ann")).collect();
    gateway.pass(10);
    assert_eq!(fates(&gateway, &requests), [Fate::Upstream, REFUSED]);
    assert_eq!((clusters(&gateway).outstanding(2, 3), clusters(&gateway).refunds()), (1, 1));
}

/// The client leaves when one of two stores has replied. That store gets its permit back.
#[test]
fn a_request_that_leaves_between_two_replies_refunds_the_first() {
    let two = |name: &str, user: &str| {
        format!(
            r#"{{"name": "{name}", "actor": "{user}", "algo": "C", "rpu": 2, "max_hold": "1d", "scope": "global"}}"#
        )
    };
    let limits = limit("/", &format!("{}, {}", two("one", "user"), two("other", "ip")));
    let gateway = Gateway::among(Clusters::of(&["a", "b"]), 1, false);
    assert!(gateway.configure(&configuration(r#""a", "b""#, &limits)));
    set_call_faults(&gateway, CallFaults { longest_us: 40_000, ..CallFaults::default() });
    let (mut both, mut between) = (0, 0);
    for user in 0..40 {
        let request = gateway.request(0, "/", &format!("user-{user}"));
        let before = clusters(&gateway).decisions();
        for _ in 0..40 {
            gateway.pass(1);
            if gateway.fate(request) != Fate::Paused {
                break;
            }
            let ended = clusters(&gateway).decisions() - before;
            between += usize::from(ended == 1);
            if ended == 2 {
                // Both calls ran, and one reply may have been handled.
                both += 1;
                break;
            }
        }
        let vm = &gateway.vms[0];
        vm.streams().into_iter().for_each(|id| vm.reset(id));
        gateway.pass(200);
        assert_eq!((clusters(&gateway).outstanding(7, 2), gateway.kept_streams()), (0, 0), "user {user}");
    }
    assert!(both > 5 && between > 5, "{both} {between}");
}

/// The store counts the permits longer than it remembers a silent worker.
#[test]
fn permits_of_an_old_configuration_count_until_their_requests_end() {
    let gateway = start(1, &limit("/", PERMITS));
    assert_eq!((ask(&gateway, 0, "/"), ask(&gateway, 0, "/")), (Fate::Upstream, Fate::Upstream));
    for new_plugin in [false, true] {
        let vm = &gateway.vms[0];
        assert!(if new_plugin { vm.configure() } else { vm.configure_again() });
        gateway.pass(20_000);
        assert_eq!(
            (ask(&gateway, 0, "/"), clusters(&gateway).outstanding(7, 2)),
            (REFUSED, 2),
            "{new_plugin}"
        );
    }
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).outstanding(7, 2), ask(&gateway, 0, "/")), (0, Fate::Upstream));
    gateway.no_crash();
}

/// A request that leaves a queue during an outage refunds its turn after the outage.
#[test]
fn a_turn_refunded_during_an_outage_returns_afterwards() {
    let queue = r#"{"algo": "LB", "rpu": 1, "unit": "minute", "queue": 1, "scope": "global"}"#;
    let gateway = start(1, &limit("/", queue));
    assert_eq!((ask(&gateway, 0, "/"), ask(&gateway, 0, "/")), (Fate::Upstream, Fate::Paused));
    let waiting = *gateway.vms[0].streams().last().unwrap();
    clusters(&gateway).down.set(true);
    (0..3).for_each(|_| _ = ask(&gateway, 0, "/"));
    assert_eq!(gateway.world.logged("is not asked until it answers a probe"), 1);
    gateway.vms[0].reset(waiting);
    gateway.pass(500);
    assert_eq!(clusters(&gateway).refunds(), 0);
    clusters(&gateway).down.set(false);
    gateway.pass(1_100);
    assert_eq!((clusters(&gateway).refunds(), gateway.counter("diana.store.a.dropped_refunds")), (1, 0));
    assert_eq!(ask(&gateway, 0, "/"), Fate::Paused, "it has the turn of the request that left");
}

/// The request times out under a replaced configuration. The store that replied gets its permit
/// back.
#[test]
fn a_request_that_times_out_under_an_old_configuration_is_refunded() {
    let name = |on_error: &str| {
        let actor = if on_error == "deny" { "user" } else { "ip" };
        format!(
            r#"{{"actor": "{actor}", "algo": "C", "rpu": 2, "max_hold": "1d", "scope": "global", "on_error": "{on_error}"}}"#
        )
    };
    let limits = limit("/", &format!("{}, {}", name("deny"), name("local")));
    for new_plugin in [true, false] {
        let gateway = Gateway::among(Clusters::of(&["a", "b"]), 1, false);
        assert!(gateway.configure(&configuration(r#""a", "b""#, &limits)));
        // Both stores have the script.
        (0..9).for_each(|user| _ = gateway.request(0, "/", &format!("user-{user}")));
        gateway.pass(20);
        gateway.end_all();
        gateway.pass(20);
        // The host does not cancel calls, so that late replies arrive.
        set_call_faults(&gateway, CallFaults { cancels: false, ..CallFaults::default() });
        let vm = &gateway.vms[0];
        let mut refused = 0;
        for (user, silent) in (0..20).zip(["a", "b"].into_iter().cycle()) {
            *clusters(&gateway).silent.borrow_mut() = vec![silent];
            let request = gateway.request(0, "/", &format!("user-{user}"));
            gateway.pass(5);
            assert!(if new_plugin { vm.configure() } else { vm.configure_again() });
            gateway.pass(50);
            refused += usize::from(gateway.fate(request) == Fate::Answered(503));
            gateway.end_all();
            clusters(&gateway).silent.borrow_mut().clear();
            gateway.pass(10);
            assert_eq!(clusters(&gateway).outstanding(7, 2), 0, "{user}");
            gateway.pass(3_000);
        }
        assert!(refused > 3, "{refused}");
        gateway.no_crash();
    }
}
