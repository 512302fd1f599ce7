//! Bytes as a configuration, and the decisions of its policy about requests.

use diana_base::time::{Span, Time};
use diana_config::{Configuration, compile};
use diana_document::{Value, parse, parse_json};
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_limiter::decide::Outcome;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;

/// Keys in the store that belong to no table.
const OWN_KEYS: u64 = 4;

/// Bytes are refused with reasons, or make a policy. Reasons and decisions are deterministic.
pub fn run(bytes: &[u8]) {
    match (compile(bytes), compile(bytes)) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one.response, other.response);
            assert_eq!(one.policy.footprint(), other.policy.footprint());
            assert_eq!(decisions(&one), decisions(&other));
        }
        (Err(one), Err(other)) => {
            let messages = |errors: Vec<_>| errors.iter().map(ToString::to_string).collect::<Vec<String>>();
            let (one, other) = (messages(one), messages(other));
            assert_eq!(one, other);
            assert!(!one.is_empty() && one.iter().all(|why| !why.contains(char::is_control)), "{one:?}");
        }
        _ => panic!("the same bytes are accepted and refused"),
    }
    if let Ok(document) = parse(bytes)
        && is_exact(&document)
    {
        let printed = document.to_string();
        assert_eq!(parse_json(printed.as_bytes()).as_ref(), Some(&document), "{printed}");
        assert_eq!(compile(printed.as_bytes()).is_ok(), compile(bytes).is_ok(), "{printed}");
    }
}

/// Whether all numbers of the value are read exactly: serde_json may be wrong by one bit for
/// numbers with many digits.
fn is_exact(document: &Value) -> bool {
    match document {
        Value::Number(number) => {
            let small = *number == 0.0 || (1e-7..1e15).contains(&number.abs());
            small && format!("{number:e}").chars().filter(char::is_ascii_digit).count() <= 15
        }
        Value::List(items) => items.iter().all(is_exact),
        Value::Object(entries) => entries.iter().all(|(_, value)| is_exact(value)),
        _ => true,
    }
}

/// The decisions about a few requests, and the responses to their clients.
fn decisions(configuration: &Configuration) -> Vec<String> {
    let Configuration { policy, response, .. } = configuration;
    let host = Simulated::new(CasSemantics::Lenient);
    let store = SharedDataStore::probe(&host).unwrap();
    let mut worker = Worker::new(policy.clone(), &store, b"a seed of a test");
    let (mut decisions, mut sessions) = (Vec::new(), Vec::new());
    let mut now = Time::from_ns(1_700_000_000_000_000_000);
    for values in requests() {
        let request = policy.request(&values);
        for _ in 0..2 {
            let (session, decision) = Session::start(&mut worker, &request, || now);
            match decision.outcome {
                Outcome::Delay(until) => assert!(until > now),
                Outcome::Query(_) => panic!("a worker without a store queries one"),
                _ => {}
            }
            let refusal = response.refusal(policy, decision, policy.protocol(&request), 7);
            assert_eq!(refusal.is_some(), decision.is_rejected());
            if let Some(refusal) = &refusal {
                assert!(refusal.status == 200 || (400..600).contains(&refusal.status));
                assert!(!refusal.details.contains(' '));
                refusal.headers.iter().for_each(|(_, value)| sendable(value));
            }
            let headers = response.headers(policy, decision);
            headers.iter().for_each(|(_, value)| sendable(value));
            decisions.push(format!("{decision:?} {refusal:?} {headers:?}"));
            sessions.push(session);
        }
        now = now.after(Span::from_ms(400));
    }
    for mut session in sessions {
        session.settle(&mut worker, || now);
        assert!(!session.has_charges());
    }
    let keys = u64::try_from(host.len()).unwrap();
    assert!(keys <= policy.footprint().0.saturating_add(OWN_KEYS), "{keys} keys");
    decisions
}

#[track_caller]
fn sendable(value: &str) {
    assert!(value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)), "{value:?}");
}

fn requests() -> Vec<Values> {
    let header = |name: &str| Part::Header(name.into());
    let get = |target: &str| {
        let authority = Values::default().with(Part::Method, "GET").with(Part::Host, "api.example.com:443");
        authority.with(Part::Path, target).with(Part::Address, "10.0.0.1:55")
    };
    vec![
        get("/"),
        get("/").with(header("x-user-id"), "ann").with(header("x-plan"), "gold"),
        get("/api/v1/models/7?key=k")
            .with(header("x-user-id"), "bob")
            .with(header("cookie"), "session=1; a=b")
            .with(header("authorization"), "Bearer e30.eyJwbGFuIjoiZnJlZSJ9.c2ln")
            .with(Part::Property(vec!["xds".into(), "route_name".into()]), "main")
            .with(Part::BodySize, "1024"),
        get("/tenants/acme/orders?format=csv&debug").with(Part::BodySize, "0"),
        get("/tenants/acme;a=1/orders?format=csv&format=json").with(Part::BodySize, "x"),
        get("//x/..;p/api%2Fv1").with(header("content-type"), "application/grpc"),
        get("/a/b/c").with(header("x-forwarded-for"), "203.0.113.9, 10.0.0.7").with(header("x-tenant"), "t"),
        Values::default(),
    ]
}
