//! Clients that invent actors: they free nobody from a limit, and memory does not grow.

use crate::harness::{Counting, Gateway, Random, at, get, store};
use diana_limiter::cells::Events;
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_limiter::decide::{Outcome, RuleResult};
use diana_testing::shared_data::Simulated;

const INVENTED: usize = 50_000;

fn json(max_actors: u64, keys: &str) -> String {
    format!(
        r#"{{"local": {{"max_actors": {max_actors}}}, "limits": [{{"url": "/", "rules": [
            {{"name": "user", "actor": "user", "unit": "hour", {keys}}}]}}]}}"#
    )
}

/// The bytes of all keys except those of the store's rules and of the seed.
fn names(host: &Simulated) -> usize {
    host.keys().iter().filter(|key| !is_service(key)).map(Vec::len).sum()
}

fn is_service(key: &[u8]) -> bool {
    [&b"diana/rules"[..], b"diana/seed"].contains(&key)
}

type Simple<'h> = Gateway<SharedDataStore<&'h Simulated>>;

/// Sends `INVENTED` requests of invented actors, one a millisecond. The villain has to stay
/// refused.
fn flood(gateway: &mut Simple, seed: u64, different: usize) -> Events {
    let (mut random, mut total) = (Random(seed), Events::default());
    for turn in 0..INVENTED {
        let user = format!("invented-{}", random.below(different));
        let events = gateway.ask(turn % 3, &get("/", &user), at(turn as u64)).events;
        total.evicted_lossless += events.evicted_lossless;
        total.evicted_lossy += events.evicted_lossy;
        total.set_full += events.set_full;
        assert_eq!((events.faults, events.foreign, events.swaps_lost), (0, 0, 0));
        if turn % 500 == 0 {
            let villain = gateway.ask_new_worker(&get("/", "villain"), at(turn as u64));
            assert!(villain.is_rejected(), "free after {turn} invented actors");
        }
    }
    total
}

/// Uses up the villain's quota.
fn throttle(gateway: &mut Simple, burst: usize) {
    for _ in 0..burst {
        assert_eq!(gateway.ask(0, &get("/", "villain"), at(0)).outcome, Outcome::Pass);
    }
    assert!(gateway.ask(0, &get("/", "villain"), at(0)).is_rejected());
}

