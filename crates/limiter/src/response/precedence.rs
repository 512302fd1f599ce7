//! Chooses the statuses and the headers of a refusal: the most specific configured response wins.
//! The reason of the refusal for access logs.

use super::options::ResponseOptions;
use super::overrides::{ResponseOverride, RuleResponses};
use crate::decide::{Decision, Reason};
use crate::policy::{Policy, RuleId};
use diana_base::map::KeyMap;
use std::borrow::Cow;

impl ResponseOptions {
    /// Assigns these responses to the rules of `policy` by name. All other rules use the document's
    /// response.
    pub fn assign(&mut self, policy: &Policy, responses: Vec<(String, RuleResponses)>) {
        let mut by_name = KeyMap::default();
        for (name, own) in responses.into_iter().filter(|(_, own)| *own != RuleResponses::default()) {
            by_name.insert(name.as_bytes(), own);
        }
        if !by_name.is_empty() {
            let own = |name: &str| by_name.get(name.as_bytes()).cloned().unwrap_or_default();
            self.rules = policy.rules().map(|(_, rule)| own(rule.name())).collect();
        }
    }

    /// The responses that override the document's for this reason, the most specific first.
    fn overrides(&self, reason: Reason, decision: &Decision) -> [Option<&ResponseOverride>; 2] {
        let missing = |rule: RuleId| self.rules.get(rule.index())?.missing.as_ref();
        let limit = |rule: RuleId| self.rules.get(rule.index())?.limit.as_deref();
        match reason {
            Reason::Rule(rule) => [limit(rule), None],
            Reason::NoActor(rule) => [missing(rule), limit(rule)],
            Reason::Denied => [self.deny.as_ref(), None],
            Reason::Unavailable(_) => [None; 2],
            Reason::Unattributed => {
                let mut limits = decision.suspects().map(|report| limit(report.rule));
                let first = limits.next().flatten();
                // Use the limit's response only if all rules that may have refused share it.
                [first.filter(|_| limits.all(|other| other == first)), None]
            }
        }
    }

    /// The configured status.
    pub(super) fn status(&self, reason: Reason, decision: &Decision) -> u32 {
        let overrides = self.overrides(reason, decision).into_iter().flatten();
        overrides.filter_map(|own| own.status).next().unwrap_or(self.status)
    }

    /// Adds the configured headers, each name once, and the challenge that a 401 must have (RFC
    /// 9110 §15.5.2).
    pub(super) fn own_headers<'a>(
        &'a self,
        reason: Reason,
        decision: &Decision,
        status: u32,
        headers: &mut Vec<(&'a str, Cow<'a, str>)>,
    ) {
        const CHALLENGE: (&str, &str) = ("www-authenticate", "Bearer");
        let overrides = self.overrides(reason, decision).into_iter().flatten();
        let all = overrides.map(|own| &own.headers).chain([&self.headers]).flatten();
        let all = all.map(|(name, value)| (&**name, &**value));
        // Other headers have other names: see `own_headers::reserved`.
        for (name, value) in all.chain((status == 401).then_some(CHALLENGE)) {
            if !headers.iter().any(|(known, _)| *known == name) {
                headers.push((name, value.into()));
            }
        }
    }
}

/// `RESOURCE_EXHAUSTED`, the gRPC status of a refusal (gRPC's `doc/statuscodes.md`).
const RESOURCE_EXHAUSTED: u32 = 8;

/// `UNAVAILABLE`, the gRPC status of a refusal because the global store is unavailable (the same
/// document).
const UNAVAILABLE: u32 = 14;

/// `PERMISSION_DENIED`, the gRPC status for 403 (gRPC's `doc/http-grpc-status-mapping.md`).
const PERMISSION_DENIED: u32 = 7;

/// `UNAUTHENTICATED`, the gRPC status for 401 (the same document).
const UNAUTHENTICATED: u32 = 16;

/// The HTTP status of a refusal because the global store is unavailable; no client has exceeded a
/// quota (RFC 9110 §15.6.4).
const SERVICE_UNAVAILABLE: u32 = 503;

/// The HTTP status and the gRPC status.
pub(super) fn of(reason: Reason, configured: u32) -> (u32, u32) {
    match reason {
        Reason::Unavailable(_) => (SERVICE_UNAVAILABLE, UNAVAILABLE),
        _ => match configured {
            401 => (configured, UNAUTHENTICATED),
            403 => (configured, PERMISSION_DENIED),
            _ => (configured, RESOURCE_EXHAUSTED),
        },
    }
}

