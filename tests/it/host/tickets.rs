//! Each refusal has one ticket, in its body and among its attributes, which says what the gateway
//! knew. `tests/e2e/tickets.rs` reads one of a real Envoy by the command.

use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::policy::ActorSource;
use diana_limiter::request::Part;
use diana_response::{TicketError, TicketKey, TicketReason, TicketRecord};
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef";

fn document(more: &Value) -> String {
    let mut document = json!({
        "limits": [
            {"url": "/", "rules": [{"name": "per-user", "actor": "user", "algo": "W", "rpu": 2, "unit": "day"}]},
            {"url": "/pair", "exclusive": true, "rules": [
                {"name": "pair", "actor": ["user", "ip"], "missing": "share", "algo": "W", "rpu": 1, "unit": "day"}]},
            {"url": "/all", "exclusive": true, "rules": [{"name": "all", "rpu": 0, "unit": "hour"}]},
            {"url": "/mine", "exclusive": true, "rules": [
                {"name": "mine", "actor": "user", "missing": "deny", "rpu": 1, "unit": "day"}]},
            {"url": "/once", "exclusive": true, "rules": [
                {"name": "once", "actor": "user", "algo": "W", "rpu": 1, "unit": "day",
                    "penalty": {"after": 1, "for": "1h"}}]},
        ],
        "deny": [{"user": "mallory"}],
    });
    let more = more.as_object().unwrap().clone();
    document.as_object_mut().unwrap().extend(more);
    document.to_string()
}

fn gateway(rules: CasSemantics, more: &Value) -> Gateway {
    Gateway::start(rules, 2, &document(more))
}

/// The ticket of a refusal: in the body, and among the attributes.
fn ticket(gateway: &Gateway, worker: usize, path: &str, user: &str) -> Option<String> {
    let mut parts = vec![(Part::Path, path.as_bytes().to_vec()), (Part::Address, b"192.0.2.7:9".to_vec())];
    if !user.is_empty() {
        parts.push((Part::Header("x-user-id".into()), user.as_bytes().to_vec()));
    }
    let request = gateway.vms[worker].ask(parts);
    let attributes = gateway.world.records.borrow()[request].attributes.clone();
    let logged = attributes.into_iter().find(|(name, _)| name == "diana.ticket").map(|(_, value)| value);
    let Fate::Answered(status) = gateway.fate(request) else {
        assert_eq!(logged, None, "{path} {user}");
        return None;
    };
    assert_eq!(status, 429);
    let (_, body) = gateway.world.sent.borrow().last().cloned().unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    let shown = body.get("ticket").map(|ticket| ticket.as_str().unwrap().to_owned());
    assert_eq!(shown, logged, "{path} {user}");
    shown
}

fn record(gateway: &Gateway, worker: usize, path: &str, user: &str) -> TicketRecord {
    let ticket = ticket(gateway, worker, path, user).expect("a ticket");
    assert_eq!(ticket.len(), 104);
    TicketKey::new(SECRET).open(&ticket).unwrap()
}

