//! A collector of OpenTelemetry: OTLP over gRPC, for spans, log records and metrics. It keeps what
//! tests ask for, in the fields of opentelemetry-proto 1.

use crate::serving::Serving;
use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use axum::routing::post;
use http_body_util::{BodyExt, Full};
use prost::Message;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A running collector, which ends when it is dropped.
pub struct Collector {
    serving: Serving,
    received: Arc<Mutex<Received>>,
}

/// What a collector has received.
#[derive(Default)]
pub struct Received {
    /// In the order of their arrival.
    pub spans: Vec<Item>,
    /// In the order of their arrival.
    pub logs: Vec<Item>,
    /// The latest value of each series of a counter or gauge.
    pub metrics: BTreeMap<(String, Attributes), f64>,
}

/// Texts by their keys.
pub type Attributes = BTreeMap<String, String>;

/// A span or a log record.
#[derive(Clone, Debug)]
pub struct Item {
    /// The name of a span, the body of a log record.
    pub text: String,
    /// The number of the trace; empty without one.
    pub trace: Vec<u8>,
    /// The attributes that are texts.
    pub attributes: Attributes,
}

impl Collector {
    /// Starts a collector on a free port.
    pub fn start() -> Result<Self> {
        let received = Arc::<Mutex<Received>>::default();
        let state = Arc::clone(&received);
        let serving = Serving::start(|| {
            let path = |kind| format!("/opentelemetry.proto.collector.{kind}Service/Export");
            let router = Router::new()
                .route(&path("trace.v1.Trace"), post(spans))
                .route(&path("logs.v1.Logs"), post(logs))
                .route(&path("metrics.v1.Metrics"), post(metrics));
            Ok(router.with_state(state))
        })?;
        Ok(Self { serving, received })
    }

    /// The address of the collector.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// What it has received so far.
    pub fn received(&self) -> MutexGuard<'_, Received> {
        lock(&self.received)
    }
}

type Shared = State<Arc<Mutex<Received>>>;

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn spans(State(received): Shared, call: Request) -> Response {
    let all = items::<Span>(call).await.into_iter().map(|span| Item {
        text: span.name,
        trace: span.trace_id,
        attributes: attributes(span.attributes),
    });
    lock(&received).spans.extend(all);
    accepted()
}

async fn logs(State(received): Shared, call: Request) -> Response {
    let all = items::<LogRecord>(call).await.into_iter().map(|record| Item {
        text: record.body.unwrap_or_default().string_value,
        trace: record.trace_id,
        attributes: attributes(record.attributes),
    });
    lock(&received).logs.extend(all);
    accepted()
}

async fn metrics(State(received): Shared, call: Request) -> Response {
    let all = items::<Metric>(call).await;
    let mut received = lock(&received);
    for metric in all {
        for point in metric.gauge.into_iter().chain(metric.sum).flat_map(|points| points.data_points) {
            #[expect(clippy::cast_precision_loss, reason = "tests count to small numbers")]
            let value = point.as_double + point.as_int as f64;
            received.metrics.insert((metric.name.clone(), attributes(point.attributes)), value);
        }
    }
    accepted()
}

/// A reply with an empty message, and the status for success.
fn accepted() -> Response {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    // Not compressed, and a length of 0.
    let body = Full::from(&[0; 5][..]).with_trailers(async { Some(Ok(trailers)) });
    let mut answer = Response::new(Body::new(body));
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    answer
}

/// The items of an export of any kind: each has resources in field 1, which have scopes in field 2,
/// which have items in field 2.
async fn items<T: Message + Default>(call: Request) -> Vec<T> {
    let body = to_bytes(call.into_body(), usize::MAX).await.unwrap_or_default();
    // Whether it is compressed, and the length.
    let export = parts(body.slice(body.len().min(5)..)).first;
    let scopes = export.into_iter().flat_map(|resource| parts(resource).second);
    let items = scopes.flat_map(|scope| parts(scope).second);
    items.filter_map(|item| T::decode(item).ok()).collect()
}

fn parts(message: Bytes) -> Parts {
    Parts::decode(message).unwrap_or_default()
}

fn attributes(all: Vec<KeyValue>) -> Attributes {
    all.into_iter().map(|one| (one.key, one.value.unwrap_or_default().string_value)).collect()
}

/// Messages of two fields, undecoded.
#[derive(Clone, PartialEq, Message)]
struct Parts {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    first: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    second: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct LogRecord {
    #[prost(message, optional, tag = "5")]
    body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    attributes: Vec<KeyValue>,
    #[prost(bytes = "vec", tag = "9")]
    trace_id: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "5")]
    gauge: Option<Points>,
    #[prost(message, optional, tag = "7")]
    sum: Option<Points>,
}

#[derive(Clone, PartialEq, Message)]
struct Points {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<Point>,
}

/// One of the two numbers is there.
#[derive(Clone, PartialEq, Message)]
struct Point {
    #[prost(double, tag = "4")]
    as_double: f64,
    #[prost(sfixed64, tag = "6")]
    as_int: i64,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, tag = "1")]
    string_value: String,
}
