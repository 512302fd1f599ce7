//! Rules that are enforced for a part of their actors: which part, and what happens to the others.

use crate::harness::{Gateway, START, at, get, store};
use diana_config::{Configuration, compile};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::request::protocol::Protocol;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::collections::BTreeSet;

fn configuration(json: &str) -> Configuration {
    compile(json.as_bytes()).unwrap_or_else(|errors| panic!("{errors:?}\n{json}"))
}

/// Whether a gateway with this seed refuses each of these requests.
fn refusals(json: &str, seed: u8, requests: impl IntoIterator<Item = Values>) -> Vec<bool> {
    let policy = configuration(json).policy;
    let host = Simulated::new(CasSemantics::Strict);
    let mut worker = Worker::new(policy.clone(), store(&host), &[seed; 16]);
    let mut refuses =
        |request: Values| Session::start(&mut worker, &policy.request(&request), || START).1.is_rejected();
    requests.into_iter().map(&mut refuses).collect()
}

/// Of 2,000 users, those that the rule refuses. It has no quota for anybody.
fn users(json: &str, seed: u8) -> BTreeSet<usize> {
    let refused = refusals(json, seed, (0..2_000).map(|user| get("/", &format!("user-{user}"))));
    refused.into_iter().enumerate().filter(|(_, refused)| *refused).map(|(user, _)| user).collect()
}

