//! The candidate of a canary reads the same requests as the active document. Its refusals go to the
//! access log, and the comparisons to the metrics.

use super::Plugin;
use crate::Host;
use crate::access_log::CANARY;
use crate::remote_source::RemoteSource;
use diana_limiter::session::Worker;
use diana_remote_config::{Candidate, CandidateDecision};
use std::rc::Rc;

impl<H: Host> Plugin<H> {
    /// Builds the candidate beside the active document; `None` if there is nothing to compare.
    pub(super) fn build_candidate(
        &self,
        source: &RemoteSource<H>,
        document: &[u8],
        is_previous: bool,
    ) -> Result<Option<Candidate>, String> {
        let (active, seed) = (&self.configuration.policy, &self.seed);
        let Some(policy) = source.compile_candidate(document, active, is_previous)? else {
            return Ok(None);
        };
        let as_active = if is_previous { Some(source.compile(document)?.policy) } else { None };
        let now = self.now();
        let candidate =
            |worker: &mut Worker| Candidate::new(policy, as_active.as_ref(), (active, worker), seed, now);
        Ok(self.worker.with(candidate))
    }

    /// Lets the candidate decide about the request of the effective stream.
    pub(super) fn decide_by_candidate(&self, ends: bool) -> Option<Box<CandidateDecision>> {
        self.remote.as_ref()?;
        self.decide_beside(ends)
    }

    #[inline(never)]
    fn decide_beside(&self, ends: bool) -> Option<Box<CandidateDecision>> {
        let candidate = self.candidate.with(|candidate| candidate.clone()).flatten()?;
        let source = self.host.request(candidate.policy(), self.kind, ends);
        let request = candidate.policy().request(&source);
        let decision = candidate.decide(&self.store, &request, || self.now());
        // `%FILTER_STATE(wasm.diana.canary:PLAIN)%`
        if let Some(rules) = candidate.refused_by() {
            self.host.set_attribute(CANARY, &rules);
        }
        Some(Box::new(decision))
    }

    /// Compares the decision that was just made with the candidate's decision.
    pub(crate) fn compare(&self, candidate: &mut Option<Box<CandidateDecision>>) {
        if candidate.is_some() {
            self.compare_decisions(candidate);
        }
    }

    #[inline(never)]
    fn compare_decisions(&self, candidate: &mut Option<Box<CandidateDecision>>) {
        let active = &self.configuration.policy;
        if let Some(decision) = candidate {
            let compared = self.worker.with(|worker| decision.compare(active, worker)).flatten();
            compared.into_iter().for_each(|compared| self.metrics.compared(compared));
        }
        _ = candidate.take_if(|candidate| candidate.is_done());
    }

    /// Ends the trial of a candidate, or the watch of the active document, if there is a verdict.
    pub(crate) fn judge_canary(&self, source: &RemoteSource<H>) {
        let counts = || {
            let take = |candidate: &mut Option<Rc<Candidate>>| Some(candidate.as_ref()?.take_counts());
            self.candidate.with(take).flatten().unwrap_or_default()
        };
        if let Some(verdict) = source.judge_canary(&self.store, &self.clock, counts) {
            self.metrics.canary_verdict(&verdict);
            source.log_verdict(&verdict);
        }
    }
}
