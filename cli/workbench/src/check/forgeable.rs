//! Findings about actors, plans and quotas that a client chooses itself.

use super::code;
use super::finding::Findings;
use super::model::{Condition, Limit, Model, Rule};
use super::order::before;
use crate::source::documents::Document;
use crate::source::messages::message;
use crate::source::value::Value;
use diana_document::quoted;

/// Actors and plans that are a whole list of client addresses: each proxy appends to the list, so a
/// client that writes its beginning is another actor with each request.
pub fn sources(model: &Model, findings: &mut Findings) {
    let actors = model.root.get("actors").map_or(&[][..], Value::entries).iter().map(|entry| &entry.value);
    for header in actors.chain(model.root.get("plan")).filter_map(|source| source.get("header")) {
        let name = header.text().unwrap_or_default().to_ascii_lowercase();
        if matches!(&*name, "forwarded" | "x-forwarded-for" | "x-original-forwarded-for") {
            findings.add(
                code::FORGEABLE_ACTOR,
                &header.range,
                format!("a client that writes the beginning of `{name}` chooses how it is counted"),
                Some("write `actor: ip`, and `ip: {trusted_hops: N}` behind proxies of your own"),
            );
        }
    }
}

/// The ends of the names of messages whose filters change no header but those that their own
/// configuration names. Any other filter, such as `ext_authz`, may set and remove all headers.
const PREDICTABLE: [&str; 16] = [
    ".adaptive_concurrency.v3.AdaptiveConcurrency",
    ".admission_control.v3.AdmissionControl",
    ".bandwidth_limit.v3.BandwidthLimit",
    ".basic_auth.v3.BasicAuth",
    ".buffer.v3.Buffer",
    ".compressor.v3.Compressor",
    ".cors.v3.Cors",
    ".csrf.v3.CsrfPolicy",
    ".decompressor.v3.Decompressor",
    ".fault.v3.HTTPFault",
    ".grpc_stats.v3.FilterConfig",
    ".grpc_web.v3.GrpcWeb",
    ".health_check.v3.HealthCheck",
    JWT_AUTHN,
    ".local_ratelimit.v3.LocalRateLimit",
    ".rbac.v3.RBAC",
];

/// The filter that verifies tokens.
const JWT_AUTHN: &str = ".jwt_authn.v3.JwtAuthentication";

/// What the connection manager and the filters before Diana may do to headers.
struct Chain<'a> {
    /// The configurations that may name a header, in lower case.
    texts: Vec<String>,
    filters: Vec<&'a Value>,
}