#[test]
fn actors_that_get_themselves_refused_free_nobody() {
    for (max_actors, rules) in [(16, CasSemantics::Lenient), (100, CasSemantics::Strict)] {
        let host = Simulated::new(rules);
        let mut gateway = Gateway::new(&json(max_actors, r#""rpu": 1"#), store(&host));
        throttle(&mut gateway, 1);
        let total = flood(&mut gateway, 1, INVENTED);
        assert_eq!((total.evicted_lossless, total.evicted_lossy), (0, 0), "every cell refuses");
        assert!(total.set_full > 10_000, "{total:?}");
        let hour = 3_600_000;
        assert!(gateway.ask_new_worker(&get("/", "villain"), at(hour - 1)).is_rejected());
        assert_eq!(
            gateway.ask_new_worker(&get("/", "villain"), at(hour)).outcome,
            Outcome::Pass,
            "honestly earned"
        );
    }
}

/// An actor without a cell is refused by the set, so the worker caches no refusal of that actor.
#[test]
fn the_cell_that_blocks_a_full_set_is_read_for_each_request() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(&json(16, r#""rpu": 1"#), Counting::new(store(&host)));
    let mut names = (0..).map(|turn| format!("invented-{turn}"));
    let blocked = names.find(|name| gateway.ask(0, &get("/", name), at(0)).events.set_full > 0);
    let blocked = get("/", &blocked.unwrap());
    gateway.store.take_counts();
    for _ in 0..3 {
        let decision = gateway.ask(0, &blocked, at(1));
        assert!(decision.is_rejected());
        assert_eq!((decision.events.set_full, gateway.store.take_counts()), (1, (1, 0)));
    }
}

/// The villain is refused with a part of its quota left. Requests of high priority still pass.
#[test]
fn a_refusal_that_leaves_headroom_is_not_evicted() {
    for (max_actors, rules) in [(16, CasSemantics::Lenient), (100, CasSemantics::Strict)] {
        let host = Simulated::new(rules);
        let keeping = json(max_actors, r#""rpu": 3, "headroom": 2"#);
        let keeping =
            keeping.replace(r#""limits": ["#, r#""limits": [{"url": "/pay", "priority": "high"}, "#);
        let mut gateway = Gateway::new(&keeping, store(&host));
        throttle(&mut gateway, 1);
        let total = flood(&mut gateway, 1, INVENTED);
        assert_eq!((total.evicted_lossless, total.evicted_lossy), (0, 0), "every cell refuses");
        assert!(total.set_full > 10_000, "{total:?}");
        let mut pays = || gateway.ask(0, &get("/pay", "villain"), at(INVENTED as u64)).outcome;
        assert_eq!([pays(), pays()], [Outcome::Pass; 2]);
        assert!(gateway.ask(0, &get("/pay", "villain"), at(INVENTED as u64)).is_rejected());
        // In a full set, no other actor gets the headroom of a cell.
        let invented = (0..200).map(|user| get("/pay", &format!("new-{user}")));
        let asked: Vec<_> =
            invented.map(|request| gateway.ask(1, &request, at(INVENTED as u64 + 1))).collect();
        let full = asked.iter().filter(|decision| decision.events.set_full > 0);
        assert!(full.clone().count() > 0 && full.clone().all(|decision| decision.is_rejected()));
    }
}

/// The villain's cell is like new after a minute, that of an invented actor with 20 requests only
/// after 72 s.
#[test]
fn a_shorter_refusal_frees_nobody() {
    let host = Simulated::new(CasSemantics::Lenient);
    let keys = r#""rpu": 1000, "overrides": {"villain": {"rpu": 1, "unit": "minute"}}"#;
    let mut gateway = Gateway::new(&json(16, keys), store(&host));
    throttle(&mut gateway, 1);
    for turn in 0..20_000 {
        gateway.ask(0, &get("/", &format!("invented-{}", turn / 20)), at(turn));
    }
    assert!(gateway.ask_new_worker(&get("/", "villain"), at(20_000)).is_rejected());
}

#[test]
fn actors_that_come_once_or_often_free_nobody() {
    for (max_actors, different) in [(16, INVENTED), (16, 200), (100, INVENTED), (100, 1000)] {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = Gateway::new(&json(max_actors, r#""rpu": 10"#), store(&host));
        throttle(&mut gateway, 10);
        let total = flood(&mut gateway, 2, different);
        assert!(total.evicted_lossy > 1000, "{total:?}");
    }
}

#[test]
fn a_refilled_rule_frees_nobody_whom_another_rule_refuses() {
    let host = Simulated::new(CasSemantics::Lenient);
    let json = r#"{"local": {"max_actors": 16}, "limits": [{"url": "/", "rules": [
        {"actor": "user", "unit": "hour", "rpu": 10}, {"actor": "user", "unit": "second", "rpu": 100000}]}]}"#;
    let mut gateway = Gateway::new(json, store(&host));
    throttle(&mut gateway, 10);
    flood(&mut gateway, 3, INVENTED);
}

#[test]
fn an_actor_that_used_more_stays_and_newcomers_pass() {
    let host = Simulated::new(CasSemantics::Strict);
    let mut gateway = Gateway::new(&json(16, r#""rpu": 10"#), store(&host));
    for _ in 0..9 {
        gateway.ask(0, &get("/", "regular"), at(0));
    }
    for turn in 0..2000 {
        assert!(!gateway.ask(0, &get("/", &format!("invented-{turn}")), at(0)).is_rejected());
    }
    assert_eq!(
        gateway.ask(0, &get("/", "regular"), at(0)).checks.first().unwrap().verdict().unwrap().remaining,
        0
    );
    assert!(gateway.ask(0, &get("/", "regular"), at(0)).is_rejected());
}

#[test]
fn an_actor_with_a_full_quota_is_evicted_without_loss() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(&json(8, r#""rpu": 3600"#), store(&host));
    let mut total = Events::default();
    // One second pays for one request, so after a second every cell is full again.
    for turn in 0..1000 {
        let events = gateway.ask(0, &get("/", &format!("user-{turn}")), at(turn * 1000)).events;
        total.evicted_lossless += events.evicted_lossless;
        assert_eq!((events.evicted_lossy, events.set_full), (0, 0));
    }
    assert_eq!(total.evicted_lossless, 1000 - 16);
}

#[test]
fn memory_is_fixed_once_every_key_is_written() {
    for (max_actors, rules) in
        [(16, CasSemantics::Lenient), (100, CasSemantics::Strict), (1000, CasSemantics::Lenient)]
    {
        let host = Simulated::new(rules);
        let json = format!(
            r#"{{"local": {{"max_actors": {max_actors}}}, "limits": [{{"url": "/", "rules": [
                {{"actor": "user", "rpu": 9, "unit": "hour"}}, {{"actor": "user", "rpu": 5, "unit": "second"}},
                {{"actor": ["user", "ip"], "rpu": 9, "unit": "hour", "overrides": {{"a, 10.0.0.1": {{"rpu": 1}}}}}},
                {{"rpu": 1000000000, "unit": "second"}}]}}]}}"#
        );
        let mut gateway = Gateway::new(&json, store(&host));
        let services = (host.len(), host.bytes());
        let (keys, bytes) = gateway.policy.footprint();
        let mut random = Random(3);
        let mut first_fill = None;
        for turn in 0..20_000 {
            let user = format!("invented-{}", random.below(INVENTED));
            assert!(!gateway.ask(turn % 2, &get("/", &user), at(turn as u64)).is_rejected());
            if turn == 15_000 {
                first_fill = Some((host.len(), host.bytes()));
            }
        }
        assert_eq!(first_fill, Some((host.len(), host.bytes())));
        assert_eq!(host.len(), services.0 + keys as usize);
        assert_eq!(host.bytes(), services.1 + bytes as usize + names(&host));
    }
}

