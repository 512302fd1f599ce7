//! `envoy.service.ratelimit.v3.RateLimitService` over gRPC, with limitador's counters in memory.
//!
//! The limits come from the descriptors' overrides. There is one limit for each domain, keys of the
//! entries and quota; it counts by the entries' values. A descriptor without an override is not
//! limited, like a descriptor without a limit in a service's configuration. A window begins with
//! its first request.
//!
//! All or nothing: if one descriptor is over its limit, no descriptor is charged, as in limitador's
//! own server. [`Manner`] lists how other services differ.
//!
//! With a `limits.yaml` of limitador, the service reads no limits from descriptors. The file's
//! conditions and variables choose the counters, as in limitador's own server.
//!
//! Negative hits (`is_negative_hits`) are refused as unimplemented.

use crate::serving::Serving;
use anyhow::{Result, anyhow};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response as HttpResponse;
use envoy_types::pb::envoy::config::core::v3::HeaderValue as Header;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit, rate_limit,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService as Method, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use envoy_types::pb::google::protobuf::Duration as Span;
use http_body_util::{BodyExt, Full};
use limitador::limit::{Context, Limit, Namespace};
use limitador::{CheckResult, RateLimiter};
use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tonic::{Request as Call, Response as Answer, Status};

/// The most counters that are kept.
const COUNTERS: u64 = 1_000_000;
/// Limitador's name of the variable by which a limit counts.
const VALUE: &str = "value";

/// The service whose behaviour is imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// A status for each descriptor; all are charged or none.
    #[default]
    Best,
    /// Limitador's own server: the same, but without statuses for descriptors. Headers show the
    /// limit with the least remaining, whose name is the descriptor's key.
    Limitador,
    /// envoyproxy/ratelimit: a status for each descriptor. Descriptors within their limits are
    /// charged even if another one is over its limit.
    Envoy,
}

/// What the service does with a call.
#[derive(Clone, Debug, Default)]
pub enum Answers {
    /// The service decides.
    #[default]
    Decided,
    /// The service decides after this delay.
    Late(Duration),
    /// The service never replies.
    Never,
    /// A gRPC status without a message.
    Status(tonic::Code),
    /// A message of these bytes, whatever they are, with the status for success.
    Bytes(Vec<u8>),
}

/// A running service, which ends when it is dropped.
pub struct RateLimitService {
    serving: Serving,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    calls: AtomicU64,
    answers: Mutex<Answers>,
}

impl RateLimitService {
    /// Starts a service on a free port.
    pub fn start() -> Result<Self> {
        Self::start_as(Manner::Best)
    }

    /// Starts a service with this behaviour.
    pub fn start_as(manner: Manner) -> Result<Self> {
        Self::serve(Engine {
            manner,
            known: Mutex::default(),
            limiter: RateLimiter::new(COUNTERS),
            is_configured: false,
        })
    }

    /// Starts a service like [`Manner::Limitador`], with the limits of a `limits.yaml`, here as
    /// JSON.
    pub fn start_with(limits: &str) -> Result<Self> {
        let limiter = RateLimiter::new(COUNTERS);
        let limits: Vec<Limit> = serde_json::from_str(limits)?;
        limiter.configure_with(limits).map_err(|error| anyhow!(error.to_string()))?;
        Self::serve(Engine {
            manner: Manner::Limitador,
            known: Mutex::default(),
            limiter,
            is_configured: true,
        })
    }

    fn serve(engine: Engine) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let state = Arc::clone(&shared);
        let serving = Serving::start(|| {
            let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
            let router = Router::new().route_service(path, RateLimitServiceServer::new(engine));
            Ok(router.layer(from_fn_with_state(state, answer)))
        })?;
        Ok(Self { serving, shared })
    }

    /// The address of the service.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// The number of calls so far, whatever their replies.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// Sets what happens to further calls.
    pub fn answer_with(&self, answers: Answers) {
        *self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner) = answers;
    }
}

