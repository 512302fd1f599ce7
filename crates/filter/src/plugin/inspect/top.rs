//! `GET top`: which actors a rule refuses or charges most. See [`diana_inspect::top`].

use super::{Answer, Object, Plugin, parameters};
use crate::Host;
use crate::plugin::CellStore;
use diana_inspect::top::{By, TopActor, top};
use diana_limiter::inspect::rule_named;
use diana_limiter::request::claims::token;
use diana_limiter::session::Worker;

impl<H: Host> Plugin<H> {
    /// Adds what this worker has counted to what all workers have.
    pub(crate) fn publish_actors(&self) {
        if let Some(top) = &self.top {
            let policy = &self.configuration.policy;
            let published = top.with(|top| top.publish(policy, &self.store, self.now()));
            self.count_fault(published.unwrap_or(Ok(())));
        }
    }

    /// Counts the actors of the worker's last decision.
    pub(crate) fn note_actors(&self, worker: &Worker<CellStore<H>>) {
        if let Some(top) = &self.top {
            let claim = self.configuration.inspect.as_ref().and_then(|inspect| inspect.customer.as_deref());
            let name = || {
                let claim = claim?;
                diana_config::claim(token(&self.host.request_header(b"authorization")?)?, claim)?.only()
            };
            top.with(|top| top.note(worker, &name));
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn top(&self, query: &[u8]) -> Answer {
        let policy = &self.configuration.policy;
        if self.top.is_none() {
            return Err((404, "actors are ranked only with `inspect: {top: true}`".into()));
        }
        let name = parameters(query)("rule");
        let rule = rule_named(policy, name.as_deref()).map_err(|why| (400, why))?;
        let by = match parameters(query)("by").as_deref() {
            None | Some("refused") => By::Refused,
            Some("used") => By::Used,
            Some(_) => return Err((400, "expected `by=refused` or `by=used`".into())),
        };
        self.publish_actors();
        let Ok(top) = top(policy, &self.store, rule, by, self.now()) else {
            return Err((503, "the shared data fails".into()));
        };
        let answer = Object::default()
            .text("rule", policy.rule_name(rule))
            .text("by", by.name())
            .number("since_ms", top.since.as_ns() / 1_000_000)
            .list("actors", top.actors.iter().map(ranked));
        Ok(answer.number("error_bound", top.error_bound))
    }
}

/// An object with the values of an actor.
pub(super) fn values(actor: &[(String, String)]) -> Object {
    actor.iter().fold(Object::default(), |all, (name, value)| all.text(name, value))
}

fn ranked(actor: &TopActor) -> Object {
    let mut shown = Object::default().key("actor", &values(&actor.values).finish());
    if let Some(name) = &actor.name {
        shown = shown.text("name", name);
    }
    shown.number("count", actor.count).number("error", actor.error)
}