/// Actors that a shadow rule would refuse give way to newcomers, and each newcomer is counted by
/// itself.
#[test]
fn a_shadow_rule_counts_no_actor_with_another() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(&json(8, r#""rpu": 1, "mode": "shadow""#), store(&host));
    for turn in 0..200 {
        let request = get("/", &format!("user-{turn}"));
        let results = [0, 0].map(|_| gateway.ask(0, &request, at(0)).checks.first().unwrap().result());
        assert_eq!(results, [RuleResult::Admitted, RuleResult::Shadowed], "user {turn}");
    }
}

/// They fill sets no more than other actors.
#[test]
fn actors_with_an_override_spread_as_others_do() {
    let users: Vec<String> = (0..1000).map(|user| format!("user-{user}")).collect();
    let own = users.iter().map(|user| format!(r#""{user}": {{"rpu": 50}}"#)).collect::<Vec<_>>().join(", ");
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway =
        Gateway::new(&json(1000, &format!(r#""rpu": 10, "overrides": {{{own}}}"#)), store(&host));
    let mut evicts = |user: &&String| {
        let events = gateway.ask(0, &get("/", user), at(0)).events;
        events.evicted_lossless + events.evicted_lossy > 0
    };
    let evicted = users.iter().filter(|user| evicts(user)).count();
    assert!(evicted < 5, "{evicted} of 1,000");
}

/// A newcomer with an override must not shorten the refusals of others.
#[test]
fn a_newcomer_with_an_override_frees_nobody() {
    let host = Simulated::new(CasSemantics::Lenient);
    let keys = r#""rpu": 1, "overrides": {"vip": {"rpu": 1000, "unit": "second"}}"#;
    let gateway = Gateway::new(&json(16, keys), store(&host));
    let users: Vec<String> = (0..200).map(|user| format!("user-{user}")).collect();
    let passes = |user: &str, now| !gateway.ask_new_worker(&get("/", user), at(now)).is_rejected();
    let passed: Vec<&String> = users.iter().filter(|user| passes(user, 0)).collect();
    assert_eq!(passed.len(), 32, "two sets of sixteen");
    for now in 1..5_000 {
        if passes("vip", now) {
            panic!("there was no room for it");
        }
        let user = passed[now as usize % passed.len()];
        assert!(!passes(user, now), "{user} is free after {now} ms");
    }
    let refused = gateway.ask_new_worker(&get("/", "vip"), at(5_000));
    let verdict = refused.checks.first().unwrap().verdict().unwrap();
    assert_eq!(
        (refused.checks.first().unwrap().shown().rpu, verdict.remaining),
        (1_000, 0),
        "its own quota, of which it has none"
    );
    assert!(passes("vip", 3_600_000), "until the others are free as well");
}
