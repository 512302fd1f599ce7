//! A gateway that answers as `inspect` does, with faults on demand. It counts nothing of requests:
//! tests say what it has counted.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io, thread};

/// The token of all gateways.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const WRONG: &str = "the token is wrong, or too many have been wrong within a minute";

/// How a gateway answers.
#[derive(Clone, Debug, Default)]
pub enum Fault {
    /// As it should.
    #[default]
    None,
    /// Only the questions of version 0.2: policy, actor and reset.
    Old,
    /// It takes the question and never answers.
    Silent,
    /// The connection ends in the middle of the answer.
    CutOff,
    /// Bytes that are not HTTP.
    Garbage,
    /// JSON of another shape.
    OtherJson,
    /// An answer without an end.
    Endless,
    /// The answer of an upstream, with this status.
    Upstream(u16),
    /// The answer of an upstream that writes JSON, with this status.
    UpstreamJson(u16, &'static str),
    /// It answers once so many gateways were asked.
    Together(Arc<Barrier>),
}

/// What a gateway knows.
pub struct State {
    pub fault: Fault,
    pub policy: Value,
    pub rates: Value,
    /// The answer of `top`; null if it is not configured.
    pub top: Value,
    /// The answers of `actor`, by the query and the header with the actor.
    pub counts: BTreeMap<String, Value>,
    /// All questions with their methods, and behind a space the header with the actor.
    pub asked: Vec<String>,
    /// How many questions have come, answered or not.
    received: usize,
}

/// A running gateway. It ends with the test's process.
pub struct Fake {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    is_tls: bool,
}

/// The policy of all gateways, unless a test changes it.
pub fn policy() -> Value {
    json!({
        "version": "0.2.0", "fingerprint": "ad62478a83fc1f92", "generation": 0, "store_secret": "d0c4",
        "rules": [
            {"name": "per-user", "scope": "local", "actors": ["user"], "rpu": 100, "unit_ms": 60_000, "algorithm": "TB", "enforce": "100%"},
            {"name": "per-ip", "scope": "global", "actors": ["ip"], "rpu": 20, "unit_ms": 1_000, "algorithm": "W", "enforce": "5%"},
        ],
    })
}

impl Fake {
    pub fn start() -> Self {
        Self::serve(false, |stream| Ok(Box::new(stream)))
    }

    /// Serves each connection through this transport.
    pub fn serve(
        is_tls: bool,
        transport: impl Fn(TcpStream) -> io::Result<Box<dyn Connection>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            fault: Fault::None,
            policy: policy(),
            rates: json!({"at_ms": 0, "seconds": 60, "rules": [], "waiting": 0, "stores": []}),
            top: Value::Null,
            counts: BTreeMap::new(),
            asked: Vec::new(),
            received: 0,
        }));
        let (shared, transport) = (Arc::clone(&state), Arc::new(transport));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, transport) = (Arc::clone(&shared), Arc::clone(&transport));
                // A client that leaves is no fault of the gateway.
                thread::spawn(move || transport(stream).and_then(|stream| answer(stream, &state)));
            }
        });
        Self { address, state, is_tls }
    }

    /// The address for the commands.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://localhost:{}/.diana", self.address.port())
    }

    /// The name that the commands show.
    pub fn name(&self) -> String {
        let scheme = if self.is_tls { "https://" } else { "" };
        format!("{scheme}localhost:{}", self.address.port())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How many questions have come, answered or not.
    #[allow(dead_code, reason = "not every test asks")]
    pub fn received(&self) -> usize {
        self.state().received
    }

    pub fn fault(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// The questions since the last look that begin with this text.
    pub fn asked(&self, start: &str) -> Vec<String> {
        let mut state = self.state();
        let (found, others) = state.asked.drain(..).partition(|question| question.starts_with(start));
        state.asked = others;
        found
    }
}

/// A connection with or without TLS.
pub trait Connection: Read + Write + Send {}
impl<T: Read + Write + Send> Connection for T {}

fn answer(stream: Box<dyn Connection>, state: &Mutex<State>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut lines, mut line) = (Vec::new(), String::new());
    while stream.read_line(&mut line)? > 2 {
        lines.push(line.trim_end().to_owned());
        line.clear();
    }
    let stream = stream.get_mut();
    let Some((method, target)) = lines.first().and_then(|line| line.rsplit_once(' ')?.0.split_once(' '))
    else {
        return Ok(());
    };
    let expected = format!("Bearer {TOKEN}");
    let knows = lines.iter().any(|line| line.strip_prefix("authorization: ") == Some(&expected));
    let actor = lines.iter().find_map(|line| line.strip_prefix("diana-actor: ")).unwrap_or_default();
    state.lock().unwrap().received += 1;
    let fault = state.lock().unwrap().fault.clone();
    let upstream = |status: u16| (status, "text/html", "<p>the upstream</p>".to_owned());
    let (status, kind, body) = match (target.strip_prefix("/.diana/"), fault) {
        (None, _) => upstream(404),
        (Some(_), _) if !knows => (401, "application/json", json!({"error": WRONG}).to_string()),
        (Some(_), Fault::Upstream(status)) => upstream(status),
        (Some(_), Fault::UpstreamJson(status, body)) => (status, "application/json", body.to_owned()),
        (Some(_), Fault::Silent) => {
            thread::sleep(Duration::from_secs(600));
            return Ok(());
        }
        (Some(_), Fault::Garbage) => return stream.write_all(b"\x16\x03\x01\x00garbage\r\n\r\n"),
        (Some(_), Fault::CutOff) => {
            return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{\"rule");
        }
        (Some(_), Fault::Endless) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b' '; 65_536])?;
            }
        }
        (Some(_), Fault::OtherJson) => (200, "application/json", r#"{"rules": 7, "rule": []}"#.to_owned()),
        (Some(question), fault) => {
            let asked = [method, question, actor].join(" ").trim_end().to_owned();
            state.lock().unwrap().asked.push(asked);
            if let Fault::Together(barrier) = &fault {
                barrier.wait();
            }
            let (status, value) =
                answered(method, question, actor, matches!(fault, Fault::Old), &mut state.lock().unwrap());
            (status, "application/json", value.to_string())
        }
    };
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()
}

