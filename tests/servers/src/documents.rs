//! Four configuration servers in one, as documented by their projects, which keep the same document
//! under the name [`Documents::NAME`]:
//!
//! - files, as on any web server: `GET /diana.json` with `etag` and `last-modified`, and 304 (RFC
//!   9110 §13);
//! - Consul (<https://developer.hashicorp.com/consul/api-docs/kv>): `GET /v1/kv/diana.json` → a
//!   list with one entry whose `Value` is base64; with `?raw` the document itself;
//!   `x-consul-index`;
//! - Nacos (<https://nacos.io/en/docs/v2.5/manual/user/open-api/>): `GET
//!   /nacos/v1/cs/configs?dataId=…&group=…` → the document; `/nacos/v2/cs/config?…` → the document
//!   as the text `data`; `/nacos/v3/client/cs/config?dataId=…&groupName=…` → as `data.content`;
//! - etcd (<https://etcd.io/docs/current/dev-guide/api_grpc_gateway/>): `POST /v3/kv/range` with a
//!   `key` in base64 → `kvs`, whose `value` is base64.
//!
//! Consul and etcd also accept a document: `PUT /v1/kv/…`, `POST /v3/kv/put`. No server checks
//! tokens.

use crate::serving::{FREE, Serving};
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    CONTENT_LENGTH, DATE, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
    LOCATION,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};
use tokio::net::TcpListener;

/// What happens to each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// The server replies.
    #[default]
    None,
    /// The server replies with this status and a page of HTML. A redirection leads to the document.
    Status(u16),
    /// The server replies after this delay.
    Late(Duration),
    /// The server never replies.
    Silence,
    /// The server closes the connection without a reply.
    HangUp,
    /// The server closes the connection after half of the reply.
    Cut,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When the request arrived.
    pub at: Instant,
    /// `GET`, …
    pub method: Method,
    /// The path with the query.
    pub path: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The status of the reply; `None` without a reply.
    pub status: Option<u16>,
}

impl Seen {
    /// The first header with this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A running server, which ends when it is dropped.
pub struct Documents {
    serving: Option<Serving>,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    document: Option<Bytes>,
    /// Counts the documents.
    version: u64,
    fault: Fault,
    has_no_etag: bool,
    is_one_second: bool,
    seen: Vec<Seen>,
}

type HttpResponse = Response<BoxBody<Bytes, io::Error>>;

impl Documents {
    /// The name of the document, on servers that name it.
    pub const NAME: &str = "diana.json";

    /// Starts a server without a document on a free port.
    pub fn start() -> Result<Self> {
        let mut documents = Self { serving: None, address: FREE, shared: Arc::default() };
        documents.restart()?;
        Ok(documents)
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the document.
    pub fn put(&self, document: impl Into<Bytes>) {
        self.shared.state().put(document.into());
    }

    /// Sets what happens to further requests.
    pub fn fail(&self, fault: Fault) {
        self.shared.state().fault = fault;
    }

    /// From now on the server sends `last-modified` but no `etag`.
    pub fn drop_etag(&self) {
        self.shared.state().has_no_etag = true;
    }

    /// From now on all changes and replies happen in one second, which identifies a file and its
    /// tag.
    pub fn stop_clock(&self) {
        self.shared.state().is_one_second = true;
    }

    /// All requests so far, whatever happened to them.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.shared.state().seen.len()
    }

    /// Ends all connections, and closes the port.
    pub fn kill(&mut self) {
        self.serving = None;
    }

    /// Opens the port again, with the same document.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        let shared = Arc::clone(&self.shared);
        let serving = Serving::accept(self.address, |listener| Ok(accept(listener, shared)))?;
        self.address = serving.address();
        self.serving = Some(serving);
        Ok(())
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let answer = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { shared.answer(request).await }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(connection);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error closes the connection.
    async fn answer(&self, request: Request<Incoming>) -> io::Result<HttpResponse> {
        let at = Instant::now();
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let path = head.uri.to_string();
        let mut seen = Seen { at, method: head.method, path, headers: head.headers, body, status: None };
        let (fault, answer) = {
            let mut state = self.state();
            let fault = state.fault.clone();
            let answer = match fault {
                Fault::Status(status) if seen.path != MOVED => page(status),
                _ => state.serve(&seen),
            };
            if !matches!(fault, Fault::Silence | Fault::HangUp) {
                seen.status = Some(answer.status().as_u16());
            }
            state.seen.push(seen);
            (fault, answer)
        };
        match fault {
            Fault::None | Fault::Status(_) => {}
            Fault::Late(span) => tokio::time::sleep(span).await,
            Fault::Silence => pending().await,
            Fault::HangUp => return Err(io::Error::other("an injected fault")),
            Fault::Cut => return cut(answer).await,
        }
        Ok(answer)
    }
}

/// The target of a redirection.
const MOVED: &str = "/moved/diana.json";

impl State {
    fn put(&mut self, document: Bytes) {
        self.document = Some(document);
        self.version += 1;
    }

