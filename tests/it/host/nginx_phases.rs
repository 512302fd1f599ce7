//! The filter among the phases of nginx: refusals that the client does not get, subrequests,
//! directives in any order, the clock, and what the client sees of a refusal.

use super::gateway::{Fate, Gateway};
use super::vm::Location;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

const REFUSED: Fate = Fate::Answered(429);
const NOTHING: &str = r#"{"limits": []}"#;

fn daily(rpu: u32, more: &str) -> String {
    format!(
        r#"{{"limits": [{{"url": "/", "rules": [{{"name": "secret", "rpu": {rpu}, "unit": "day"}}]}}]{more}}}"#
    )
}

fn ask(gateway: &Gateway) -> Fate {
    let request = gateway.request(0, "/", "ann");
    let fate = gateway.fate(request);
    gateway.end_all();
    fate
}

/// How many refusals are counted as lost, and how many lines say so.
fn lost(gateway: &Gateway) -> (i64, usize) {
    (gateway.counter("diana.lost_refusals"), gateway.world.logged("a refusal was not sent"))
}

#[test]
fn a_refusal_that_the_client_does_not_get_is_counted_and_logged_once() {
    for (location, expected) in [
        (Location::Responds(200), Fate::Answered(200)),
        (Location::Responds(401), Fate::Answered(401)),
        // The same status does not make it the same response.
        (Location::Responds(429), Fate::Answered(429)),
        (Location::Rewrites, Fate::Upstream),
    ] {
        let gateway = Gateway::start(CasSemantics::Strict, 1, &daily(2, ""));
        gateway.world.location.set(location);
        assert_eq!((ask(&gateway), ask(&gateway)), (expected.clone(), expected.clone()), "{location:?}");
        assert_eq!(lost(&gateway), (0, 0), "{location:?}: both were admitted");
        assert_eq!((ask(&gateway), lost(&gateway)), (expected.clone(), (1, 1)), "{location:?}");
        assert_eq!((ask(&gateway), lost(&gateway)), (expected, (2, 1)), "{location:?}");
        gateway.world.location.set(Location::Answers);
        assert_eq!((ask(&gateway), lost(&gateway)), (REFUSED, (2, 1)), "{location:?}");
        assert_eq!(gateway.kept_streams(), 0);
        gateway.no_crash();
    }
}

/// nginx never ends the context of a refusal that was redirected: it is taken for lost after many
/// others, and takes no memory for ever.
#[test]
fn a_redirected_refusal_is_counted_late_and_takes_no_memory_for_ever() {
    let gateway = Gateway::new(CasSemantics::Strict, 1, diana::Exports::All, false);
    let roots = &gateway.configure_directives(&[&daily(1, ""), NOTHING], 1)[0];
    gateway.vms[0].roll_back(roots[0]);
    gateway.world.location.set(Location::Redirects(roots[1]));
    (0..4_000).for_each(|_| assert_eq!(ask(&gateway), Fate::Upstream));
    let kept = gateway.kept_streams();
    assert!(kept <= 1_024, "{kept} streams");
    assert_eq!(lost(&gateway), (3_999 - kept as i64, 1));
    gateway.no_crash();
}

/// A refusal is recognised whatever it has: a gRPC refusal has the status of a success, and another
/// one may have no header at all.
#[test]
fn every_form_of_a_refusal_is_known_from_other_responses() {
    let bare = r#"{"limits": [], "deny": [{"user": "ann"}], "response": {"body": ""}}"#;
    let quiet = daily(0, r#", "headers": "off""#);
    for (json, grpc) in [(&*daily(0, ""), true), (&daily(0, ""), false), (&quiet, false), (bare, false)] {
        let gateway = Gateway::start(CasSemantics::Strict, 1, json);
        let ask = || {
            let user = (Part::Header("x-user-id".into()), b"ann".to_vec());
            let mut parts = vec![(Part::Method, b"POST".to_vec()), (Part::Path, b"/".to_vec()), user];
            if grpc {
                parts.push((Part::Header("content-type".into()), b"application/grpc".to_vec()));
            }
            let request = gateway.vms[0].ask(parts);
            gateway.end_all();
            gateway.fate(request)
        };
        let expected = if grpc { Fate::Answered(200) } else { REFUSED };
        assert_eq!((ask(), lost(&gateway)), (expected, (0, 0)), "{json}");
        gateway.world.location.set(Location::Rewrites);
        ask();
        assert_eq!(lost(&gateway), (1, 1), "{json}");
        gateway.no_crash();
    }
}

/// A subrequest that inherits the directive is charged like a request of its own; an empty document
/// in its location prevents this.
#[test]
fn a_subrequest_costs_nothing_under_an_empty_document() {
    for (inner, admitted, then) in [(0, 2, Fate::Answered(500)), (1, 4, REFUSED)] {
        let gateway = Gateway::new(CasSemantics::Strict, 1, diana::Exports::All, false);
        let roots = &gateway.configure_directives(&[&daily(4, ""), NOTHING], 1)[0];
        gateway.vms[0].roll_back(roots[0]);
        gateway.world.location.set(Location::Asks(roots[inner]));
        (0..admitted).for_each(|_| assert_eq!(ask(&gateway), Fate::Upstream));
        assert_eq!(ask(&gateway), then);
        gateway.no_crash();
    }
}

/// In nginx a new plugin replaces no other one: it is another directive.
#[test]
fn directives_count_alone_whatever_their_order() {
    let rules = |bucket: u32| {
        format!(
            r#"{{"limits": [{{"url": "/", "rules": [
                {{"name": "day", "actor": "user", "algo": "W", "rpu": 5, "unit": "day"}},
                {{"name": "bucket", "actor": "user", "rpu": {bucket}, "unit": "day"}}]}}]}}"#
        )
    };
    for seed in 0..16 {
        let gateway = Gateway::new(CasSemantics::Strict, 3, diana::Exports::All, false);
        let documents = [rules(100), rules(200), rules(300)];
        let roots = gateway.configure_directives(&documents.each_ref().map(|one| &**one), seed);
        for (directive, _) in documents.iter().enumerate() {
            for turn in 0..8 {
                let worker = turn % 3;
                gateway.vms[worker].roll_back(roots[worker][directive]);
                let fate = gateway.fate(gateway.request(worker, "/", "ann"));
                let expected = if turn < 5 { Fate::Upstream } else { REFUSED };
                assert_eq!(fate, expected, "request {turn} of directive {directive}, seed {seed}");
            }
        }
        gateway.no_crash();
    }
}

