//! Diana in this filter: a policy, the worker that decides by it, and the store of its counts.

use crate::host::{HostData, HostRequest, now};
use diana_limiter::actor::{Header, NamedActor};
use diana_limiter::algorithm::{Algorithm, BucketOptions, QuotaError};
use diana_limiter::cells::store::SharedDataStore;
use diana_limiter::cells::table::Dated;
use diana_limiter::policy::{Draft, LimitDraft, Policy, Quota, RuleDraft};
use diana_limiter::session::{Session, Worker};
use diana_limiter::time::Span;
use diana_response::{Refusal, ResponseOptions};
use serde::Deserialize;
use std::cell::RefCell;
use std::error::Error;
use std::sync::Arc;

/// The limits in this filter's document.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitOptions {
    /// For each client address.
    per_ip: Option<Rate>,
    /// For each value of `x-user-id`; requests without it count by address.
    per_user: Option<Rate>,
    /// How many requests may be in flight at once.
    in_flight: Option<u64>,
}

/// So many requests in so many seconds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    requests: u64,
    seconds: u64,
}

impl Rate {
    fn quota(&self) -> Result<Quota, QuotaError> {
        Quota::token_bucket(self.requests, Span::from_secs(self.seconds), BucketOptions::default())
    }
}

/// The policy of these limits, which holds for all requests.
fn policy(options: &LimitOptions) -> Result<Policy, Box<dyn Error>> {
    let (mut draft, mut rules) = (Draft::default(), Vec::new());
    if let Some(rate) = &options.per_ip {
        let quota = rate.quota().map_err(|error| format!("`per_ip`: {error}"))?;
        rules.push(RuleDraft::new("per-ip", vec![draft.address.clone()], quota));
    }
    if let Some(rate) = &options.per_user {
        let user = Arc::new(Header::new("x-user-id", &mut draft.parts)?);
        let user = NamedActor::new("user", user, &draft.parts);
        let quota = rate.quota().map_err(|error| format!("`per_user`: {error}"))?;
        rules.push(RuleDraft::new("per-user", vec![user], quota));
    }
    if let Some(permits) = options.in_flight {
        let quota = Quota::concurrency(permits, Algorithm::DEFAULT_MAX_HOLD)
            .map_err(|error| format!("`in_flight`: {error}"))?;
        rules.push(RuleDraft::new("in-flight", Vec::new(), quota));
    }
    draft.limits.push(LimitDraft::new("/".parse()?, rules));
    Ok(draft.build())
}

/// The limits of one configuration.
pub struct Limits {
    policy: Arc<Policy>,
    response: ResponseOptions,
    worker: RefCell<Worker<SharedDataStore<HostData>>>,
}

impl Limits {
    /// The limits of these options. The error names what cannot be.
    pub fn new(options: &LimitOptions) -> Result<Limits, Box<dyn Error>> {
        let policy = Arc::new(policy(options)?);
        let store = SharedDataStore::probe(HostData)?;
        let mut fresh = Dated { since: now(), seed: [0; 16] };
        getrandom::fill(&mut fresh.seed).map_err(|error| error.to_string())?;
        let mut worker = Worker::seeded(Arc::clone(&policy), store, fresh)?;
        // This filter has no timer.
        worker.disable_reservations();
        Ok(Limits { policy, response: ResponseOptions::default(), worker: RefCell::new(worker) })
    }

    /// The number of rules.
    pub fn rules(&self) -> usize {
        self.policy.rules().count()
    }

    /// Decides about the request whose headers have come. `ends` says whether the request ends with
    /// them. Returns the headers for its response, or the response if the request is refused.
    pub fn start(
        &self,
        session: &mut Session,
        ends: bool,
    ) -> Result<Vec<(&'static str, String)>, Refusal<'_>> {
        let Limits { policy, response, .. } = self;
        let Ok(mut worker) = self.worker.try_borrow_mut() else { return Ok(Vec::new()) };
        let source = HostRequest::read(policy.parts(), ends);
        let request = policy.request(&source);
        let (started, decision) = Session::start(&mut worker, &request, now);
        *session = started;
        if decision.is_rejected() {
            // Spreads the retries of many clients.
            let random = getrandom::u32().unwrap_or(0);
            let refusal = response.refusal(policy, decision, policy.protocol(&request), random);
            return refusal.map_or(Ok(Vec::new()), Err);
        }
        Ok(response.headers(policy, decision))
    }

    /// Settles a request that has ended, for whatever reason: releases its permit.
    pub fn settle(&self, session: &mut Session) {
        if let Ok(mut worker) = self.worker.try_borrow_mut() {
            session.settle(&mut worker, now);
        }
    }
}
