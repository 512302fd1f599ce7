//! Headers in nginx: the filter reads each header by itself, with its lines joined, however many
//! other headers there are.

use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use serde_json::{Value, json};

fn header(name: &str, line: &str) -> (Part, Vec<u8>) {
    (Part::Header(name.into()), line.into())
}

/// A limit on `/` with one rule of one request a day; `limit` has the other keys.
fn once(mut limit: Value, actor: &str) -> Value {
    limit["url"] = "/".into();
    limit["rules"] = json!([{"actor": actor, "rpu": 1, "unit": "day"}]);
    json!({"limits": [limit]})
}

/// The fates of requests in nginx, one after the other, each with `junk` lines before its own.
fn fates(json: &Value, junk: usize, requests: &[&[(Part, Vec<u8>)]]) -> (Vec<Fate>, Gateway) {
    let gateway = Gateway::start(CasSemantics::Strict, 1, &json.to_string());
    let ask = |own: &&[(Part, Vec<u8>)]| {
        let first = [(Part::Path, b"/".to_vec()), (Part::Address, b"10.0.0.1".to_vec())];
        let junk = (0..junk).map(|number| header(&format!("junk-{number}"), "x"));
        let mut parts: Vec<_> = first.into_iter().chain(junk).chain(own.iter().cloned()).collect();
        if !parts.iter().any(|(part, _)| *part == Part::Method) {
            parts.push((Part::Method, b"GET".to_vec()));
        }
        let request = gateway.vms[0].ask(parts);
        gateway.fate(request)
    };
    let fates = requests.iter().map(ask).collect();
    (fates, gateway)
}

const JUNK: [usize; 5] = [0, 90, 97, 100, 1000];
const REFUSED: Fate = Fate::Answered(429);
use Fate::Upstream as PASSED;

/// Checks that the fates of these requests do not depend on their other headers.
#[track_caller]
fn check<const N: usize>(json: &Value, requests: [&[(Part, Vec<u8>)]; N], expected: [Fate; N]) {
    let gateways = JUNK.map(|junk| {
        let (fates, gateway) = fates(json, junk, &requests);
        assert_eq!(fates, expected, "{junk} other headers under {json}");
        gateway
    });
    gateways.iter().for_each(Gateway::no_crash);
}

#[test]
fn no_number_of_headers_hides_an_actor() {
    let (ann, bob) = ([header("x-user-id", "ann")], [header("x-user-id", "bob")]);
    check(&once(json!({}), "user"), [&ann, &bob, &ann], [PASSED, PASSED, REFUSED]);
}

#[test]
fn no_number_of_headers_hides_a_condition() {
    let free = [header("x-plan", "free")];
    check(&once(json!({"headers": {"x-plan": "free"}}), "all"), [&free, &free], [PASSED, REFUSED]);
    let post = [(Part::Method, b"POST".to_vec())];
    check(&once(json!({"methods": "POST"}), "all"), [&post, &post], [PASSED, REFUSED]);
}

/// nginx keeps a tab around a value over HTTP/1, and blanks over HTTP/2.
#[test]
fn white_space_around_a_value_hides_no_condition() {
    let lines =
        [" free", "\tfree", "free\t"].map(|line| [header("x-plan", "gold\t"), header("x-plan", line)]);
    let json = once(json!({"headers": {"x-plan": "free"}}), "all");
    let [one, two, three] = &lines;
    check(&json, [&two[1..], one, two, three], [PASSED, REFUSED, REFUSED, REFUSED]);
    let gold = once(json!({"headers": {"x-plan": {"regex": "gold"}}}), "all");
    check(&gold, [&two[1..], one, two, three], [PASSED, PASSED, REFUSED, REFUSED]);
}

#[test]
fn no_number_of_headers_hides_a_denied_client() {
    let mallory = [header("x-user-id", "mallory")];
    check(&json!({"limits": [], "deny": [{"user": "mallory"}]}), [&mallory], [REFUSED]);
}

#[test]
fn no_number_of_headers_hides_the_host() {
    let host = [(Part::Host, b"A.example:80".to_vec())];
    check(&once(json!({"hosts": "a.example"}), "all"), [&host, &host], [PASSED, REFUSED]);
}

#[test]
fn no_number_of_headers_hides_the_address() {
    let from = |address: &str| [header("x-forwarded-for", "6.6.6.6"), header("x-forwarded-for", address)];
    let mut json = once(json!({}), "ip");
    json["ip"] = json!({"trusted_hops": 1});
    let (one, other) = (from("192.0.2.1"), from("192.0.2.2"));
    check(&json, [&one, &other, &one], [PASSED, PASSED, REFUSED]);
}