/// nginx sends the details of a response to the client, as the reason phrase.
#[test]
fn the_reason_phrase_names_no_rule() {
    let gateway = Gateway::start(CasSemantics::Strict, 1, &daily(0, r#", "headers": "off""#));
    assert_eq!(ask(&gateway), REFUSED);
    assert_eq!(gateway.world.records.borrow()[0].reason, "");
    let envoy = Gateway::start(CasSemantics::Lenient, 1, &daily(0, ""));
    assert_eq!(ask(&envoy), REFUSED);
    assert_eq!(envoy.world.sent.borrow()[0].0, "diana_refused:secret", "for the access log");
}

/// How many requests a rule admits in three seconds, if one comes every millisecond.
fn admitted_in_3_s(rule: &str) -> u64 {
    let gateway = Gateway::start(CasSemantics::Strict, 2, &format!(r#"{{"url": "/", "rules": [{rule}]}}"#));
    let mut admitted = 0;
    for ms in 0..3_000 {
        let request = gateway.request(ms, "/", "ann");
        admitted += u64::from(gateway.fate(request) == Fate::Upstream);
        gateway.end_all();
        gateway.pass(1);
    }
    gateway.no_crash();
    admitted
}

/// A turn that is no whole number of milliseconds is not rounded up.
#[test]
fn a_leaky_bucket_admits_its_rate() {
    for rpu in [20, 100, 200, 400, 600, 900] {
        let rule = format!(r#"{{"algo": "LB", "rpu": {rpu}, "unit": "second", "queue": 0}}"#);
        assert_eq!(admitted_in_3_s(&rule), 3 * rpu, "{rpu} a second");
    }
}

/// The module's reading of the clock is up to 128 ns off: a token that is due is there.
#[test]
fn a_bucket_of_one_token_admits_its_rate() {
    for rpu in [20, 100, 200, 500] {
        let rule = format!(r#"{{"rpu": {rpu}, "unit": "second", "burst": 1}}"#);
        assert_eq!(admitted_in_3_s(&rule), 3 * rpu, "{rpu} a second");
    }
}

#[test]
fn blanks_around_a_header_make_no_other_actor() {
    let json = r#"{"limits": [{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}],
        "deny": [{"user": "eve"}]}"#;
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let gateway = Gateway::start(rules, 1, json);
        let ask = |user: &str| gateway.fate(gateway.request(0, "/", user));
        assert_eq!(ask("ann"), Fate::Upstream);
        for user in ["ann", " ann", "ann ", "\tann", "ann\t", " \t ann \t", "\teve"] {
            assert_eq!(ask(user), REFUSED, "{user:?}");
        }
    }
}

/// The requests of a connection share one id, so a refused one must not end a later one.
#[test]
fn a_refused_request_ends_no_other_of_its_connection() {
    let rules = r#"{"limits": [{"url": "/refused", "rules": [{"rpu": 0, "unit": "day"}]},
        {"url": "/held", "rules": [{"algo": "C", "rpu": 1}]}]}"#;
    let gateway = Gateway::start(CasSemantics::Strict, 1, rules);
    let ask = |path| gateway.fate(gateway.request(0, path, "ann"));
    assert_eq!(ask("/refused"), REFUSED);
    gateway.vms[0].repeat_id();
    assert_eq!(ask("/held"), Fate::Upstream);
    assert!((0..1_100).all(|_| ask("/refused") == REFUSED));
    assert_eq!(ask("/held"), REFUSED, "the permit is still taken");
    gateway.no_crash();
}