    fn serve(&mut self, request: &Seen) -> HttpResponse {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let asks = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let is_named =
            |group: &str| asks("dataId") == Some(Documents::NAME) && asks(group) == Some("DEFAULT_GROUP");
        match (&request.method, path) {
            (&Method::PUT, "/v1/kv/diana.json") => {
                self.put(request.body.clone());
                return whole(200, "true");
            }
            (&Method::POST, "/v3/kv/range" | "/v3/kv/put") => return self.etcd(path, &request.body),
            _ => {}
        }
        let Some(document) = self.document.clone().filter(|_| request.method == Method::GET) else {
            return page(404);
        };
        let text = || String::from_utf8_lossy(&document).into_owned();
        match path {
            "/diana.json" | MOVED => self.file(request, document),
            "/v1/kv/diana.json" => {
                let index = self.version;
                let mut answer = match query.split('&').any(|part| part == "raw") {
                    true => whole(200, document),
                    false => json(&json!([{
                        "LockIndex": 0, "Key": Documents::NAME, "Flags": 0, "Value": BASE64.encode(&document),
                        "CreateIndex": 1, "ModifyIndex": index,
                    }])),
                };
                answer.headers_mut().insert("x-consul-index", index.into());
                answer
            }
            "/nacos/v1/cs/configs" if is_named("group") => whole(200, document),
            "/nacos/v2/cs/config" if is_named("group") => {
                json(&json!({"code": 0, "message": "success", "data": text()}))
            }
            "/nacos/v3/client/cs/config" if is_named("groupName") => {
                let data = json!({"content": text(), "contentType": "json", "beta": false});
                json(&json!({"code": 0, "message": "success", "data": data}))
            }
            _ => page(404),
        }
    }

    /// RFC 9110 §13.2.2: `if-none-match` takes precedence over a date.
    fn file(&self, request: &Seen, document: Bytes) -> HttpResponse {
        // A second apart.
        let version = if self.is_one_second { 0 } else { self.version };
        let changed = UNIX_EPOCH + Duration::from_secs(1_700_000_000 + version);
        let tag = format!("\"v{version}\"");
        let is_known =
            match (request.header(IF_NONE_MATCH.as_str()), request.header(IF_MODIFIED_SINCE.as_str())) {
                (Some(tags), _) => tags.split(',').any(|known| known.trim().trim_start_matches("W/") == tag),
                (None, Some(date)) => httpdate::parse_http_date(date).is_ok_and(|date| date >= changed),
                (None, None) => false,
            };
        let mut answer = if is_known { whole(304, "") } else { whole(200, document) };
        let headers = answer.headers_mut();
        if !self.has_no_etag {
            headers.insert(ETAG, tag.parse().expect("a tag is ASCII"));
        }
        let changed: HeaderValue = httpdate::fmt_http_date(changed).parse().expect("a date is ASCII");
        if self.is_one_second {
            headers.insert(DATE, changed.clone());
        }
        headers.insert(LAST_MODIFIED, changed);
        answer
    }

    fn etcd(&mut self, path: &str, body: &[u8]) -> HttpResponse {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let bytes = |key: &str| BASE64.decode(request[key].as_str()?).ok();
        let Some(key) = bytes("key") else {
            return page(400);
        };
        let is_put = path.ends_with("put");
        if let Some(document) = bytes("value").filter(|_| is_put) {
            self.put(document.into());
        }
        let revision = self.version.to_string();
        let mut reply = json!({
            "header": {"cluster_id": "1", "member_id": "2", "revision": revision, "raft_term": "3"},
        });
        let found = self.document.as_ref().filter(|_| !is_put && key == Documents::NAME.as_bytes());
        if let Some(document) = found {
            let value = BASE64.encode(document);
            reply["kvs"] = json!([{
                "key": request["key"], "create_revision": "1", "mod_revision": revision, "version": revision, "value": value,
            }]);
            reply["count"] = json!("1");
        }
        json(&reply)
    }
}

fn whole(status: u16, body: impl Into<Bytes>) -> HttpResponse {
    let mut answer = Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed());
    *answer.status_mut() = StatusCode::from_u16(status).expect("a status");
    answer
}

fn json(value: &Value) -> HttpResponse {
    whole(200, value.to_string())
}

/// A page of HTML with this status.
fn page(status: u16) -> HttpResponse {
    let mut answer = whole(status, format!("<html><body><h1>{status}</h1></body></html>\n"));
    if (300..400).contains(&status) {
        answer.headers_mut().insert(LOCATION, MOVED.parse().expect("a path is ASCII"));
    }
    answer
}

/// The same reply with its length, and half of its body.
async fn cut(answer: HttpResponse) -> io::Result<HttpResponse> {
    let (mut head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    head.headers.insert(CONTENT_LENGTH, body.len().into());
    let half = Frame::data(body.slice(..body.len() / 2));
    // The written bytes go out before the connection closes.
    let end = async {
        tokio::task::yield_now().await;
        Err(io::Error::other("an injected fault"))
    };
    let frames = stream::iter([Ok(half)]).chain(stream::once(end));
    Ok(Response::from_parts(head, BodyExt::boxed(StreamBody::new(frames))))
}
