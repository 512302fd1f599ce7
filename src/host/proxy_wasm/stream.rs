//! One request and its response.
//!
//! It does not know: the policy's inner parts. It starts a session and does what it says.

use super::calls::{self, Answer, Level};
use super::parts::HostRequest;
use super::root::Gateway;
use super::waiting::Parked;
use crate::policy::Decision;
use crate::session::{Session, Step};
use crate::time::{Span, Time};
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::rc::Rc;

/// A stream's context. Without a gateway it lets everything pass.
pub(super) struct Stream {
    id: u32,
    gateway: Option<Rc<Gateway>>,
    session: Option<Session>,
    /// What the response will carry.
    headers: Vec<(&'static str, String)>,
}

impl Stream {
    pub(super) fn new(id: u32, gateway: Option<Rc<Gateway>>) -> Stream {
        Stream { id, gateway, session: None, headers: Vec::new() }
    }

    fn decide(&mut self) -> Option<Action> {
        let gateway = self.gateway.clone()?;
        let policy = &gateway.configuration.policy;
        let source = HostRequest::new(policy);
        let request = policy.request(&source);
        let mut worker = gateway.worker.try_borrow_mut().ok()?;
        let (session, step) = Session::start(policy, &mut worker, &gateway.store, &request, || gateway.now());
        let (decision, until) = match step {
            Step::Done(decision) => (decision, None),
            Step::Wait { until, decision } => (decision, Some(until)),
        };
        self.session = Some(session);
        if let Ok(mut metrics) = gateway.metrics.try_borrow_mut() {
            metrics.decision(policy, &decision);
        }
        tell_access_log(&gateway, &decision);
        let response = &gateway.configuration.response;
        if !decision.refuses() {
            self.headers = response.headers(policy, &decision);
            return self.park(&gateway, until?, Parked::Request);
        }
        let refusal = response.refusal(policy, &decision, policy.is_grpc(&request), gateway.entropy())?;
        calls::log(Level::Debug, &refusal.details);
        let answer = Answer::from(refusal);
        let delay = policy.reject_delay(&decision);
        let has_room = || gateway.waiting.try_borrow().is_ok_and(|waiting| waiting.has_room());
        if delay > Span::ZERO && has_room() {
            return self.park(&gateway, gateway.now().after(delay), Parked::Refusal(answer));
        }
        // A host that cannot answer must not be left holding the request.
        calls::send_local_response(&answer).is_ok().then_some(Action::Pause)
    }

    /// Holds the stream until then; `None`, which lets it go on, only if that cannot be.
    fn park(&self, gateway: &Gateway, until: Time, parked: Parked) -> Option<Action> {
        gateway.park(self.id, until, parked).then_some(Action::Pause)
    }

    /// Whatever comes of a request that waits has to wait with it.
    fn while_waiting(&self) -> Action {
        let waiting = self.gateway.as_ref().and_then(|gateway| gateway.waiting.try_borrow().ok());
        match waiting.is_some_and(|waiting| waiting.holds(self.id)) {
            true => Action::Pause,
            false => Action::Continue,
        }
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
        let (Some(session), Some(gateway)) = (&mut self.session, &self.gateway) else {
            return true;
        };
        let left = gateway.waiting.try_borrow_mut().is_ok_and(|mut waiting| waiting.leave(self.id));
        if !left {
            session.resume();
        }
        if session.owes()
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

    fn on_http_request_body(&mut self, _: usize, _: bool) -> Action {
        self.while_waiting()
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        self.while_waiting()
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
