//! Questions of operators, and of others who pretend to be: the target, the address, the
//! authorization and the actor of a request.
//!
//! ```text
//!   one digit ⏎ actor?rule=per-user&user=ann ⏎ Bearer 0123… ⏎ user=ann
//!   1: the right token in place of the last line   2: POST   4: below the path   8: from elsewhere
//! ```

use crate::host::faults::FaultKind;
use crate::host::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const DOCUMENT: &str = r#"{
    "inspect": {"path": "/.diana", "token": "0123456789abcdef0123456789abcdef", "top": true},
    "actors": {"apikey": {"header": "x-api-key"}, "tenant": {"path": 1}},
    "plan": {"header": "x-plan"},
    "store": {"redis": {"cluster": "redis", "secret": "a secret of sixteen bytes"}},
    "limits": [{"url": "/", "rules": [
        {"name": "per-user", "actor": "user", "algo": "W", "rpu": 2, "unit": "day", "penalty": {"after": 1, "for": "1h"}},
        {"name": "per-ip", "actor": "ip", "algo": "SW", "rpu": 3, "unit": "minute", "mode": "shadow"},
        {"name": "pair", "actor": ["apikey", "tenant"], "missing": "share", "rpu": 9, "unit": "hour"},
        {"name": "plans", "actor": "user", "rpu": 5, "unit": "day", "plans": {"gold": {"rpu": 50}}},
        {"name": "all", "algo": "C", "rpu": 100},
        {"name": "everywhere", "actor": "user", "rpu": 7, "unit": "day", "scope": "global", "on_error": "local"}
    ]}]}"#;

/// The longest answer: an array of 300 numbers for each result of each rule, and 64 actors.
const LONGEST: usize = 100_000;

/// Nobody but who has the token from the right address gets an answer, and who lacks only the token
/// gets 401. An answer is JSON of bounded length and does not contain the token, and no question
/// makes the filter panic.
pub fn run(bytes: &[u8]) {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let digit = lines.next().and_then(|line| line.first()).map_or(0, |digit| digit & 15);
    let (target, line) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let actor = lines.next();
    let (has_token, is_below, is_elsewhere) = (digit & 1 != 0, digit & 4 != 0, digit & 8 != 0);
    let right = format!("Bearer {TOKEN}").into_bytes();
    let line = if has_token { right.clone() } else { line.to_vec() };
    let target = if is_below { [b"/.diana/", target].concat() } else { target.to_vec() };
    let gateway = Gateway::start(CasSemantics::Lenient, 2, DOCUMENT);
    for worker in [0, 1, 0] {
        gateway.request(worker, "/acme?x=1", "ann");
    }
    gateway.pass(1_500);
    for (worker, kind) in [(0, FaultKind::Nothing), (1, FaultKind::Nothing), (0, FaultKind::Store)] {
        gateway.fail(kind);
        let from = if is_elsewhere { "203.0.113.9:1" } else { "127.0.0.1:1" };
        let method = if digit & 2 != 0 { "POST" } else { "GET" };
        let mut parts = vec![
            (Part::Method, method.into()),
            (Part::Path, target.clone()),
            (Part::Address, from.into()),
            (Part::Header("authorization".into()), line.clone()),
        ];
        parts.extend(actor.map(|actor| (Part::Header("diana-actor".into()), actor.to_vec())));
        let before = gateway.world.sent.borrow().len();
        let request = gateway.vms[worker].ask(parts);
        let sent = gateway.world.sent.borrow();
        let answer = sent.get(before).filter(|(details, _)| details == "diana_inspect");
        // The scheme is read in any case.
        let knows = line.len() == right.len()
            && line[..7].eq_ignore_ascii_case(b"Bearer ")
            && line[7..] == *TOKEN.as_bytes();
        let may = !is_elsewhere && target.starts_with(b"/.diana/");
        assert_eq!(answer.is_some(), may, "who asks from where one may, gets an answer, and nobody else");
        if let Some((_, body)) = answer {
            let Fate::Answered(status) = gateway.fate(request) else { panic!("an answer is sent") };
            assert_eq!(status == 401, !knows, "only the token opens");
            assert!([200, 400, 401, 404, 405, 503].contains(&status), "{status}");
            let json: serde_json::Value = serde_json::from_str(body).expect("JSON");
            assert_eq!(json["error"].is_string(), status != 200, "{body}");
            let sent = [&*target, actor.unwrap_or_default()].concat();
            assert!(body.len() < LONGEST + 8 * sent.len(), "{} bytes", body.len());
            let names_token = sent.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
            assert!(names_token || !body.contains(TOKEN), "the token is a secret");
        }
    }
    gateway.fail(FaultKind::Nothing);
    gateway.pass(2_000);
    gateway.end_all();
    gateway.no_crash();
}