/// The reason for access logs, without spaces.
pub(super) fn details(reason: Reason, policy: &Policy, decision: &Decision) -> String {
    match reason {
        Reason::Rule(id) => ["diana_refused:", policy.rule_name(id)].concat(),
        Reason::Unattributed => ["diana_refused:", &decision.refused_by(policy).unwrap_or_default()].concat(),
        Reason::NoActor(id) => ["diana_no_actor:", policy.rule_name(id)].concat(),
        Reason::Unavailable(id) => ["diana_unavailable:", policy.rule_name(id)].concat(),
        Reason::Denied => "diana_denied".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Refusal;
    use super::super::testing::{admit, decision, policy, refuse};
    use super::*;
    use crate::decide::{Outcome, RuleResult};
    use diana_document::{Errors, Node};

    fn refused_for(reason: impl Fn(RuleId) -> Reason, policy: &Policy) -> Decision {
        let (rule, _) = policy.rules().next().unwrap();
        Decision { outcome: Outcome::Reject(reason(rule)), ..Decision::default() }
    }

    fn header<'r>(refusal: &'r Refusal, name: &str) -> Option<&'r str> {
        refusal.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }

    /// Options with these responses: of the first rule's limit, of its `missing`, of the deny list.
    fn options_with(top: u32, limit: &str, missing: &str, deny: &str) -> ResponseOptions {
        let read = |json: &str| {
            let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
            let read = ResponseOverride::compile(&Node::root(&value, &errors));
            assert!(errors.is_empty(), "{json}");
            read.filter(|_| json != "{}")
        };
        let (limit, missing) = (read(limit).map(Into::into), read(missing));
        let deny = read(deny);
        ResponseOptions {
            rules: vec![RuleResponses { limit, missing }],
            deny,
            status: top,
            jitter_percent: 0,
            ..ResponseOptions::default()
        }
    }

    #[test]
    fn the_narrowest_response_counts() {
        let policy = policy(["a", "b"]);
        let by = |first, second| decision(&policy, &[(1, 1000, first), (1, 1000, second)]);
        let (first, second) = (by(refuse(1), admit(0, 1)), by(admit(0, 1), refuse(1)));
        let no_actor = refused_for(Reason::NoActor, &policy);
        let denied = refused_for(|_| Reason::Denied, &policy);
        let unavailable = refused_for(Reason::Unavailable, &policy);
        let limit = r#"{"status": 403, "headers": {"x-a": "limit", "x-b": "limit"}}"#;
        let missing = r#"{"status": 401, "headers": {"x-a": "missing", "www-authenticate": "Basic"}}"#;
        let deny = r#"{"status": 404}"#;
        let mut all = options_with(429, limit, missing, deny);
        all.headers = vec![("x-b".into(), "top".into()), ("x-c".into(), "top".into())];
        let mut without = options_with(429, limit, "{}", "{}");
        without.headers = all.headers.clone();
        let top = options_with(429, "{}", "{}", "{}");
        for (options, decision, status, grpc_status, own) in [
            (&all, &first, 403, 7, "x-a: limit, x-b: limit, x-c: top"),
            (&all, &second, 429, 8, "x-b: top, x-c: top"),
            (&all, &no_actor, 401, 16, "x-a: missing, www-authenticate: Basic, x-b: limit, x-c: top"),
            (&all, &denied, 404, 8, "x-b: top, x-c: top"),
            (&all, &unavailable, 503, 14, "x-b: top, x-c: top"),
            (&without, &no_actor, 403, 7, "x-a: limit, x-b: limit, x-c: top"),
            (&without, &denied, 429, 8, "x-b: top, x-c: top"),
            (&top, &no_actor, 429, 8, ""),
            (&options_with(401, "{}", "{}", "{}"), &denied, 401, 16, "www-authenticate: Bearer"),
        ] {
            let refusal = options.refusal(&policy, decision, false, 0).unwrap();
            let is_own =
                |name: &&str| name.starts_with("x-") && name.len() == 3 || *name == "www-authenticate";
            let found = refusal.headers.iter().filter(|(name, _)| is_own(name));
            let found: Vec<String> = found.map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!((refusal.status, &*found.join(", ")), (status, own), "{decision:?}");
            let body = String::from_utf8(refusal.body.into_owned()).unwrap();
            assert!(body.contains(&format!(r#""status":{status},"#)), "{body}");
            let grpc = options.refusal(&policy, decision, true, 0).unwrap();
            assert_eq!(grpc.grpc_status, Some(grpc_status), "{decision:?}");
            let challenged = own.contains("Basic");
            assert_eq!(header(&grpc, "www-authenticate").is_some(), challenged, "no default for gRPC");
        }
    }

    /// Whichever suspect refuses, the response of its limit is sent.
    #[test]
    fn an_unattributed_refusal_has_the_response_that_all_suspects_share() {
        let policy = policy(["a", "b"]);
        let mut decision = decision(&policy, &[(1, 1000, refuse(1)), (1, 1000, refuse(1))]);
        decision.outcome = Outcome::Reject(Reason::Unattributed);
        decision.reports.iter_mut().for_each(|report| report.result = RuleResult::Unattributed);
        let mut options = options_with(429, r#"{"status": 403}"#, "{}", "{}");
        assert_eq!(options.refusal(&policy, &decision, false, 0).unwrap().status, 429);
        options.rules.push(options.rules[0].clone());
        let refusal = options.refusal(&policy, &decision, false, 0).unwrap();
        assert_eq!((refusal.status, &*refusal.details), (403, "diana_refused:a|b"));
    }
}
