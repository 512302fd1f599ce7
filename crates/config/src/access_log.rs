//! `access_log`: which requests get attributes for the access log, and whether the attributes name
//! the actor. `near_limit`: when little of a quota is left.

use super::secret;
use diana_base::format::{hex, netstring};
use diana_base::map::KeySet;
use diana_document::{Error, Node, Value, quoted};
use diana_limiter::cells::table::Hasher;
use diana_limiter::decide::{Decision, Outcome, RuleCheck, RuleResult};
use diana_limiter::policy::LimitDraft;
use diana_response::percent_of;
use hmac_sha256::HMAC;
use std::fmt;

/// What the access log records about requests.
///
/// ```
/// use diana_config::LoggedActor;
///
/// let log = |access_log: &str| {
///     let document = format!(r#"{{"limits": [], "access_log": {access_log}}}"#);
///     diana_config::compile(document.as_bytes()).expect("a valid document").access_log
/// };
/// assert!(log(r#""all""#).has_all_requests);
/// let options = log(r#"{"actor": "value"}"#);
/// assert!(!options.has_all_requests);
/// assert!(matches!(options.actor, Some(LoggedActor::Value)));
///
/// let options = log(r#"{"actor": "hash", "secret": "0123456789abcdef"}"#);
/// let Some(LoggedActor::Hash(Some(hash))) = options.actor else { panic!("a hash") };
/// // printf %s ann | openssl dgst -sha256 -hmac 0123456789abcdef | cut -c 1-16
/// assert_eq!(hash.of(b"ann"), "fb385915a0623c0b");
/// ```
#[derive(Clone, Debug, Default)]
pub struct AccessLogOptions {
    /// Whether requests that every rule admits without delay get attributes, too.
    pub has_all_requests: bool,
    /// How an attribute names the actor. `None`: no attribute does.
    pub actor: Option<LoggedActor>,
}

/// How an attribute names an actor.
#[derive(Clone, Debug)]
pub enum LoggedActor {
    /// By its value.
    Value,
    /// By a keyed hash of its value. `None` until the gateway has the secret.
    Hash(Option<ActorHash>),
}

/// A keyed hash of actors: HMAC-SHA-256, so that an operator with the secret can compute it, too.
#[derive(Clone)]
pub struct ActorHash(HMAC);

/// How many bytes of a hash are shown.
const SHOWN: usize = 8;

impl ActorHash {
    fn new(secret: &str) -> ActorHash {
        ActorHash(HMAC::new(secret.as_bytes()))
    }

    /// The first 64 bits of the hash, as hexadecimal digits.
    #[must_use]
    pub fn of(&self, value: &[u8]) -> String {
        let mut keyed = self.0.clone();
        keyed.update(value);
        let mut text = String::with_capacity(2 * SHOWN);
        keyed.finalize().into_iter().take(SHOWN).for_each(|byte| hex(&mut text, byte));
        text
    }
}

impl fmt::Debug for ActorHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a keyed hash")
    }
}

impl AccessLogOptions {
    /// A hash of the options, except the secret; 0 if no attribute names the actor.
    pub(super) fn canonical_hash(&self) -> u64 {
        self.actor.as_ref().map_or(0, |actor| Hasher::name(actor.name().as_bytes()))
    }
}

impl LoggedActor {
    fn name(&self) -> &'static str {
        match self {
            LoggedActor::Value => "access_log.actor value",
            LoggedActor::Hash(_) => "access_log.actor hash",
        }
    }
}

/// The secret that a hash of actors may use.
#[derive(Debug)]
pub(super) enum StoreSecret {
    /// There is no store.
    None,
    /// The store of another document may have one.
    Open,
    /// The gateway does not have the secret yet, or the store has a mistake.
    Absent,
    Known(String),
}

