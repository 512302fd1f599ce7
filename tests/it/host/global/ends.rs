//! How requests end whose rules query stores, and which charges are refunded.

use super::*;
use crate::host::callouts::Mishap;
use crate::host::faults::Kind;
use diana::host::proxy_wasm::Callbacks;
use diana_limiter::store::Rules;

const WINDOW: &str = r#"{"name": "window", "algo": "W", "rpu": 3, "unit": "day", "scope": "global"}"#;
const PERMITS: &str = r#"{"name": "permits", "algo": "C", "rpu": 2, "max_hold": "1d", "scope": "global"}"#;

/// All calls have one of these mishaps.
fn always(mishaps: &'static [Mishap]) -> Fares {
    Fares { mishaps, one_in: 1, ..Fares::default() }
}

#[test]
fn requests_wait_for_the_store_and_it_counts_them_all() {
    let gateway = start(2, &limit("/", WINDOW));
    let first = gateway.request(0, "/", "ann");
    assert_eq!(gateway.fate(first), Fate::Paused);
    gateway.pass(10);
    assert_eq!(gateway.fate(first), Fate::Upstream);
    let fates: Vec<Fate> = (1..5).map(|worker| ask(&gateway, worker, "/")).collect();
    assert_eq!(fates, [Fate::Upstream, Fate::Upstream, REFUSED, REFUSED]);
    gateway.end_all();
    assert_eq!((clusters(&gateway).taken(2, 3), gateway.kept_streams()), (3, 0));
    gateway.no_crash();
}

#[test]
fn what_is_known_to_be_refused_is_not_asked_again_for_100_ms() {
    let gateway = start(1, &limit("/", WINDOW));
    (0..4).for_each(|_| _ = ask(&gateway, 0, "/"));
    let before = clusters(&gateway).decisions();
    for _ in 0..8 {
        let request = gateway.request(0, "/", "ann");
        assert_eq!(gateway.fate(request), REFUSED, "at once");
        gateway.pass(10);
    }
    assert_eq!(clusters(&gateway).decisions(), before);
    gateway.pass(20);
    assert_eq!((ask(&gateway, 0, "/"), clusters(&gateway).decisions()), (REFUSED, before + 1));
}

#[test]
fn permits_come_back_when_requests_end() {
    let gateway = start(2, &limit("/", PERMITS));
    let fates: Vec<Fate> = (0..3).map(|worker| ask(&gateway, worker, "/")).collect();
    assert_eq!((fates, clusters(&gateway).taken(7, 2)), (vec![Fate::Upstream, Fate::Upstream, REFUSED], 2));
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).taken(7, 2), ask(&gateway, 0, "/")), (0, Fate::Upstream));
}

/// The request leaves before the store has replied; its query is in the call or still in the queue.
#[test]
fn who_leaves_while_the_store_is_asked_is_charged_nothing() {
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
    assert_eq!((clusters(&gateway).taken(7, 2), gateway.kept_streams()), (0, 0));
}

/// The store lacks the script, so it has charged nothing, and no request waits for the reply.
#[test]
fn a_call_without_its_script_is_not_repeated_for_requests_that_have_left() {
    let gateway = start(1, &limit("/", PERMITS));
    gateway.request(0, "/", "ann");
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).decisions(), clusters(&gateway).taken(7, 2)), (0, 0));
}

/// A request that gives up is decided locally. If the host does not cancel calls, the late reply is
/// refunded.
#[test]
fn a_late_answer_is_given_back() {
    let gateway = start(1, &limit("/", WINDOW));
    let late = Fares { longest_us: 60_000, cancels: false, seed: 3, ..Fares::default() };
    let mut found = 0;
    for seed in 0..40 {
        fare(&gateway, Fares { seed, ..late.clone() });
        let (request, before) = (gateway.request(0, "/", "ann"), clusters(&gateway).given_back());
        gateway.pass(50);
        let is_late = gateway.counter("diana.rule.window.degraded") > 0;
        assert_ne!(gateway.fate(request), Fate::Paused);
        fare(&gateway, Fares::default());
        gateway.pass(60);
        if is_late {
            assert_eq!(clusters(&gateway).given_back(), before + 1);
            found += 1;
            break;
        }
        if clusters(&gateway).taken(2, 3) == 3 {
            gateway.pass(86_400_000);
        }
    }
    assert_eq!(found, 1, "no answer was late");
}