async fn answer(State(shared): State<Arc<Shared>>, call: Request, next: Next) -> HttpResponse {
    shared.calls.fetch_add(1, Ordering::SeqCst);
    let answers = shared.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match answers {
        Answers::Decided => next.run(call).await,
        Answers::Late(after) => {
            tokio::time::sleep(after).await;
            next.run(call).await
        }
        Answers::Never => pending().await,
        Answers::Status(code) => Status::new(code, "").into_http(),
        Answers::Bytes(message) => whole(&message),
    }
}

/// The message in an otherwise correct reply.
pub(crate) fn whole(message: &[u8]) -> HttpResponse {
    // Not compressed, and the length.
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::from(frame).with_trailers(async { Some(Ok(trailers)) });
    let mut answer = HttpResponse::new(Body::new(body));
    answer.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    answer
}

struct Engine {
    manner: Manner,
    limiter: RateLimiter,
    /// The limits so far. The lock is held during a decision: no other request comes between check
    /// and charge.
    known: Mutex<HashSet<Namespace>>,
    /// Whether the limits come from a file and not from descriptors.
    is_configured: bool,
}

/// A descriptor with a limit.
struct Check {
    /// Each limit has a namespace of its own.
    limit: Namespace,
    /// The values of the entries.
    value: String,
    cost: u64,
    current: RateLimit,
}

#[tonic::async_trait]
impl Method for Engine {
    async fn should_rate_limit(
        &self,
        call: Call<RateLimitRequest>,
    ) -> Result<Answer<RateLimitResponse>, Status> {
        self.decide(call.get_ref()).map(Answer::new)
    }
}

impl Engine {
    fn decide(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        if request.domain.is_empty() || request.descriptors.is_empty() {
            return Err(Status::invalid_argument("no domain, or no descriptors"));
        }
        if self.is_configured {
            return self.decide_configured(request);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let check = request.descriptors.iter().map(|one| self.check(request, one, &mut known));
        let check = check.collect::<Result<Vec<_>, _>>()?;
        let limited: Vec<&Check> = check.iter().flatten().collect();
        let mut refused = false;
        let mut looks = Vec::new();
        for one in &limited {
            // Several descriptors may share one counter.
            let same =
                limited.iter().filter(|other| (&other.limit, &other.value) == (&one.limit, &one.value));
            let together = same.map(|one| one.cost).fold(0, u64::saturating_add);
            let look = self.limiter.is_rate_limited(&one.limit, &one.context(), together);
            let look = look.map_err(internal)?;
            refused |= look.limited;
            looks.push(look);
        }
        if !refused || self.manner == Manner::Envoy {
            for (one, look) in limited.iter().zip(&mut looks).filter(|(_, look)| !look.limited) {
                let charged =
                    self.limiter.check_rate_limited_and_update(&one.limit, &one.context(), one.cost);
                *look = charged.map_err(internal)?;
            }
        }
        let response_headers_to_add = match self.manner {
            Manner::Limitador => headers(CheckResult {
                limited: refused,
                counters: looks.iter().flat_map(|look| look.counters.clone()).collect(),
                limit_name: None,
            }),
            _ => Vec::new(),
        };
        let mut statuses = limited.iter().zip(&looks).map(|(one, look)| one.status(look));
        let unlimited = DescriptorStatus { code: Code::Ok.into(), ..Default::default() };
        let mut status = |one: &Option<Check>| one.as_ref().and_then(|_| statuses.next());
        let statuses = check.iter().map(|one| status(one).unwrap_or_else(|| unlimited.clone()));
        Ok(RateLimitResponse {
            overall_code: if refused { Code::OverLimit } else { Code::Ok }.into(),
            statuses: if self.manner == Manner::Limitador { Vec::new() } else { statuses.collect() },
            response_headers_to_add,
            ..Default::default()
        })
    }

    /// Like limitador-server's `should_rate_limit`.
    fn decide_configured(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let entries = |one: &RateLimitDescriptor| {
            one.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
        };
        let mut context = Context::default();
        context.list_binding("descriptors".to_owned(), request.descriptors.iter().map(entries).collect());
        let domain = request.domain.as_str().into();
        let hits = request.hits_addend.max(1).into();
        let found = self.limiter.check_rate_limited_and_update(&domain, &context, hits).map_err(internal)?;
        Ok(RateLimitResponse {
            overall_code: if found.limited { Code::OverLimit } else { Code::Ok }.into(),
            response_headers_to_add: headers(found),
            ..Default::default()
        })
    }

    /// The limit, value and cost of a descriptor. A new limit is created.
    fn check(
        &self,
        request: &RateLimitRequest,
        descriptor: &RateLimitDescriptor,
        known: &mut HashSet<Namespace>,
    ) -> Result<Option<Check>, Status> {
        if descriptor.is_negative_hits {
            return Err(Status::unimplemented("hits are not refunded here"));
        }
        let Some(limit) = &descriptor.limit else { return Ok(None) };
        let most = limit.requests_per_unit;
        let Some((seconds, unit)) = unit(limit.unit) else {
            return Err(Status::invalid_argument(format!("unit {} is not known", limit.unit)));
        };
        let entries = &descriptor.entries;
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        let values: Vec<&str> = entries.iter().map(|entry| entry.value.as_str()).collect();
        let name = Namespace::from(format!("{:?} {keys:?} {most} {seconds}", request.domain));
        if known.insert(name.clone()) {
            let by = VALUE.try_into().map_err(internal)?;
            let mut made = Limit::new(name.clone(), most.into(), seconds, [], [by]);
            made.set_name(keys.join("."));
            self.limiter.add_limit(made);
        }
        let cost = match &descriptor.hits_addend {
            Some(hits) => hits.value,
            // The protocol says that a missing value means one.
            None => request.hits_addend.max(1).into(),
        };
        let current = RateLimit { requests_per_unit: most, unit: unit.into(), ..Default::default() };
        Ok(Some(Check { limit: name, value: format!("{values:?}"), cost, current }))
    }
}

impl Check {
    fn context(&self) -> Context<'static> {
        HashMap::from([(VALUE.to_owned(), self.value.clone())]).into()
    }