#[test]
fn the_host_is_that_of_the_request_line() {
    let lying = [(Part::Path, b"http://A.example/".to_vec()), (Part::Host, b"b.example".to_vec())];
    let plain = [(Part::Host, b"a.example".to_vec())];
    let other = [(Part::Host, b"b.example".to_vec())];
    let parts = |json: &Value, requests: &[&[(Part, Vec<u8>)]]| {
        let gateway = Gateway::start(CasSemantics::Strict, 1, &json.to_string());
        let ask = |own: &&[(Part, Vec<u8>)]| {
            let rest = [(Part::Path, b"/".to_vec()), (Part::Method, b"GET".to_vec())];
            gateway.fate(gateway.vms[0].ask(own.iter().cloned().chain(rest).collect()))
        };
        requests.iter().map(ask).collect::<Vec<_>>()
    };
    let hosts = once(json!({"hosts": "a.example"}), "all");
    assert_eq!(parts(&hosts, &[&other, &other, &lying, &plain]), [PASSED, PASSED, PASSED, REFUSED]);
    let mut actor = once(json!({}), "asked");
    actor["actors"] = json!({"asked": "host"});
    actor["limits"][0]["rules"][0]["missing"] = "skip".into();
    assert_eq!(parts(&actor, &[&lying, &plain, &other]), [PASSED, REFUSED, PASSED]);
}

/// If an actor's value may be several lines, the actor is missing, and the request is counted by
/// address.
#[test]
fn a_value_that_may_be_several_lines_names_no_actor() {
    let lines = |lines: &[&str]| lines.iter().map(|line| header("x-user-id", line)).collect::<Vec<_>>();
    let (ann, twice, several) = (lines(&["ann"]), lines(&["ann", "ann"]), lines(&["ann", "eve"]));
    let (other, comma) = (lines(&["eve", "ann"]), lines(&["Doe, Ann"]));
    let json = once(json!({}), "user");
    // Counted by address, so that a client that adds lines has one quota in all.
    check(&json, [&several, &other, &comma, &ann, &twice], [PASSED, REFUSED, REFUSED, PASSED, REFUSED]);
    // Such a value frees no request either.
    let mut allowed = once(json!({}), "all");
    allowed["allow"] = json!([{"user": "root"}]);
    let (root, added) = (lines(&["root"]), lines(&["ann", "root"]));
    check(&allowed, [&root, &added, &added, &root], [PASSED, PASSED, REFUSED, PASSED]);
}

#[test]
fn an_added_header_line_evades_no_condition_and_frees_nothing() {
    let plan = |lines: &[&str]| lines.iter().map(|line| header("x-plan", line)).collect::<Vec<_>>();
    for condition in [json!("free"), json!({"prefix": "fr"}), json!({"regex": "^fre+$"})] {
        let json = once(json!({"headers": {"x-plan": condition}}), "all");
        for lines in [
            &["zzz", "free"][..],
            &["free", "zzz"],
            &["a", "free", "b"],
            // More separators than are tried.
            &["1", "2", "3", "4", "5", "6", "7", "8", "9"],
        ] {
            let sent = plan(lines);
            check(&json, [&sent, &sent], [PASSED, REFUSED]);
        }
        let other = plan(&["zzz", "yyy"]);
        check(&json, [&other, &other], [PASSED, PASSED]);
        // A request that an exclusive limit frees must fulfil its conditions in every reading of
        // the joined value.
        let free = json!({"url": "/", "headers": {"x-plan": condition}, "exclusive": true});
        let mut json = once(json!({}), "all");
        json["limits"].as_array_mut().unwrap().push(free);
        let (sure, unsure) = (plan(&["free"]), plan(&["free", "zzz"]));
        let many = plan(&["free"; 9]);
        check(&json, [&sure, &unsure, &unsure, &many, &sure], [PASSED, PASSED, REFUSED, REFUSED, PASSED]);
    }
}

#[test]
fn what_a_limit_does_not_exclude_evades_it_in_no_number_of_lines() {
    let plan = |lines: &[&str]| lines.iter().map(|line| header("x-plan", line)).collect::<Vec<_>>();
    let (gold, added, comma) = (plan(&["gold"]), plan(&["gold", "free"]), plan(&["gold,gold"]));
    let json = once(json!({"headers": {"x-plan": {"not": "gold"}}}), "all");
    check(&json, [&gold, &gold, &added, &comma, &[]], [PASSED, PASSED, PASSED, REFUSED, REFUSED]);
    let method = |name: &str| [(Part::Method, name.into())];
    let json = once(json!({"methods": {"not": "GET"}}), "all");
    let [get, lower, rare] = ["GET", "get", "PROPFIND"].map(method);
    check(&json, [&get, &get, &lower, &rare], [PASSED, PASSED, PASSED, REFUSED]);
    let host = |name: &str| [(Part::Host, name.into())];
    let json = once(json!({"hosts": {"not": "a.example"}}), "all");
    let [same, other] = ["A.example:80", "b.example"].map(host);
    check(&json, [&same, &same, &other, &[]], [PASSED, PASSED, PASSED, REFUSED]);
}

#[test]
fn a_header_that_nginx_cannot_distinguish_is_refused() {
    let json = once(json!({"headers": {"x_plan": "free"}}), "all").to_string();
    for (rules, is_accepted) in [(CasSemantics::Strict, false), (CasSemantics::Lenient, true)] {
        let gateway = Gateway::start(rules, 1, r#"{"limits": []}"#);
        assert_eq!(gateway.configure(&json), is_accepted);
        let logged =
            gateway.world.logged("configuration refused, the header `x_plan` cannot be read in nginx");
        assert_eq!(logged, usize::from(!is_accepted));
    }
}