/// The worker was held up. It sees the timeout before the reply, which says what was charged.
#[test]
fn an_answer_that_comes_when_nobody_counts_on_it_is_given_back() {
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
    assert_eq!(clusters(&gateway).taken(7, 2), 0);
    gateway.no_crash();
}

/// While the host lets one request go, it ends others that the same reply is about.
#[test]
fn who_is_gone_when_the_answer_is_told_gives_back() {
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
    assert_eq!((clusters(&gateway).taken(7, 9), gateway.kept_streams()), (0, 0));
    gateway.no_crash();
}

#[test]
fn a_request_that_another_rule_refuses_is_given_back() {
    let local = r#"{"name": "local", "algo": "W", "rpu": 1, "unit": "day"}"#;
    let gateway = start(1, &limit("/", &format!("{WINDOW}, {local}")));
    let requests: Vec<usize> = (0..2).map(|_| gateway.request(0, "/", "ann")).collect();
    gateway.pass(10);
    assert_eq!(fates(&gateway, &requests), [Fate::Upstream, REFUSED]);
    assert_eq!((clusters(&gateway).taken(2, 3), clusters(&gateway).given_back()), (1, 1));
}

#[test]
fn who_the_host_does_not_let_go_is_let_go_when_it_does() {
    let gateway = start(1, &limit("/", WINDOW));
    fare(&gateway, always(&[Mishap::Lost]));
    let request = gateway.request(0, "/", "ann");
    gateway.fail(Kind::LettingGo);
    gateway.pass(500);
    assert_eq!(gateway.fate(request), Fate::Paused);
    gateway.fail(Kind::Nothing);
    gateway.pass(100);
    assert_eq!(gateway.fate(request), Fate::Upstream);
}

/// Without a timer of the host, no request waits.
#[test]
fn where_there_is_no_timer_nobody_waits() {
    let gateway = start(1, &limit("/", WINDOW));
    gateway.fail(Kind::Timer);
    let request = gateway.request(0, "/", "ann");
    assert_eq!(gateway.fate(request), Fate::Upstream);
    gateway.fail(Kind::Nothing);
    gateway.pass(200);
    assert_eq!(clusters(&gateway).taken(2, 3), 0);
}

