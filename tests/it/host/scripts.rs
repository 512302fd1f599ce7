//! Single behaviours of a host, one after the other.

use super::faults::FaultKind;
use super::gateway::{Fate, Gateway};
use super::play::CONFIGURATION;
use diana::Exports;
use diana_limiter::cells::store::CasSemantics;

const REFUSED: Fate = Fate::Answered(429);

fn envoy() -> Gateway {
    Gateway::start(CasSemantics::Lenient, 2, CONFIGURATION)
}

/// The fates of `count` requests, one after the other.
fn fates(gateway: &Gateway, path: &str, count: usize) -> Vec<Fate> {
    let requests: Vec<usize> = (0..count).map(|worker| gateway.request(worker, path, "ann")).collect();
    requests.into_iter().map(|request| gateway.fate(request)).collect()
}

#[test]
fn a_filter_without_response_callbacks_refuses_response_headers() {
    let rules = r#""limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]"#;
    let gateway = Gateway::new(CasSemantics::Lenient, 1, Exports::WithoutContexts, false);
    assert!(!gateway.configure(&format!("{{{rules}}}")));
    assert_eq!(gateway.world.logged("headers: the filter adds none to responses"), 1);
    assert!(gateway.configure(&format!(r#"{{{rules}, "headers": "off"}}"#)));
    assert_eq!(fates(&gateway, "/", 2), [Fate::Upstream, REFUSED]);
    assert_eq!(gateway.kept_streams(), 0);
}

#[test]
fn the_filter_rejects_a_module_that_would_crash_nginx() {
    for (callbacks, is_accepted) in [(Exports::All, true), (Exports::Useful, false)] {
        let gateway = Gateway::new(CasSemantics::Strict, 1, callbacks, false);
        let configuration =
            r#"{"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}], "headers": "off"}"#;
        assert_eq!(gateway.configure(configuration), is_accepted);
        assert_eq!(gateway.world.logged("load `diana-nginx.wasm`"), usize::from(!is_accepted));
    }
}

#[test]
fn without_waiting_requests_are_refused_with_one_warning() {
    let gateway = Gateway::start(CasSemantics::Strict, 3, CONFIGURATION);
    assert_eq!(gateway.world.logged("cannot hold requests"), 1);
    assert_eq!(fates(&gateway, "/queue", 2), [Fate::Upstream, REFUSED]);
    assert_eq!(fates(&gateway, "/held", 2), [Fate::Upstream, REFUSED]);
    gateway.no_crash();
}

#[test]
fn a_request_without_charges_leaves_no_state() {
    let gateway = Gateway::start(
        CasSemantics::Lenient,
        1,
        r#"{"headers": "off", "limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]},
            {"url": "/permits", "rules": [{"algo": "C", "rpu": 1}]}]}"#,
    );
    assert_eq!(fates(&gateway, "/", 2), [Fate::Upstream, REFUSED]);
    assert_eq!(gateway.kept_streams(), 0);
    gateway.configure(
        r#"{"headers": "off", "limits": [{"url": "/permits", "rules": [{"algo": "C", "rpu": 1}]}]}"#,
    );
    assert_eq!(fates(&gateway, "/permits", 2), [Fate::Upstream, REFUSED]);
    assert_eq!(gateway.kept_streams(), 1, "a permit");
    gateway.end_all();
    assert_eq!((gateway.kept_streams(), fates(&gateway, "/permits", 1)), (0, vec![Fate::Upstream]));
}

#[test]
fn a_response_carries_the_headers_of_the_decision() {
    let gateway = envoy();
    let request = gateway.request(0, "/quota", "ann");
    gateway.end_all();
    let headers = gateway.world.records.borrow()[request].headers.clone();
    assert_eq!(headers[0].0, "ratelimit-policy");
    assert!(headers[1].1.starts_with("\"quota\";r=4"), "{headers:?}");
    assert_eq!(gateway.kept_streams(), 0);
}

#[test]
fn a_request_that_the_host_does_not_resume_is_resumed_later() {
    let gateway = envoy();
    assert_eq!(fates(&gateway, "/queue", 3)[1..], [Fate::Paused, Fate::Paused]);
    let held = [gateway.request(0, "/held", "ann"), gateway.request(0, "/held", "ann")];
    gateway.fail(FaultKind::Release);
    gateway.pass(2_000);
    assert_eq!((gateway.paused(), gateway.fate(held[1])), (3, Fate::Paused));
    gateway.fail(FaultKind::Nothing);
    gateway.pass(100);
    assert_eq!((gateway.paused(), gateway.fate(held[1])), (0, REFUSED));
}

/// The permit and the turn of a stream that could not be resumed are refunded when the stream ends
/// or is abandoned.
#[test]
fn a_request_that_cannot_be_resumed_holds_nothing_in_the_end() {
    for gives_up in [false, true] {
        let gateway = Gateway::start(
            CasSemantics::Lenient,
            1,
            r#"{"limits": [{"url": "/", "rules": [{"algo": "C", "rpu": 2, "max_hold": "1d"},
                {"algo": "LB", "rpu": 1, "unit": "second", "queue": 1}]}]}"#,
        );
        assert_eq!(fates(&gateway, "/", 3), [Fate::Upstream, Fate::Paused, REFUSED]);
        gateway.fail(FaultKind::Release);
        gateway.pass(5_000);
        assert_eq!((gateway.paused(), gateway.kept_streams()), (1, 2));
        if gives_up {
            gateway.pass(10_000);
            assert_eq!((gateway.paused(), gateway.kept_streams()), (1, 1));
        }
        gateway.end_all();
        gateway.fail(FaultKind::Nothing);
        assert_eq!(gateway.kept_streams(), 0);
        assert_eq!(fates(&gateway, "/", 3), [Fate::Upstream, Fate::Paused, REFUSED]);
    }
}