    /// The status from limitador's check.
    fn status(&self, look: &CheckResult) -> DescriptorStatus {
        let counter = look.counters.first();
        let remaining = counter.and_then(|counter| counter.remaining()).unwrap_or(0);
        let reset = counter.and_then(|counter| counter.expires_in());
        DescriptorStatus {
            code: if look.limited { Code::OverLimit } else { Code::Ok }.into(),
            current_limit: Some(self.current.clone()),
            limit_remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            duration_until_reset: reset.map(whole_and_parts),
            ..Default::default()
        }
    }
}

fn whole_and_parts(span: Duration) -> Span {
    let nanos = i32::try_from(span.subsec_nanos()).unwrap_or(i32::MAX);
    Span { seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX), nanos }
}

/// Limitador's header values, sorted as its server sorts them.
fn headers(mut result: CheckResult) -> Vec<Header> {
    let header = |(key, value)| Header { key, value, ..Default::default() };
    let mut headers: Vec<Header> = result.response_header().into_iter().map(header).collect();
    headers.sort_by(|one, other| one.key.cmp(&other.key));
    headers
}

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// The seconds of a unit, and the unit of the reply. A month has 30 days and a year 365.
fn unit(number: i32) -> Option<(u64, rate_limit::Unit)> {
    const DAY: u64 = 86_400;
    Some(match RateLimitUnit::try_from(number).ok()? {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => (1, rate_limit::Unit::Second),
        RateLimitUnit::Minute => (60, rate_limit::Unit::Minute),
        RateLimitUnit::Hour => (3_600, rate_limit::Unit::Hour),
        RateLimitUnit::Day => (DAY, rate_limit::Unit::Day),
        RateLimitUnit::Month => (30 * DAY, rate_limit::Unit::Month),
        RateLimitUnit::Year => (365 * DAY, rate_limit::Unit::Year),
    })
}