/// Compiles `access_log`. Reports each mistake at its place.
pub(super) fn compile(node: Node, store: StoreSecret) -> AccessLogOptions {
    const REQUESTS: [(&str, bool); 2] = [("refused", false), ("all", true)];
    let requests = |node: Node| node.choice("access log", &REQUESTS).unwrap_or(false);
    let Value::Object(_) = node.value() else {
        return AccessLogOptions { has_all_requests: requests(node), actor: None };
    };
    let Some(mut fields) = node.fields() else {
        return AccessLogOptions::default();
    };
    let has_all_requests = fields.take("requests").is_some_and(requests);
    let (actor, own) = (fields.take("actor"), fields.take("secret"));
    fields.finish();
    let own = own.map(|node| secret::own(&node));
    let is_hash =
        actor.and_then(|node| Some((node.choice("attribute", &[("value", false), ("hash", true)])?, node)));
    let actor = is_hash.and_then(|(is_hash, node)| match (is_hash, own, store) {
        (false, ..) => Some(LoggedActor::Value),
        (true, Some(own), _) => Some(LoggedActor::Hash(own.as_deref().map(ActorHash::new))),
        (true, None, StoreSecret::Known(secret)) => Some(LoggedActor::Hash(Some(ActorHash::new(&secret)))),
        (true, None, StoreSecret::Absent | StoreSecret::Open) => Some(LoggedActor::Hash(None)),
        (true, None, StoreSecret::None) => {
            node.fail(NO_SECRET);
            None
        }
    });
    AccessLogOptions { has_all_requests, actor }
}

const NO_SECRET: &str = "without a secret, anybody can find out whose hash it is by trying all values: write \
    `secret` beside it, at least 16 letters that only these gateways know";

/// Warns if the log would show credentials: one warning for each such actor of a rule.
pub(super) fn warnings(node: &Node, options: &AccessLogOptions, limits: &[LimitDraft]) -> Vec<Error> {
    if !matches!(options.actor, Some(LoggedActor::Value)) {
        return Vec::new();
    }
    let (mut found, mut known) = (Vec::new(), KeySet::default());
    for named in limits.iter().flat_map(|limit| &limit.rules).flat_map(|rule| &rule.actors) {
        if is_credential(named.canonical_form()) && known.add(named.name().as_bytes()) {
            found.push(named.name());
        }
    }
    let warning = |name: &&str| {
        node.warning(format!(
            "the values of {} are credentials, which everybody who reads the log could use: write `actor: hash`",
            quoted(name)
        ))
    };
    found.iter().map(warning).collect()
}

/// Whether an actor of this canonical form is read from a credential: a cookie, or a header that
/// usually has one.
fn is_credential(form: &str) -> bool {
    let headers =
        ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token"];
    form.starts_with("cookie ") || headers.iter().any(|name| form == ["header ", &netstring(name)].concat())
}

/// The part of a quota below which little of it is left.
///
/// ```
/// let document = br#"{"limits": [], "near_limit": "20%"}"#;
/// let near = diana_config::compile(document).expect("a valid document").near_limit.expect("20%");
/// assert!(near.holds(1, 10));
/// assert!(!near.holds(2, 10), "20% are not less than 20%");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearLimit {
    percent: u32,
}

impl NearLimit {
    pub(super) fn of(percent: u32) -> NearLimit {
        NearLimit { percent }
    }

    /// Whether `remaining` is less than this part of `quota`.
    #[must_use]
    pub fn holds(self, remaining: u64, quota: u64) -> bool {
        u128::from(remaining).saturating_mul(100) < u128::from(quota).saturating_mul(self.percent.into())
    }

    /// The rules that admit a request that passes, and that have little left after it.
    pub fn rules(self, decision: &Decision) -> impl Iterator<Item = &RuleCheck> {
        let passes = matches!(decision.outcome, Outcome::Pass | Outcome::Delay(_));
        let is_near = move |check: &&RuleCheck| {
            check.result() == RuleResult::Admitted
                && check.verdict().is_some_and(|verdict| self.holds(verdict.remaining, check.shown().rpu))
        };
        decision.checks.iter().filter(move |_| passes).filter(is_near)
    }

    /// A hash of the part.
    pub(super) fn canonical_hash(self) -> u64 {
        Hasher::of(&("near_limit", self.percent))
    }
}

/// Compiles `near_limit`. Reports a mistake and then returns `None`.
pub(super) fn near_limit(node: Node) -> Option<NearLimit> {
    let percent = match node.value() {
        Value::Text(text) => percent_of(text),
        _ => None,
    };
    match percent {
        Some(percent) if (1..=99).contains(&percent) => Some(NearLimit { percent }),
        _ => node.expected("whole percent from `1%` to `99%`, such as `10%`"),
    }
}