fn answered(method: &str, question: &str, actor: &str, is_old: bool, state: &mut State) -> (u16, Value) {
    let (name, query) = question.split_once('?').unwrap_or((question, ""));
    let wrong = |status: u16, why: &str| (status, json!({"error": why}));
    let help = "expected GET policy, GET actor or POST reset";
    if is_old && !["policy", "actor", "reset"].contains(&name) {
        return wrong(404, help);
    }
    // The parameters of a change are not part of the actor.
    let is_own = |part: &&str| !["amount", "for"].contains(&part.split('=').next().unwrap());
    let actor = query.split('&').filter(is_own).chain((!actor.is_empty()).then_some(actor));
    let actor = actor.collect::<Vec<_>>().join("&");
    let parameter = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let new = json!({
        "rule": parameter("rule").unwrap_or_default(), "quota": 100, "quota_ms": 60_000, "used": 0, "remaining": 100,
        "more_in_ms": 0, "full_in_ms": 0, "penalty_ms": 0, "granted": 0, "granted_for_ms": 0, "reserved": 0,
        "is_refused": false,
    });
    if ["actor", "reset", "grant", "penalty"].contains(&name) && parameter("rule") == Some("none") {
        return wrong(400, "there is no rule `none`");
    }
    match (method, name) {
        ("GET", "policy") => (200, state.policy.clone()),
        ("GET", "rates") => {
            let mut rates = state.rates.clone();
            rates["at_ms"] = json!(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64);
            (200, rates)
        }
        ("GET", "top") if state.top.is_null() => wrong(404, "`top` needs `inspect.top: true`"),
        ("GET", "top") => (200, state.top.clone()),
        ("GET", "actor") => (200, state.counts.get(&actor).cloned().unwrap_or(new)),
        ("POST", "reset") => {
            state.counts.remove(&actor);
            (200, new)
        }
        ("POST", "grant") => {
            let count = state.counts.entry(actor).or_insert(new);
            let amount: u64 = parameter("amount").and_then(|amount| amount.parse().ok()).unwrap();
            count["granted"] = json!(amount);
            count["granted_for_ms"] = json!(3_600_000);
            // Only this counts the grant: `remaining` is the quota's.
            count["is_refused"] = json!(false);
            (200, count.clone())
        }
        ("POST", "penalty") => {
            let count = state.counts.entry(actor).or_insert(new);
            count["penalty_ms"] = json!(0);
            (200, count.clone())
        }
        _ => wrong(404, help),
    }
}

/// A count of an actor that is refused.
pub fn refused(rule: &str) -> Value {
    json!({
        "rule": rule, "quota": 100, "quota_ms": 60_000, "used": 100, "remaining": 0, "more_in_ms": 600,
        "full_in_ms": 60_000, "penalty_ms": 1_500, "granted": 0, "granted_for_ms": 0, "reserved": 0,
        "is_refused": true,
    })
}