#[test]
fn without_a_timer_no_request_waits() {
    let gateway = envoy();
    // The timer that shows the document has fired.
    gateway.pass(1);
    gateway.fail(FaultKind::Timer);
    assert_eq!(fates(&gateway, "/queue", 2), [Fate::Upstream, Fate::Upstream]);
    assert_eq!(fates(&gateway, "/held", 2), [Fate::Upstream, REFUSED]);
    gateway.fail(FaultKind::Nothing);
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
}

#[test]
fn a_host_that_cannot_answer_is_not_left_holding_the_request() {
    let gateway = envoy();
    assert_eq!(fates(&gateway, "/permits", 2), [Fate::Upstream, Fate::Upstream]);
    gateway.fail(FaultKind::Release);
    assert_eq!(fates(&gateway, "/permits", 1), [Fate::Upstream]);
    gateway.fail(FaultKind::Nothing);
    gateway.end_all();
    assert_eq!(fates(&gateway, "/permits", 3), [Fate::Upstream, Fate::Upstream, REFUSED]);
}

#[test]
fn a_store_that_fails_is_counted() {
    let gateway = envoy();
    gateway.fail(FaultKind::Store);
    assert_eq!(fates(&gateway, "/quota", 9), vec![Fate::Upstream; 9]);
    assert_eq!(gateway.counter("diana.rule.quota.result.error.requests"), 9);
    assert_eq!(gateway.counter("diana.shared_data_errors"), 9);
}

#[test]
fn each_plugin_has_its_own_configuration() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, CONFIGURATION);
    let vm = &gateway.vms[0];
    let old = vm.newest_root().unwrap();
    let waits = [gateway.request(0, "/queue", "ann"), gateway.request(0, "/queue", "ann")];
    gateway.configure(r#"{"limits": [{"url": "/free", "rules": [{"rpu": 0, "unit": "day"}]}]}"#);
    assert_eq!(
        (fates(&gateway, "/queue", 1), fates(&gateway, "/free", 1)),
        (vec![Fate::Upstream], vec![REFUSED])
    );
    assert_eq!(gateway.fate(waits[1]), Fate::Paused);
    vm.delete_root(old);
    assert_eq!(gateway.fate(waits[1]), Fate::Upstream, "it is not left behind");
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    gateway.no_crash();
}

#[test]
fn a_waiting_request_goes_on_under_a_new_configuration() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, CONFIGURATION);
    assert_eq!(fates(&gateway, "/queue", 2), [Fate::Upstream, Fate::Paused]);
    assert!(gateway.vms[0].configure_again());
    gateway.pass(100);
    assert_eq!(gateway.paused(), 0);
    *gateway.world.configuration.borrow_mut() = "nonsense".into();
    assert!(!gateway.vms[0].configure_again());
    assert_eq!(fates(&gateway, "/permits", 3)[2], REFUSED, "the old configuration is in force");
}

#[test]
fn a_clock_that_steps_back_holds_nobody() {
    let gateway = envoy();
    assert_eq!(fates(&gateway, "/queue", 2), [Fate::Upstream, Fate::Paused]);
    let clock = &gateway.world.clock;
    gateway.pass(50);
    // A host's timers use another clock.
    clock.set(clock.get() - 3_600_000_000_000);
    gateway.world.set_back.set(3_600_000_000_000);
    let vm = &gateway.vms[1];
    let tick = || vm.tick(vm.newest_root().unwrap());
    tick();
    assert_eq!(gateway.paused(), 1);
    clock.set(clock.get() + 100_000_000);
    tick();
    assert_eq!(gateway.paused(), 0);
}

/// A request that waited and then passed is charged like any other.
#[test]
fn a_request_that_waited_and_passed_stays_charged() {
    let gateway = Gateway::start(
        CasSemantics::Lenient,
        1,
        r#"{"limits": [{"url": "/", "rules": [{"rpu": 2, "unit": "day"},
            {"algo": "LB", "rpu": 10, "unit": "second", "queue": 2}]}]}"#,
    );
    assert_eq!(fates(&gateway, "/", 2), [Fate::Upstream, Fate::Paused]);
    gateway.pass(100);
    gateway.end_all();
    gateway.pass(1_000);
    assert_eq!(fates(&gateway, "/", 1), [REFUSED]);
}

#[test]
fn refusals_that_end_make_room_for_others() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, CONFIGURATION);
    assert_eq!(fates(&gateway, "/held", 1), [Fate::Upstream]);
    assert_eq!(fates(&gateway, "/held", 1_001)[999..], [Fate::Paused, REFUSED]);
    gateway.end_all();
    assert_eq!(fates(&gateway, "/held", 1_001)[999..], [Fate::Paused, REFUSED]);
}

/// If a host reuses a stream's number without notice, the earlier stream has ended.
#[test]
fn a_reused_stream_number_is_another_stream() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, CONFIGURATION);
    let vm = &gateway.vms[0];
    let last = || *vm.streams().last().unwrap();
    assert_eq!(fates(&gateway, "/held", 1), [Fate::Upstream]);
    assert_eq!(fates(&gateway, "/permits", 1), [Fate::Upstream]);
    vm.request_as(last(), "/free", "ann");
    assert_eq!(fates(&gateway, "/permits", 3), [Fate::Upstream, Fate::Upstream, REFUSED]);
    assert_eq!(fates(&gateway, "/queue", 2), [Fate::Upstream, Fate::Paused]);
    let held = vm.request_as(last(), "/held", "ann");
    gateway.pass(150);
    assert_eq!(gateway.fate(held), Fate::Paused, "the turn was another's");
    gateway.pass(50);
    assert_eq!(gateway.fate(held), REFUSED);
}