#[test]
fn each_reason_is_in_the_ticket() {
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let tickets = json!({"tickets": {"secret": SECRET}});
        let gateway = gateway(rules, &tickets);
        let key = TicketKey::new(SECRET);
        let fingerprint = diana_config::compile(document(&tickets).as_bytes()).unwrap().fingerprint;
        let of = |path: &str, user: &str| record(&gateway, 0, path, user);
        for user in ["ann", ""] {
            (0..2).for_each(|_| assert_eq!(ticket(&gateway, 0, "/", user), None));
        }
        let first = of("/", "ann");
        let expected = TicketRecord {
            source: Some(ActorSource::Actor),
            at: first.at,
            rule: TicketRecord::rule_hash("per-user"),
            quota: 2,
            unit: diana_base::time::Span::from_secs(86_400),
            used: 2,
            wait: first.wait,
            document: fingerprint,
            gateway: first.gateway,
            actor: key.actor("ann"),
            ..TicketRecord::new(TicketReason::Quota)
        };
        assert_eq!(first, expected);
        assert!(first.wait.is_some());
        assert_eq!(first.at.as_ns(), gateway.world.clock.get() / 1_000_000 * 1_000_000);
        let cached = of("/", "ann");
        assert_eq!(TicketRecord { at: first.at, wait: first.wait, ..cached }, first, "the cached refusal");
        let other = record(&gateway, 1, "/", "ann");
        assert_eq!((other.gateway, other.actor), (first.gateway, first.actor), "another worker");

        let by_address = of("/", "");
        assert_eq!(
            (by_address.source, by_address.actor),
            (Some(ActorSource::Address), key.actor("192.0.2.7"))
        );
        assert_eq!(ticket(&gateway, 0, "/pair", "bob"), None);
        assert_eq!(of("/pair", "bob").actor, key.actor("bob,192.0.2.7"));
        assert_eq!(ticket(&gateway, 0, "/pair", ""), None);
        let shared = of("/pair", "");
        assert_eq!((shared.source, shared.actor), (Some(ActorSource::Shared), 0));
        let all = of("/all", "ann");
        assert_eq!((all.reason, all.quota, all.wait, all.actor), (TicketReason::Quota, 0, None, 0));
        let lacking = of("/mine", "");
        assert_eq!((lacking.reason, lacking.wait), (TicketReason::NoActor, None));
        assert_eq!(
            (lacking.rule, lacking.source),
            (TicketRecord::rule_hash("mine"), Some(ActorSource::Missing))
        );
        let denied = of("/", "mallory");
        assert_eq!((denied.reason, denied.rule, denied.source), (TicketReason::DenyList, 0, None));
        assert_eq!(ticket(&gateway, 0, "/once", "cyd"), None);
        assert_eq!(of("/once", "cyd").reason, TicketReason::Penalty);
        gateway.no_crash();
    }
}

#[test]
fn without_a_key_there_is_no_ticket() {
    let gateway = gateway(CasSemantics::Lenient, &json!({}));
    for path in ["/all", "/mine"] {
        assert_eq!(ticket(&gateway, 0, path, ""), None);
    }
    assert!(gateway.world.sent.borrow().iter().all(|(_, body)| !body.contains("ticket")));
}

/// New tickets need the new key, and old ones the key before it.
#[test]
fn a_new_key_seals_and_the_one_before_it_still_opens() {
    let before = gateway(CasSemantics::Lenient, &json!({"tickets": {"secret": SECRET}}));
    let after = gateway(
        CasSemantics::Lenient,
        &json!({"tickets": {"secret": "fedcba9876543210", "previous_secret": SECRET}}),
    );
    let [old, new] = [&before, &after].map(|gateway| ticket(gateway, 0, "/all", "").unwrap());
    let keys = diana_config::compile(after.world.configuration.borrow().as_bytes()).unwrap().tickets.unwrap();
    assert_eq!(keys.key.open(&old), Err(TicketError::Key));
    assert!(keys.key.open(&new).is_ok());
    let previous = keys.previous.unwrap();
    assert!(previous.open(&old).is_ok());
    assert_eq!(previous.open(&new), Err(TicketError::Key));
}

#[test]
fn the_number_of_the_gateway_is_among_its_answers() {
    let token = "0123456789abcdef0123456789abcdef";
    let inspect = json!({"path": "/.diana", "token": token});
    let of = |more: Value| {
        let gateway = gateway(CasSemantics::Lenient, &more);
        let parts = [
            (Part::Path, "/.diana/policy".to_owned()),
            (Part::Method, "GET".into()),
            (Part::Address, "127.0.0.1:9".into()),
            (Part::Header("authorization".into()), format!("Bearer {token}")),
        ];
        gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into_bytes())).into());
        let (_, body) = gateway.world.sent.borrow().last().cloned().unwrap();
        let number = serde_json::from_str::<Value>(&body).unwrap().get("gateway").cloned();
        (gateway, number)
    };
    let (gateway, number) = of(json!({"inspect": inspect, "tickets": {"secret": SECRET}}));
    assert_eq!(number, Some(record(&gateway, 1, "/all", "").gateway.into()));
    assert_eq!(of(json!({"inspect": inspect})).1, None);
}
