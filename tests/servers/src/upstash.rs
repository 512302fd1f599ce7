//! The Upstash REST dialect (<https://upstash.com/docs/redis/features/restapi>) in front of a real Redis. Theirs cannot be
//! run here, so this plays the front alone, by what is documented:
//!
//! - `POST /` with a command as a JSON array → `{"result": …}`, or 400 and `{"error": "NOSCRIPT …"}`;
//! - `POST /pipeline` with an array of such arrays → 200 and one of those objects for each, in order;
//! - `Authorization: Bearer TOKEN`, else 401.
//!
//! What it does not know: commands in the path, transactions, base64, and tokens in the query.

use crate::serving::Serving;
use anyhow::Result;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header::AUTHORIZATION};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError, Value as Reply};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// After so long without an answer of Redis' a command has failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A running front; it ends when this is dropped.
pub struct Upstash {
    serving: Serving,
    calls: Arc<AtomicU64>,
}

#[derive(Clone)]
struct Front {
    redis: ConnectionManager,
    authorization: Arc<str>,
    calls: Arc<AtomicU64>,
}

impl Upstash {
    /// Starts one on a free port, in front of the Redis at this address, for whoever has the token. Redis may go and
    /// come back.
    pub fn start(redis: SocketAddr, token: &str) -> Result<Self> {
        let calls = Arc::new(AtomicU64::new(0));
        let (authorization, counted) = (format!("Bearer {token}").into(), Arc::clone(&calls));
        let client = Client::open(format!("redis://{redis}"))?;
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let serving = Serving::start(|| {
            let redis = ConnectionManager::new_lazy_with_config(client, config)?;
            let front = Front { redis, authorization, calls: counted };
            Ok(Router::new().route("/", post(one)).route("/pipeline", post(several)).with_state(front))
        })?;
        Ok(Self { serving, calls })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// How many requests it had so far, with a wrong token or not.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn one(State(front): State<Front>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refusal) = front.admit(&headers) {
        return refusal;
    }
    match serde_json::from_slice(&body) {
        Ok(Value::Array(words)) => match front.run(&words).await {
            Ok(result) => Json(json!({"result": result})).into_response(),
            Err(why) => failure(StatusCode::BAD_REQUEST, &why),
        },
        _ => failure(StatusCode::BAD_REQUEST, "ERR failed to parse command"),
    }
}

async fn several(State(front): State<Front>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refusal) = front.admit(&headers) {
        return refusal;
    }
    let Ok(commands) = serde_json::from_slice::<Vec<Vec<Value>>>(&body) else {
        return failure(StatusCode::BAD_REQUEST, "ERR failed to parse pipeline request");
    };
    let mut answers = Vec::new();
    for words in &commands {
        answers.push(match front.run(words).await {
            Ok(result) => json!({"result": result}),
            Err(why) => json!({"error": why}),
        });
    }
    Json(Value::Array(answers)).into_response()
}

fn failure(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({"error": why}))).into_response()
}

impl Front {
    /// Counts a request, and refuses it unless it has the token.
    #[expect(clippy::result_large_err, reason = "the answer as it is sent")]
    fn admit(&self, headers: &HeaderMap) -> Result<(), Response> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        if given == Some(self.authorization.as_bytes()) {
            return Ok(());
        }
        Err(failure(StatusCode::UNAUTHORIZED, "Unauthorized"))
    }

    /// Asks Redis; an error is Redis' own words.
    async fn run(&self, words: &[Value]) -> Result<Value, String> {
        let mut words = words.iter().map(word);
        let name = words.next().flatten().ok_or("ERR empty command")?;
        let mut command = redis::cmd(&name);
        for word in words {
            command.arg(word.ok_or("ERR an argument is neither a string nor a number")?);
        }
        let answer = command.query_async(&mut self.redis.clone()).await;
        answer.map(|reply| json_of(&reply)).map_err(|error| told(&error))
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
fn told(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => format!("ERR {error}"),
    }
}

fn json_of(reply: &Reply) -> Value {
    match reply {
        Reply::Nil => Value::Null,
        Reply::Int(number) => json!(number),
        Reply::BulkString(bytes) => json!(String::from_utf8_lossy(bytes)),
        Reply::SimpleString(text) => json!(text),
        Reply::Okay => json!("OK"),
        Reply::Array(list) => list.iter().map(json_of).collect(),
        // What the newer protocol has beside these, which is not spoken here.
        other => json!(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_json_as_documented() {
        let list = vec![Reply::Nil, Reply::Int(-7), Reply::BulkString(b"a".to_vec()), Reply::Array(vec![])];
        assert_eq!(json_of(&Reply::Array(list)), json!([null, -7, "a", []]));
        assert_eq!(json_of(&Reply::Okay), json!("OK"));
        assert_eq!(word(&json!(100)).as_deref(), Some("100"));
        assert_eq!((word(&json!("x")).as_deref(), word(&json!({}))), (Some("x"), None));
    }
}