impl<'a> Chain<'a> {
    /// `None` if clients do not reach the listener themselves, or an unpredictable filter comes
    /// first.
    fn of(document: &'a Document, model: &Model) -> Option<Chain<'a>> {
        let manager = document.manager?;
        let is_positive = |value: Option<&Value>| value.and_then(Value::whole).is_some_and(|hops| hops > 0);
        let is_direct = manager.field("use_remote_address").and_then(Value::flag) == Some(true)
            && manager.field("original_ip_detection_extensions").is_none()
            && !is_positive(manager.field("xff_num_trusted_hops"))
            && !is_positive(model.root.get("ip").and_then(|ip| ip.get("trusted_hops")));
        let filters: Vec<&Value> = before(document.filter.as_ref()?)?.iter().collect();
        let is_known = |filter: &&Value| {
            let name = filter.field("typed_config").map_or("", |config| message(config).0);
            PREDICTABLE.iter().any(|end| name.ends_with(end))
        };
        let early = manager.field("early_header_mutation_extensions");
        if !is_direct || !filters.iter().all(is_known) {
            return None;
        }
        let texts = filters.iter().copied().chain(early).map(|value| value.to_json().to_ascii_lowercase());
        Some(Chain { texts: texts.collect(), filters })
    }

    /// Whether a client can send any value in this header.
    fn passes_header(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        // Envoy sets or removes its own.
        let is_of_envoy = ["x-envoy-", "x-forwarded-", ":"].iter().any(|start| name.starts_with(start));
        !is_of_envoy && !self.texts.iter().any(|text| text.contains(&name))
    }

    /// Whether a client can send any claim.
    fn passes_token(&self) -> bool {
        let verifies = |filter: &&Value| {
            filter.field("typed_config").is_some_and(|config| message(config).0.ends_with(JWT_AUTHN))
        };
        !self.filters.iter().any(verifies)
    }

    /// Why a client can choose the value of a source or a condition.
    fn why(&self, kind: &str, name: &str) -> Option<String> {
        match kind {
            "header" | "headers" if self.passes_header(name) => {
                Some(format!("no filter before Diana sets or removes the header {}", quoted(name)))
            }
            "jwt" if self.passes_token() => Some("no filter before Diana verifies the token".into()),
            _ => None,
        }
    }
}

/// Plans, and quotas of limits, that a client gets by sending a header or a token.
pub fn quotas(document: &Document, model: &Model, findings: &mut Findings) {
    let Some(chain) = Chain::of(document, model) else { return };
    let plan = model.root.get("plan").map_or(&[][..], Value::entries);
    for source in plan {
        if let Some(why) = source.value.text().and_then(|name| chain.why(&source.key, name)) {
            let message = format!("a client chooses its plan: {why}");
            findings.add(code::FORGEABLE_PLAN, &source.value.range, message, Some(hint(&source.key)));
        }
    }
    for rule in model.limits.iter().flat_map(|limit| &limit.rules) {
        let day = rule.value.get("anchor").and_then(|anchor| anchor.get("day"));
        let limit =
            rule.value.get("rpu").map_or(&[][..], Value::entries).iter().map(|source| (source, "limit"));
        let day = day.map_or(&[][..], Value::entries).iter().map(|source| (source, "month"));
        for (source, what) in limit.chain(day) {
            if let Some(why) = source.value.text().and_then(|name| chain.why(&source.key, name)) {
                let message = format!("a client chooses its {what}: {why}");
                findings.add(code::FORGEABLE_PLAN, &source.value.range, message, Some(hint(&source.key)));
            }
        }
    }
    for limit in &model.limits {
        let effect = match limit {
            limit if limit.is_high => "a client takes the headroom of others",
            limit if limit.exclusive && frees(model, limit) => "a client evades the less specific limits",
            _ => continue,
        };
        // A client has to fulfil all conditions: it chooses its method and its parameters.
        let proofs =
            limit.conditions.iter().filter(|it| matches!(it.kind, "ip" | "headers" | "jwt" | "property"));
        let proofs = proofs.filter(|it| it.json != r#"{"present":false}"#);
        let reasons: Option<Vec<(&Condition, String)>> =
            proofs.map(|it| Some((it, chain.why(it.kind, &it.name)?))).collect();
        if let Some((condition, why)) = reasons.iter().flatten().next() {
            let message = format!("{effect}: {why}");
            findings.add(code::FORGEABLE_PLAN, &condition.range, message, Some(hint(condition.kind)));
        }
    }
}

fn hint(kind: &str) -> &'static str {
    match kind {
        "jwt" => "put the filter `jwt_authn` before Diana",
        _ => "set the header in a filter before Diana, which removes the client's",
    }
}

/// Whether an exclusive limit is looser than a less specific limit that no longer sees the same
/// requests.
fn frees(model: &Model, limit: &Limit) -> bool {
    let is_looser = |rule: &Rule, base: &Rule| rule.actors == base.actors && rule.is_looser_than(base);
    let general = model.limits.iter().filter(|base| {
        base.conditions.len() < limit.conditions.len()
            && base.contains(limit)
            && base.asks_no_more_than(limit)
    });
    general
        .flat_map(|base| &base.rules)
        .filter(|base| base.enforced)
        .any(|base| limit.rules.iter().filter(|rule| rule.enforced).all(|rule| is_looser(rule, base)))
}
