//! One request and its response.
//!
//! It does not know: the policy's inner parts. It starts a session and does what it says.

use super::calls::{self, Level};
use super::parts::HostRequest;
use super::root::Gateway;
use crate::policy::Decision;
use crate::session::{Session, Step};
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::rc::Rc;

/// A stream's context. Without a gateway it lets everything pass.
pub(super) struct Stream {
    gateway: Option<Rc<Gateway>>,
    session: Option<Session>,
    /// What the response will carry.
    headers: Vec<(&'static str, String)>,
}

impl Stream {
    pub(super) fn new(gateway: Option<Rc<Gateway>>) -> Stream {
        Stream { gateway, session: None, headers: Vec::new() }
    }

    fn decide(&mut self) -> Option<Action> {
        let gateway = self.gateway.clone()?;
        let policy = &gateway.configuration.policy;
        let source = HostRequest::default();
        let request = policy.request(&source);
        let mut worker = gateway.worker.try_borrow_mut().ok()?;
        let (session, step) = Session::start(policy, &mut worker, &gateway.store, &request, || gateway.now());
        self.session = Some(session);
        let decision = match step {
            Step::Done(decision) => decision,
            // The worker was made for a host that cannot wait.
            Step::Wait(_) => self.session.as_mut()?.resume()?,
        };
        if let Ok(mut metrics) = gateway.metrics.try_borrow_mut() {
            metrics.decision(policy, &decision);
        }
        tell_access_log(&gateway, &decision);
        let response = &gateway.configuration.response;
        if !decision.refuses() {
            self.headers = response.headers(policy, &decision);
            return None;
        }
        let refusal = response.refusal(policy, &decision, policy.is_grpc(&request), gateway.entropy())?;
        calls::log(Level::Debug, &refusal.details);
        // A host that cannot answer must not be left holding the request.
        calls::send_local_response(&refusal).is_ok().then_some(Action::Pause)
    }
}

/// `%FILTER_STATE(wasm.diana.rule:PLAIN)%`, and `…result…`. Nothing is told of requests that everybody
/// admits: it would cost each of them.
fn tell_access_log(gateway: &Gateway, decision: &Decision) {
    if let Some((rules, result)) = decision.blamed(&gateway.configuration.policy) {
        calls::set_property("diana.rule", &rules);
        calls::set_property("diana.result", result);
    }
}

impl Context for Stream {
    fn on_done(&mut self) -> bool {
        if let (Some(session), Some(gateway)) = (&mut self.session, &self.gateway)
            && session.owes()
            && let Ok(worker) = gateway.worker.try_borrow()
        {
            let policy = &gateway.configuration.policy;
            let events = session.settle(policy, &worker, &gateway.store, || gateway.now());
            if let Ok(mut metrics) = gateway.metrics.try_borrow_mut() {
                metrics.events(&events);
            }
        }
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, _: bool) -> Action {
        self.decide().unwrap_or(Action::Continue)
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        for (name, value) in self.headers.drain(..) {
            // Lists may be made of several lines, and an upstream's own limits are true as well.
            if name.starts_with("x-") {
                calls::replace_response_header(name, &value);
            } else {
                calls::add_response_header(name, &value);
            }
        }
        Action::Continue
    }
}
