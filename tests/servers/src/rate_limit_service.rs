//! `envoy.service.ratelimit.v3.RateLimitService` over gRPC, with the limits of a `limits.yaml` of
//! Limitador, counted in memory by its library. It decides as `limitador-server` does: conditions
//! and variables of the file choose the counters, and all or none of them are charged.

use crate::serving::Serving;
use anyhow::{Result, anyhow};
use axum::Router;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService as Method, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use limitador::RateLimiter;
use limitador::limit::{Context, Limit};
use std::net::SocketAddr;
use tonic::{Request as Call, Response as Answer, Status};

/// The most counters that are kept.
const COUNTERS: u64 = 1_000_000;

/// A running service, which ends when it is dropped.
pub struct RateLimitService(Serving);

impl RateLimitService {
    /// Starts a service on a free port, with the limits of a `limits.yaml`, here as JSON.
    pub fn start(limits: &str) -> Result<Self> {
        let limiter = RateLimiter::new(COUNTERS);
        let limits: Vec<Limit> = serde_json::from_str(limits)?;
        limiter.configure_with(limits).map_err(|error| anyhow!(error.to_string()))?;
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let service = RateLimitServiceServer::new(Engine(limiter));
        Ok(Self(Serving::start(|| Ok(Router::new().route_service(path, service)))?))
    }

    /// The address of the service.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

struct Engine(RateLimiter);

#[tonic::async_trait]
impl Method for Engine {
    async fn should_rate_limit(
        &self,
        call: Call<RateLimitRequest>,
    ) -> Result<Answer<RateLimitResponse>, Status> {
        let request = call.get_ref();
        if request.domain.is_empty() || request.descriptors.is_empty() {
            return Err(Status::invalid_argument("no domain, or no descriptors"));
        }
        let entries = |one: &RateLimitDescriptor| {
            one.entries.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
        };
        let mut context = Context::default();
        context.list_binding("descriptors".to_owned(), request.descriptors.iter().map(entries).collect());
        let domain = request.domain.as_str().into();
        let hits = request.hits_addend.max(1).into();
        let found = self.0.check_rate_limited_and_update(&domain, &context, hits);
        let found = found.map_err(|error| Status::internal(error.to_string()))?;
        let code = if found.limited { Code::OverLimit } else { Code::Ok };
        Ok(Answer::new(RateLimitResponse { overall_code: code.into(), ..Default::default() }))
    }
}