#[test]
fn nginx_takes_no_configuration_with_a_store() {
    let gateway = Gateway::new(Rules::Strict, 1, Callbacks::All, false);
    assert!(!gateway.configure(&configuration(r#""a""#, &limit("/", WINDOW))));
    assert_eq!(gateway.world.logged("this host cannot hold requests while a store is asked"), 1);
}

/// The client leaves when one of two stores has replied. That store gets its permit back.
#[test]
fn who_leaves_between_two_answers_gives_back_the_first() {
    let two = |name: &str, user: &str| {
        format!(
            r#"{{"name": "{name}", "actor": "{user}", "algo": "C", "rpu": 2, "max_hold": "1d", "scope": "global"}}"#
        )
    };
    let limits = limit("/", &format!("{}, {}", two("one", "user"), two("other", "ip")));
    let gateway = Gateway::among(Clusters::of(&["a", "b"]), 1, false);
    assert!(gateway.configure(&configuration(r#""a", "b""#, &limits)));
    fare(&gateway, Fares { longest_us: 40_000, ..Fares::default() });
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
        assert_eq!((clusters(&gateway).taken(7, 2), gateway.kept_streams()), (0, 0), "user {user}");
    }
    assert!(both > 5 && between > 5, "{both} {between}");
}

#[test]
fn a_call_that_is_not_made_fails_at_once() {
    let gateway = start(1, &limit("/", WINDOW));
    fare(&gateway, always(&[Mishap::NotMade]));
    let request = gateway.request(0, "/", "ann");
    assert_eq!(gateway.fate(request), Fate::Upstream);
    assert_eq!(gateway.counter("diana.rule.window.degraded"), 1);
}

/// The cluster has no hosts when permits return. A probe finds its recovery although no request
/// waits.
#[test]
fn a_store_that_was_given_up_in_giving_back_is_probed() {
    let gateway = start(1, &limit("/", &PERMITS.replace("2, \"max", "9, \"max")));
    (0..3).for_each(|_| _ = ask(&gateway, 0, "/"));
    gateway.pass(1_000);
    fare(&gateway, always(&[Mishap::NotMade]));
    gateway.end_all();
    assert_eq!(
        gateway.world.logged("is not asked until it answers a probe: the gateway knows no such cluster"),
        1
    );
    fare(&gateway, Fares::default());
    gateway.pass(2_000);
    assert_eq!(gateway.world.logged("answers again"), 1);
    assert_eq!((ask(&gateway, 0, "/"), gateway.counter("diana.rule.permits.degraded")), (Fate::Upstream, 0));
}

/// The store counts the permits longer than it remembers a silent worker.
#[test]
fn permits_of_an_old_configuration_count_until_their_requests_end() {
    let gateway = start(1, &limit("/", PERMITS));
    assert_eq!((ask(&gateway, 0, "/"), ask(&gateway, 0, "/")), (Fate::Upstream, Fate::Upstream));
    for anew in [false, true] {
        let vm = &gateway.vms[0];
        assert!(if anew { vm.configure() } else { vm.configure_again() });
        gateway.pass(20_000);
        assert_eq!((ask(&gateway, 0, "/"), clusters(&gateway).taken(7, 2)), (REFUSED, 2), "{anew}");
    }
    gateway.end_all();
    gateway.pass(10);
    assert_eq!((clusters(&gateway).taken(7, 2), ask(&gateway, 0, "/")), (0, Fate::Upstream));
    gateway.no_crash();
}

/// A request that leaves a queue during an outage refunds its turn after the outage.
#[test]
fn a_turn_that_is_given_back_during_an_outage_comes_back_after_it() {
    let queue = r#"{"algo": "LB", "rpu": 1, "unit": "minute", "queue": 1, "scope": "global"}"#;
    let gateway = start(1, &limit("/", queue));
    assert_eq!((ask(&gateway, 0, "/"), ask(&gateway, 0, "/")), (Fate::Upstream, Fate::Paused));
    let waiting = *gateway.vms[0].streams().last().unwrap();
    clusters(&gateway).down.set(true);
    (0..3).for_each(|_| _ = ask(&gateway, 0, "/"));
    assert_eq!(gateway.world.logged("is not asked until it answers a probe"), 1);
    gateway.vms[0].reset(waiting);
    gateway.pass(500);
    assert_eq!(clusters(&gateway).given_back(), 0);
    clusters(&gateway).down.set(false);
    gateway.pass(1_100);
    assert_eq!((clusters(&gateway).given_back(), gateway.counter("diana.store.a.dropped_refunds")), (1, 0));
    assert_eq!(ask(&gateway, 0, "/"), Fate::Paused, "it has the turn of the request that left");
}

/// The request times out under a replaced configuration. The store that replied gets its permit
/// back.
#[test]
fn who_gives_up_under_an_old_configuration_gives_back() {
    let name = |on_error: &str| {
        let actor = if on_error == "deny" { "user" } else { "ip" };
        format!(
            r#"{{"actor": "{actor}", "algo": "C", "rpu": 2, "max_hold": "1d", "scope": "global", "on_error": "{on_error}"}}"#
        )
    };
    let limits = limit("/", &format!("{}, {}", name("deny"), name("local")));
    for anew in [true, false] {
        let gateway = Gateway::among(Clusters::of(&["a", "b"]), 1, false);
        assert!(gateway.configure(&configuration(r#""a", "b""#, &limits)));
        // Both stores have the script.
        (0..9).for_each(|user| _ = gateway.request(0, "/", &format!("user-{user}")));
        gateway.pass(20);
        gateway.end_all();
        gateway.pass(20);
        // The host does not cancel calls, so that late replies arrive.
        fare(&gateway, Fares { cancels: false, ..Fares::default() });
        let vm = &gateway.vms[0];
        let mut refused = 0;
        for (user, silent) in (0..20).zip(["a", "b"].into_iter().cycle()) {
            *clusters(&gateway).silent.borrow_mut() = vec![silent];
            let request = gateway.request(0, "/", &format!("user-{user}"));
            gateway.pass(5);
            assert!(if anew { vm.configure() } else { vm.configure_again() });
            gateway.pass(50);
            refused += usize::from(gateway.fate(request) == Fate::Answered(503));
            gateway.end_all();
            clusters(&gateway).silent.borrow_mut().clear();
            gateway.pass(10);
            assert_eq!(clusters(&gateway).taken(7, 2), 0, "{user}");
            gateway.pass(3_000);
        }
        assert!(refused > 3, "{refused}");
        gateway.no_crash();
    }
}

/// One mishap after the other: waiting requests go on, and at most one stays.
#[test]
fn whatever_befalls_a_call_its_request_goes_on_in_time() {
    for mishap in crate::host::callouts::ALL {
        for cancels in [true, false] {
            let gateway = start(1, &limit("/", WINDOW));
            let one = std::slice::from_ref(mishap);
            fare(&gateway, Fares { cancels, ..always(one) });
            let request = gateway.request(0, "/", "ann");
            gateway.pass(51);
            assert_eq!(gateway.fate(request), Fate::Upstream, "{mishap:?}");
            fare(&gateway, Fares::default());
            gateway.pass(200);
            assert_eq!(ask(&gateway, 0, "/"), Fate::Upstream, "{mishap:?}");
            assert!((1..=2).contains(&clusters(&gateway).taken(2, 3)), "{mishap:?}");
            gateway.end_all();
            assert_eq!(gateway.kept_streams(), 0);
            gateway.no_crash();
        }
    }
}

/// Gateways with different secrets count apart, which nothing else would show.
#[test]
fn the_log_tells_gateways_apart_whose_secrets_differ() {
    let log_line = |secret: &str| {
        let gateway = Gateway::among(Clusters::of(&["a", "b"]), 1, false);
        let rule = limit("/", r#"{"rpu": 1, "unit": "day", "scope": "global"}"#);
        let with = configuration(r#""a", "b""#, &rule).replace("sixteen letters!", secret);
        assert!(gateway.configure(&with));
        let log = gateway.world.log.borrow();
        let (_, line) = log.iter().find(|(_, line)| line.contains("configuration taken")).unwrap();
        assert!(line.contains("; store a, b, fingerprint of its secret "), "{line}");
        assert!(!line.contains(secret));
        line.clone()
    };
    assert_eq!(log_line("sixteen letters!"), log_line("sixteen letters!"));
    assert_ne!(log_line("sixteen letters!"), log_line("sixteen letters?"));
}

/// A plugin's calls end with the plugin, and its whole configuration is dropped.
#[test]
fn a_plugin_that_is_gone_leaves_no_call_behind() {
    let gateway = start(1, &limit("/", PERMITS));
    let vm = &gateway.vms[0];
    for _ in 0..5 {
        let old = vm.oldest_root().unwrap();
        let request = gateway.request(0, "/", "ann");
        assert!(vm.calling() > 0 && vm.configure());
        vm.delete_root(old);
        assert_eq!((gateway.fate(request), vm.calling()), (Fate::Upstream, 0));
        gateway.end_all();
    }
    gateway.no_crash();
}

#[test]
fn calls_that_a_host_never_answers_are_forgotten() {
    let gateway = start(1, &limit("/", WINDOW));
    fare(&gateway, Fares { cancels: false, ..always(&[Mishap::Lost]) });
    // The store is given up, and probed each second from then on.
    for _ in 0..3 {
        gateway.request(0, "/", "ann");
        gateway.pass(200);
    }
    gateway.pass(2_600_000);
    assert!(gateway.counter("diana.store.a.calls") > 2_048, "{}", gateway.counter("diana.store.a.calls"));
    assert!(gateway.vms[0].calling() <= 1_100, "{}", gateway.vms[0].calling());
}

/// The counter does not depend on the fate of the request. `result` has a value for one request
/// only, which the rule let pass.
#[test]
fn a_rule_without_its_store_is_degraded_though_another_refuses() {
    for (on_error, results) in [("local", [2, 1, 0]), ("allow", [2, 0, 1])] {
        let shared = WINDOW.replace("3", "9").replace('}', &format!(r#", "on_error": "{on_error}"}}"#));
        let local = r#"{"name": "local", "actor": "user", "algo": "W", "rpu": 1, "unit": "day"}"#;
        let gateway = start(1, &limit("/", &format!("{shared}, {local}")));
        clusters(&gateway).down.set(true);
        ["bob", "eve", "joe"].into_iter().for_each(|user| {
            gateway.request(0, "/", user);
            gateway.pass(10);
        });
        assert_eq!(gateway.world.logged("is not asked until it answers a probe"), 1);
        let counted = || {
            let names = ["degraded", "result.ok.requests", "result.error.requests"];
            names.map(|name| gateway.counter(&format!("diana.rule.window.{name}")))
        };
        let before = counted();
        assert_eq!([ask(&gateway, 0, "/"), ask(&gateway, 0, "/")], [Fate::Upstream, REFUSED]);
        let after = counted();
        assert_eq!([0, 1, 2].map(|at| after[at] - before[at]), results, "{on_error}");
    }
}
