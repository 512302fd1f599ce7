//! The Upstash REST dialect (<https://upstash.com/docs/redis/features/restapi>) in front of a real
//! Redis. Upstash's own server is not available, so this proxy follows the documentation:
//!
//! - `POST /` with a command as a JSON array → `{"result": …}`, or 400 and `{"error": "NOSCRIPT
//!   …"}`;
//! - `POST /pipeline` with an array of such arrays → 200 and one of those objects for each, in
//!   order;
//! - `Authorization: Bearer TOKEN`, else 401.
//!
//! The proxy can also mix up its replies, as webdis does after a stall: see [`Upstash::shift`]. It
//! lacks commands in the path, transactions, base64, and tokens in the query.

use crate::serving::Serving;
use crate::shift::Shift;
use anyhow::Result;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError, Value as RedisReply};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A command fails after this time without a reply from Redis.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running proxy, which ends when it is dropped.
pub struct Upstash {
    serving: Serving,
    calls: Arc<AtomicU64>,
    shift: Arc<Shift<Reply>>,
}

#[derive(Clone)]
struct Front {
    redis: ConnectionManager,
    authorization: Arc<str>,
    calls: Arc<AtomicU64>,
    shift: Arc<Shift<Reply>>,
}

/// The status and the body of a reply.
type Reply = (StatusCode, Value);

impl Upstash {
    /// Starts a proxy on a free port, in front of the Redis at this address. Requests need the
    /// token. Redis may go and come back.
    pub fn start(redis: SocketAddr, token: &str) -> Result<Self> {
        let calls = Arc::new(AtomicU64::new(0));
        let (authorization, counted) = (format!("Bearer {token}").into(), Arc::clone(&calls));
        let shift = Arc::new(Shift::default());
        let shifts = Arc::clone(&shift);
        let client = Client::open(format!("redis://{redis}"))?;
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let serving = Serving::start(|| {
            let redis = ConnectionManager::new_lazy_with_config(client, config)?;
            let front = Front { redis, authorization, calls: counted, shift: shifts };
            Ok(Router::new().route("/", post(one)).route("/pipeline", post(several)).with_state(front))
        })?;
        Ok(Self { serving, calls, shift })
    }

    /// The address of the proxy.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// From now on each open connection replies to every call with the reply to the previous call.
    /// A connection is in step again after 100 ms without a call: Envoy would close the connection
    /// in that pause.
    pub fn shift(&self) {
        self.shift.begin();
    }

    /// The number of requests so far, whatever their token.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn one(
    State(front): State<Front>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !front.admits(&headers) {
        return sent(unauthorized());
    }
    let reply = match serde_json::from_slice(&body) {
        Ok(Value::Array(words)) => match front.run(&words).await {
            Ok(result) => (StatusCode::OK, json!({"result": result})),
            Err(why) => failure(StatusCode::BAD_REQUEST, &why),
        },
        _ => failure(StatusCode::BAD_REQUEST, "ERR failed to parse command"),
    };
    sent(front.shift.of(peer, reply))
}

async fn several(
    State(front): State<Front>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !front.admits(&headers) {
        return sent(unauthorized());
    }
    let Ok(commands) = serde_json::from_slice::<Vec<Vec<Value>>>(&body) else {
        return sent(failure(StatusCode::BAD_REQUEST, "ERR failed to parse pipeline request"));
    };
    let mut answers = Vec::new();
    for words in &commands {
        answers.push(match front.run(words).await {
            Ok(result) => json!({"result": result}),
            Err(why) => json!({"error": why}),
        });
    }
    sent(front.shift.of(peer, (StatusCode::OK, Value::Array(answers))))
}

fn sent((status, body): Reply) -> Response {
    (status, Json(body)).into_response()
}

fn failure(status: StatusCode, why: &str) -> Reply {
    (status, json!({"error": why}))
}

fn unauthorized() -> Reply {
    failure(StatusCode::UNAUTHORIZED, "Unauthorized")
}

impl Front {
    /// Counts a request. Returns whether it has the token.
    fn admits(&self, headers: &HeaderMap) -> bool {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let header = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        header == Some(self.authorization.as_bytes())
    }

    /// Runs a command in Redis. An error has Redis' own words.
    async fn run(&self, words: &[Value]) -> Result<Value, String> {
        let mut words = words.iter().map(word);
        let name = words.next().flatten().ok_or("ERR empty command")?;
        let mut command = redis::cmd(&name);
        for word in words {
            command.arg(word.ok_or("ERR an argument is neither a string nor a number")?);
        }
        let answer = command.query_async(&mut self.redis.clone()).await;
        answer.map(|reply| json_of(&reply)).map_err(|error| error_text(&error))
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// `NOSCRIPT No matching script. …`
fn error_text(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => format!("ERR {error}"),
    }
}

fn json_of(reply: &RedisReply) -> Value {
    match reply {
        RedisReply::Nil => Value::Null,
        RedisReply::Int(number) => json!(number),
        RedisReply::BulkString(bytes) => json!(String::from_utf8_lossy(bytes)),
        RedisReply::SimpleString(text) => json!(text),
        RedisReply::Okay => json!("OK"),
        RedisReply::Array(list) => list.iter().map(json_of).collect(),
        // Types of the newer protocol, which this proxy does not speak.
        other => json!(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_json_as_documented() {
        let list = vec![
            RedisReply::Nil,
            RedisReply::Int(-7),
            RedisReply::BulkString(b"a".to_vec()),
            RedisReply::Array(vec![]),
        ];
        assert_eq!(json_of(&RedisReply::Array(list)), json!([null, -7, "a", []]));
        assert_eq!(json_of(&RedisReply::Okay), json!("OK"));
        assert_eq!(word(&json!(100)).as_deref(), Some("100"));
        assert_eq!((word(&json!("x")).as_deref(), word(&json!({}))), (Some("x"), None));
    }
}
