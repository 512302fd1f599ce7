//! Diana in this filter: a policy, the worker that decides by it, and the store of its counts.

use crate::host::{HostData, HostRequest, now};
use diana_config::Configuration;
use diana_limiter::cells::store::{Fault, SharedDataStore};
use diana_limiter::cells::table::Dated;
use diana_limiter::session::{Session, Worker};
use diana_response::Refusal;
use log::warn;
use std::cell::RefCell;

/// The limits of one configuration.
pub struct Limits {
    configuration: Configuration,
    worker: RefCell<Worker<SharedDataStore<HostData>>>,
}

impl Limits {
    /// Compiles Diana's document. The error names each mistake and its place.
    pub fn compile(document: &str) -> Result<Limits, String> {
        let mut configuration = diana_config::compile(document.as_bytes()).map_err(|mistakes| {
            let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            mistakes.join("; ")
        })?;
        configuration.warnings.iter().for_each(|warning| warn!("{warning}"));
        // This filter makes no calls, holds no request and has no timer.
        if configuration.store.is_some() || configuration.remote.is_some() {
            return Err("this filter supports neither `store` nor `remote`".into());
        }
        configuration.refuse_to_wait();
        let failed = |Fault(status)| format!("the host's shared data fails with status {status}");
        let store = SharedDataStore::probe(HostData).map_err(failed)?;
        let mut fresh = Dated { since: now(), seed: [0; 16] };
        getrandom::fill(&mut fresh.seed).map_err(|error| error.to_string())?;
        let mut worker = Worker::seeded(configuration.policy.clone(), store, fresh).map_err(failed)?;
        worker.disable_reservations();
        Ok(Limits { configuration, worker: RefCell::new(worker) })
    }

    /// The number of rules.
    pub fn rules(&self) -> usize {
        self.configuration.policy.rules().count()
    }

    /// Decides about the request whose headers have come. `ends` says whether the request ends with
    /// them. Returns the headers for its response, or the response if the request is refused.
    pub fn start(
        &self,
        session: &mut Session,
        ends: bool,
    ) -> Result<Vec<(&'static str, String)>, Refusal<'_>> {
        let Configuration { policy, response, .. } = &self.configuration;
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

    /// Settles a request that has ended, for whatever reason: releases the permits of `algo: C`.
    pub fn settle(&self, session: &mut Session) {
        if let Ok(mut worker) = self.worker.try_borrow_mut() {
            session.settle(&mut worker, now);
        }
    }
}
