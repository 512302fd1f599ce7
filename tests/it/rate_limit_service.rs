//! Rules that a rate limit service counts, in one worker. The test answers the worker's calls.

use crate::harness::{START, get, store};
use diana_base::time::{Span, Time};
use diana_config::Configuration;
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_limiter::decide::{Decision, Outcome, Reason, RuleResult};
use diana_limiter::global::{CallResult, Message};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;

const OK: &[u8] = b"\x08\x01";
const OVER_LIMIT: &[u8] = b"\x08\x02";

/// `everybody` counts all requests together, `login` each user that logs in, `user` each user
/// elsewhere.
const DOCUMENT: &str = r#"{
    "store": {"rls": {"cluster": "a", "secret": "sixteen letters!"}},
    "limits": [
        {"url": "/all", "rules": [
            {"name": "everybody", "rpu": 1000, "unit": "minute", "algo": "W", "scope": "global", "reject_delay": "2s"}
        ]},
        {"url": "/all/login", "rules": [
            {"name": "login", "actor": "user", "rpu": 5, "unit": "minute", "algo": "W", "scope": "global",
             "reject_delay": "3s"}
        ]},
        {"url": "/alone", "rules": [
            {"name": "user", "actor": "user", "rpu": 5, "unit": "minute", "algo": "W", "scope": "global"}
        ]}
    ]
}"#;

struct Service<'h> {
    configuration: Configuration,
    worker: Worker,
    store: SharedDataStore<&'h Simulated>,
}

impl<'h> Service<'h> {
    fn new(host: &'h Simulated) -> Service<'h> {
        let mut configuration = diana_config::compile(DOCUMENT.as_bytes()).unwrap();
        let options = configuration.store.take().unwrap();
        let worker = Worker::new(&configuration.policy, b"a seed of a test").with_global_store(options, 7);
        Service { configuration, worker, store: store(host) }
    }

    /// The decision about a request if the service replies `reply`, and whether the service was
    /// called.
    fn ask(&mut self, path: &str, user: &str, ms: u64, reply: &[u8]) -> (Decision, bool) {
        let Service { configuration: Configuration { policy, .. }, worker, store } = self;
        let now = START.after(Span::from_ms(ms));
        let (request, clock) = (get(path, user), || now);
        let request = policy.request(&request);
        let (mut session, decision) = Session::start(policy, worker, store, &request, clock);
        if !matches!(decision.outcome, Outcome::Query(_)) {
            return (decision.clone(), false);
        }
        let call = worker.next_call(policy, Time::ZERO).unwrap();
        assert!(matches!(call.message, Message::Grpc { .. }));
        let completions = worker.call_done(call.id, CallResult::Message(reply), Time::ZERO);
        match session.answer(policy, worker, store, &completions[0], clock) {
            Some(decision) if !session.is_waiting() => (decision.clone(), true),
            decision => panic!("{decision:?}"),
        }
    }

    fn results(&self, decision: &Decision) -> Vec<(&str, RuleResult)> {
        let name = |rule| self.configuration.policy.rule(rule).unwrap().name();
        decision.reports.iter().map(|report| (name(report.rule), report.result)).collect()
    }
}

/// A bytes field with this tag.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    [&[tag << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// A reply without `statuses`, with the headers that Limitador adds.
fn with_headers(code: &[u8], headers: &[(&str, &str)]) -> Vec<u8> {
    let header = |(key, value): &(&str, &str)| {
        field(3, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
    };
    [code.to_vec(), headers.iter().flat_map(header).collect()].concat()
}

/// The service does not say that `login` refuses the abuser. If the worker blamed `everybody` and
/// cached the refusal, all other users would be refused for the next 100 ms.
#[test]
fn an_abuser_of_one_rule_gets_nobody_else_refused() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut service = Service::new(&host);
    let mut refused = 0;
    for turn in 0..400 {
        let (abuser, is_called) = service.ask("/all/login", "mallory", turn, OVER_LIMIT);
        assert_eq!((abuser.outcome, is_called), (Outcome::Reject(Reason::Unattributed), true));
        let (other, _) = service.ask("/all", "ann", turn, OK);
        refused += u32::from(other.is_rejected());
    }
    assert_eq!(refused, 0, "of 400");
}

#[test]
fn an_unattributed_refusal_names_what_is_known() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut service = Service::new(&host);
    let reply = with_headers(OVER_LIMIT, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")]);
    let (decision, _) = service.ask("/all/login", "mallory", 0, &reply);
    let both = [("everybody", RuleResult::Unattributed), ("login", RuleResult::Unattributed)];
    assert_eq!(service.results(&decision), both);
    let Configuration { policy, response, .. } = &service.configuration;
    assert_eq!(decision.refused_by(policy).as_deref(), Some("everybody|login"));
    assert_eq!(decision.reject_delay(policy), Span::from_secs(2), "the shorter one");
    let refusal = response.refusal(policy, &decision, false, 0).unwrap();
    assert_eq!((refusal.status, &*refusal.details), (429, "diana_refused:everybody|login"));
    let header = |name: &str| {
        refusal.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    };
    assert_eq!(header("retry-after").as_deref(), Some("30"));
    assert_eq!(header("ratelimit"), None, "how much is left of either is unknown");
    let body = String::from_utf8(refusal.body.into_owned()).unwrap();
    assert!(body.contains("#quota-exceeded") && body.contains(r#""violated-policies":[]"#), "{body}");
}

/// If the query has one rule, the reply is about that rule, and the worker caches the refusal.
#[test]
fn a_refusal_of_the_only_rule_is_its_own() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut service = Service::new(&host);
    let (decision, is_called) = service.ask("/alone", "mallory", 0, OVER_LIMIT);
    assert_eq!((service.results(&decision), is_called), (vec![("user", RuleResult::Refused)], true));
    let (decision, is_called) = service.ask("/alone", "mallory", 50, OK);
    assert_eq!((service.results(&decision), is_called), (vec![("user", RuleResult::Refused)], false));
    let (decision, is_called) = service.ask("/alone", "ann", 50, OK);
    assert_eq!((service.results(&decision), is_called), (vec![("user", RuleResult::Admitted)], true));
}

#[test]
fn headers_of_the_service_say_how_much_is_left() {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut service = Service::new(&host);
    let left = [("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "20")];
    let limit = ("x-ratelimit-limit", r#"5, 5;w=60;name="login", 1000;w=60;name="everybody""#);
    let named = [&left[..], &[limit]].concat();
    for (path, headers, expected) in [
        ("/alone", &[][..], None),
        ("/alone", &left, Some(r#""user";r=3;t=20"#)),
        ("/alone", &[("x-ratelimit-remaining", "5000")], Some(r#""user";r=5"#)),
        ("/all/login", &left, None),
        ("/all/login", &named, Some(r#""login";r=3;t=20"#)),
    ] {
        let (decision, _) = service.ask(path, "ann", 0, &with_headers(OK, headers));
        let Configuration { policy, response, .. } = &service.configuration;
        assert_eq!(decision.outcome, Outcome::Pass);
        let shown = response.headers(policy, &decision);
        let shown = shown.iter().find(|(name, _)| *name == "ratelimit").map(|(_, value)| &**value);
        assert_eq!(shown, expected, "{path} {headers:?}");
    }
}