/// A rule that admits nobody.
fn closed(keys: &str) -> String {
    format!(r#"{{"limits": [{{"url": "/", "rules": [{{"rpu": 0, "unit": "hour", {keys}}}]}}]}}"#)
}

fn login(part: &str) -> String {
    closed(&format!(r#""name": "login", "actor": "user", "enforce": "{part}""#))
}

#[test]
fn every_gateway_refuses_the_same_part_of_the_actors() {
    let mut smaller = BTreeSet::new();
    for (part, fair) in [("0%", 0_usize), ("0.5%", 10), ("5%", 100), ("20%", 400), ("100%", 2_000)] {
        let refused = users(&login(part), 1);
        assert!(refused.len().abs_diff(fair) < 4 * fair.isqrt().max(1), "{part}: {}", refused.len());
        assert_eq!(refused, users(&login(part), 2), "{part}: another seed");
        assert!(refused.is_superset(&smaller), "{part}");
        smaller = refused;
    }
    let five = users(&login("5%"), 1);
    let at_the_top =
        login("100%").replace(r#", "enforce": "100%""#, "").replacen('{', r#"{"enforce": "5%", "#, 1);
    assert_eq!(users(&at_the_top, 1), five);
    // A rule's own part wins over the document's.
    assert_eq!(users(&login("5%").replacen('{', r#"{"enforce": "50%", "#, 1), 1), five);
    let other = users(&login("5%").replace("login", "logout"), 1);
    assert!(other.intersection(&five).count() < 30, "another rule has actors of its own");
}

/// The name decides, whatever the rule's numbers. Without a name, what the rule counts decides.
#[test]
fn a_named_rule_keeps_its_actors_when_its_numbers_change() {
    let of = |name: &str, more: &str| {
        users(&closed(&format!(r#"{name}"actor": "user", "enforce": "5%"{more}"#)), 1)
    };
    let named = r#""name": "login", "#;
    assert_eq!(of(named, ""), of(named, r#", "missing": "skip""#));
    assert_eq!(of("", ""), of("", r#", "reject_delay": "1s", "mode": "enforce""#));
    assert_ne!(of("", ""), of("", r#", "missing": "skip""#));
    assert_ne!(of("", ""), of(named, ""));
    // The second request of each user, under several numbers.
    let second = |name: &str, more: &str| {
        let rule = format!(r#"{{{name}"actor": "user", "algo": "W", "rpu": 1, "enforce": "5%", {more}}}"#);
        let twice = (0..4_000).map(|at| get("/", &format!("user-{}", at / 2)));
        refusals(&format!(r#"{{"url": "/", "rules": [{rule}]}}"#), 1, twice)
    };
    let (hour, day) = (r#""unit": "hour""#, r#""unit": "day""#);
    assert_eq!(second(named, hour), second(named, day));
    assert_ne!(second("", hour), second("", day));
    // Rules without names change places, and with them their default names.
    let rule = r#"{"actor": "user", "rpu": 0, "unit": "hour", "enforce": "5%"}"#;
    let other = r#"{"actor": "device", "rpu": 9, "unit": "day"}"#;
    let both = |rules: [&str; 2]| format!(r#"{{"url": "/", "rules": [{}]}}"#, rules.join(", "));
    assert_eq!(users(&both([rule, other]), 1), users(&both([other, rule]), 1));
}

#[test]
fn shadow_wins_over_any_part() {
    assert!(users(&login("100%").replace(r#""rpu""#, r#""mode": "shadow", "rpu""#), 1).is_empty());
    assert!(users(&login("100%").replacen('{', r#"{"mode": "shadow", "#, 1), 1).is_empty());
    assert!(users(&login("100%").replacen('{', r#"{"mode": "shadow", "enforce": "50%", "#, 1), 1).is_empty());
    assert_eq!(users(&login("100%").replacen('{', r#"{"enforce": "0%", "#, 1), 1).len(), 2_000);
}

fn from(address: &str) -> Values {
    Values::default().with(Part::Path, "/").with(Part::Address, address)
}

/// Two spellings of one actor never differ.
#[test]
fn an_actor_has_one_part_however_its_value_is_spelt() {
    let addresses = |spell: &dyn Fn(u32) -> String, keys: &str| {
        let json = closed(&format!(r#""name": "r", "enforce": "50%", {keys}"#));
        refusals(&json, 1, (0..200).map(|number| from(&spell(number))))
    };
    for keys in [
        r#""actor": "ip""#,
        r#""actor": "all""#,
        r#""actor": "user""#,
        r#""actor": "user", "missing": "deny""#,
    ] {
        let plain = addresses(&|number| format!("10.0.7.{number}"), keys);
        assert!((60..140).contains(&plain.iter().filter(|refused| **refused).count()));
        assert_eq!(addresses(&|number| format!("10.0.7.{number}:{}", 4_000 + number), keys), plain, "{keys}");
        assert_eq!(addresses(&|number| format!("[::ffff:10.0.7.{number}]:80"), keys), plain, "{keys}");
        let networks = addresses(&|number| format!("2001:db8:7:{number:x}::1"), keys);
        assert_eq!(
            addresses(&|number| format!("[2001:0DB8:7:{number:X}:a:b:c:d]:443"), keys),
            networks,
            "{keys}: one client has a whole /64"
        );
    }
    let spelt = |spell: &dyn Fn(usize) -> Values| {
        let json = closed(r#""name": "r", "enforce": "50%", "actor": ["user", "ip"]"#);
        refusals(&json, 1, (0..200).map(spell))
    };
    let plain = spelt(&|user| get("/", &format!("u{user}")));
    assert_eq!(spelt(&|user| get("/", &format!(" u{user}\t"))), plain);
}

/// A rule that counts clients together is enforced for a part of their addresses, and so is one
/// whose actor the request lacks. A client that also hides its address is in every part.
#[test]
fn whoever_hides_the_actor_is_known_by_the_address() {
    let hidden = |keys: &str, values: &dyn Fn(usize) -> Values| {
        let json = closed(&format!(r#""name": "r", {keys}"#));
        refusals(&json, 1, (0..400).map(values))
    };
    let from_each = |client: usize| from(&format!("10.0.{}.{}", client / 100, client % 100));
    let with_user =
        |client: usize| from_each(client).with(Part::Header("x-user-id".into()), format!("u{client}"));
    let nowhere = |_: usize| Values::default().with(Part::Path, "/");
    let all = hidden(r#""enforce": "5%""#, &from_each);
    assert!((5..40).contains(&all.iter().filter(|refused| **refused).count()));
    assert_eq!(hidden(r#""enforce": "5%""#, &with_user), all, "the user does not matter");
    for missing in ["share", "ip", "deny"] {
        let keys = format!(r#""actor": "user", "missing": "{missing}", "enforce": "5%""#);
        assert_eq!(hidden(&keys, &from_each), all, "{missing}");
        assert!(hidden(&keys, &nowhere).into_iter().all(|refused| refused), "{missing}");
        let shadow = keys.replace("5%", "0%");
        assert!(!hidden(&shadow, &nowhere).into_iter().any(|refused| refused), "{missing}");
    }
    for keys in [r#""enforce": "0.01%""#, r#""actor": "ip", "enforce": "0.01%""#] {
        assert!(hidden(keys, &nowhere).into_iter().all(|refused| refused), "{keys}");
    }
    let skipped = r#""actor": "user", "missing": "skip", "enforce": "99%""#;
    assert!(!hidden(skipped, &nowhere).into_iter().any(|refused| refused));
}

/// A decision, the headers that a client sees of it, and its refusal.
type Shown = (Decision, Vec<(&'static str, String)>, Option<String>);

/// All that a run shows.
fn shown(json: &str, user: &str) -> Vec<Shown> {
    let Configuration { policy, response, .. } = configuration(json);
    let host = Simulated::new(CasSemantics::Strict);
    let mut worker = Worker::new(policy.clone(), store(&host), &[7; 16]);
    let (mut open, mut shown) = (Vec::new(), Vec::new());
    for step in 0..60_u64 {
        // Bursts, pauses, and every third request for a rule's other plan.
        let now = at(step * 40 + step / 12 * 3_000);
        let plan = if step % 3 == 0 { "gold" } else { "free" };
        let request = get("/", user).with(Part::Header("x-plan".into()), plan);
        let request = policy.request(&request);
        let (mut session, decision) = Session::start(&mut worker, &request, || now);
        if let Outcome::Delay(_) = decision.outcome {
            session.resume();
        }
        let refusal = response.refusal(&policy, decision, Protocol::Http, 9);
        shown.push((
            decision.clone(),
            response.headers(&policy, decision),
            refusal.map(|refusal| format!("{refusal:?} {}", decision.reject_delay(&policy))),
        ));
        open.push(session);
        if open.len() > 2 {
            open.remove(0).settle(&mut worker, || now);
        }
        worker.tick(|| now, false);
    }
    shown
}

/// For the part the rule does what it does without `enforce`, for the others what it does in
/// shadow: decisions, waits, permits, penalties, headers and delays of refusals.
#[test]
fn a_rule_is_enforced_for_its_part_and_in_shadow_for_the_others() {
    let refused = users(&closed(r#""name": "r", "actor": "user", "enforce": "50%""#), 1);
    let inside = refused.iter().next().copied().unwrap();
    let outside = (0..2_000).find(|user| !refused.contains(user)).unwrap();
    for keys in [
        r#""rpu": 2, "unit": "second""#,
        r#""rpu": 2, "unit": "second", "max_wait": "2s""#,
        r#""algo": "W", "rpu": 5, "unit": "2s""#,
        r#""algo": "SW", "rpu": 5, "unit": "2s""#,
        r#""algo": "SL", "rpu": 5, "unit": "2s""#,
        r#""algo": "LB", "rpu": 2, "unit": "second", "queue": 2"#,
        r#""algo": "C", "rpu": 1"#,
        r#""rpu": 1, "unit": "second", "penalty": {"after": 2, "for": "4s"}"#,
        r#""rpu": 1, "unit": "second", "reject_delay": "200ms""#,
        r#""rpu": 9, "unit": "second", "cost": 4"#,
        r#""rpu": 6, "unit": "second", "headroom": 2"#,
        r#""rpu": 1, "unit": "second", "plans": {"gold": {"rpu": 3}}"#,
        r#""rpu": 4000, "unit": "second""#,
    ] {
        let json = |more: &str| {
            format!(
                r#"{{"plan": {{"header": "x-plan"}}, "headers": "both", "limits": [{{"url": "/", "rules": [
                    {{"name": "r", "actor": "user", {keys}{more}}},
                    {{"name": "own", "actor": "user", "algo": "W", "rpu": 40, "unit": "3s"}},
                    {{"name": "total", "rpu": 30, "unit": "second"}}]}}]}}"#
            )
            .replace(
                r#"{"plan": {"header": "x-plan"}, "#,
                if keys.contains("plans") { r#"{"plan": {"header": "x-plan"}, "# } else { "{" },
            )
        };
        let (part, shadow) = (json(r#", "enforce": "50%""#), json(r#", "mode": "shadow""#));
        let user = |number: usize| format!("user-{number}");
        let enforced = shown(&part, &user(inside));
        assert_eq!(enforced, shown(&json(""), &user(inside)), "{keys}");
        let watched = shown(&part, &user(outside));
        assert_eq!(watched, shown(&shadow, &user(outside)), "{keys}");
        assert_eq!(watched, shown(&json(r#", "enforce": "0%""#), &user(outside)), "{keys}");
        assert!(keys.contains("4000") || enforced != watched, "{keys}: the rule never mattered");
    }
}

/// One worker decides about both kinds of clients of one count, from memory where it can.
#[test]
fn clients_of_one_count_are_refused_and_passed_in_turn() {
    let rule = r#"{"name": "r", "algo": "W", "rpu": 2, "unit": "hour", "enforce": "50%"}"#;
    let json = format!(r#"{{"url": "/", "rules": [{rule}]}}"#);
    let closed = closed(r#""name": "r", "enforce": "50%""#);
    let clients: Vec<String> = (0..40).map(|client| format!("10.0.0.{client}")).collect();
    let expected = refusals(&closed, 1, clients.iter().map(|client| from(client)));
    assert!(expected.contains(&true) && expected.contains(&false));
    let once: Vec<Values> = clients.iter().map(|client| from(client)).collect();
    let filler = [from("10.9.9.1"), from("10.9.9.2")];
    let many = filler.iter().cloned().chain((0..5).flat_map(|_| once.clone()));
    let refused = refusals(&json, 1, many);
    let rounds = refused.get(2..).unwrap().chunks(clients.len());
    rounds.for_each(|round| assert_eq!(round, expected));
}

#[test]
fn the_lists_follow_the_document() {
    let json = |top: &str| {
        format!(
            r#"{{{top} "deny": ["10.0.0.0/16", {{"user": "mallory"}}], "limits": [{{"url": "/", "rules": [
            {{"name": "r", "rpu": 9000, "unit": "hour"}}]}}]}}"#
        )
    };
    let clients = || (0..400).map(|client| from(&format!("10.0.{}.{}", client / 200, client % 200)));
    let denied = |top: &str| refusals(&json(top), 1, clients());
    let some = denied(r#""enforce": "20%","#);
    assert!((50..110).contains(&some.iter().filter(|denied| **denied).count()));
    let more = denied(r#""enforce": "40%","#);
    assert!(some.iter().zip(&more).all(|(some, more)| *more || !some));
    assert!(denied("").into_iter().all(|denied| denied));
    assert!(!denied(r#""enforce": "0%","#).into_iter().any(|denied| denied));
    let mallory =
        || Values::default().with(Part::Path, "/").with(Part::Header("x-user-id".into()), "mallory");
    assert_eq!(refusals(&json(r#""enforce": "0.01%","#), 1, [mallory()]), [true], "without an address");
    assert_eq!(refusals(&json(r#""enforce": "0%","#), 1, [mallory()]), [false]);
}

/// Each count goes on, whichever actors are refused.
#[test]
fn another_part_or_mode_keeps_every_count() {
    let json = |modes: [&str; 2], costs: [u64; 2]| {
        let rule = |at: usize| {
            let (mode, cost) = (modes[at], costs[at]);
            format!(
                r#"{{"name": "r{at}", "actor": "user", "algo": "W", "rpu": 90, "unit": "day", "cost": {cost}{mode}}}"#
            )
        };
        format!(r#"{{"url": "/", "rules": [{}, {}]}}"#, rule(0), rule(1))
    };
    let modes = [
        "",
        r#", "mode": "shadow""#,
        r#", "enforce": "5%""#,
        r#", "enforce": "20%""#,
        r#", "enforce": "0%""#,
    ];
    for costs in [[1, 2], [2, 1], [3, 5], [5, 3]] {
        for (from, to) in modes.iter().flat_map(|from| modes.iter().map(move |to| (from, to))) {
            let host = Simulated::new(CasSemantics::Strict);
            let mut before = Gateway::new(&json([from, ""], costs), store(&host));
            (0..3).for_each(|ms| _ = before.ask(0, &get("/", "ann"), at(ms)));
            let mut after = Gateway::new(&json([to, ""], costs), store(&host));
            let decision = after.ask(0, &get("/", "ann"), at(10));
            let left = |rule: usize| decision.checks.get(rule).unwrap().verdict().unwrap().remaining;
            assert_eq!([left(0), left(1)], costs.map(|cost| 90 - 4 * cost), "{from} to {to}, {costs:?}");
        }
    }
}

/// In a set that is full of refused actors, a request in shadow passes, and no cell counts it.
#[test]
fn a_request_that_no_cell_counts_gives_nothing_back() {
    let json = r#"{"limits": [{"url": "/", "rules": [
            {"name": "one", "actor": "user", "algo": "C", "rpu": 1, "enforce": "50%"},
            {"name": "five", "actor": "user", "algo": "C", "rpu": 5, "mode": "shadow"}]}],
        "local": {"max_actors": 2}}"#;
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(json, store(&host));
    let start = |gateway: &mut Gateway<_>, user: usize, ms| {
        let (session, decision) = gateway.start(0, &get("/", &format!("user-{user}")), at(ms));
        let left = decision.checks.iter().filter_map(|report| report.verdict());
        (session, decision.is_rejected(), left.map(|verdict| verdict.remaining).collect::<Vec<_>>())
    };
    let mut full: Vec<Session> = (0..16).map(|user| start(&mut gateway, user, 0).0).collect();
    let in_shadow = (16..99).find(|user| !start(&mut gateway, *user, 0).1).unwrap();
    let (mut uncounted, _, left) = start(&mut gateway, in_shadow, 0);
    assert!(left.is_empty(), "no rule counts the request");
    full.iter_mut().for_each(|session| _ = gateway.settle(0, session, at(1)));
    let (_held, _, left) = start(&mut gateway, in_shadow, 2);
    assert_eq!(left, [0, 4]);
    gateway.settle(0, &mut uncounted, at(3));
    assert_eq!(start(&mut gateway, in_shadow, 4).2, [0, 3]);
}
