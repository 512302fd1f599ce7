//! Compiles the bytes of a configuration into a valid policy, or reports every mistake with its
//! place. The engine checks the values; this crate reads the keys, and says what to write instead.
//!
//! ```
//! let document = br#"{"limits": [{"url": "/api", "rules": [
//!     {"name": "per-ip", "actor": "ip", "rpu": 10, "unit": "second"}
//! ]}]}"#;
//! let configuration = diana_config::compile(document).expect("a valid configuration");
//! let names: Vec<&str> = configuration.policy.rules().map(|(_, rule)| rule.name()).collect();
//! assert_eq!(names, ["per-ip"]);
//!
//! let mistaken = br#"{"limits": [{"url": "/api", "rules": [
//!     {"name": "per-ip", "actor": "ip", "rpu": 10, "unit": "secnd"}
//! ]}]}"#;
//! let errors = diana_config::compile(mistaken).expect_err("a mistake");
//! assert_eq!(
//!     errors[0].to_string(),
//!     "limits[0].rules[0].unit: unknown unit `secnd`, expected second, minute, hour, day, week, \
//!      month, year or a span such as `30s`"
//! );
//! ```
//!
//! ```text
//!   bytes ─ document ─► one of three forms ─► limits ─► rules ─► Draft ─► Policy
//!                            │ {limits: [...], …}  {url, rules}  [{url, rules}, …]
//!                            └► actors, plan, ip, lists, response, headers, mode, enforce,
//!                               access_log, local, store, remote, inspect, tickets
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod access_log;
pub mod actor;
mod adapt;
pub mod algorithm;
mod calendar;
mod claims;
mod cost;
mod estimate;
mod global_rule;
mod global_store;
mod grant;
mod headroom;
mod idle;
mod inspect;
pub mod keys;
mod limit;
mod limit_source;
mod lists;
pub mod matcher;
mod mode;
mod names;
mod overlay;
mod pattern;
mod penalty;
mod plans;
mod quota;
mod remote;
mod request_body;
mod rule;
mod rule_places;
mod secret;
mod soft_limit;
mod tickets;
mod top;
mod variables;

use access_log::StoreSecret;
pub use access_log::{AccessLogOptions, ActorHash, LoggedActor, NearLimit};
use actor::{Actors, Scope};
pub use claims::claim;
use diana_document::{Error, Errors, Fields, Node, Value};
use diana_limiter::actor::NamedActor;
use diana_limiter::cells::table::Hasher;
use diana_limiter::global::GlobalStoreOptions;
use diana_limiter::policy::{Draft, Enforce, LimitDraft, Lists, Policy};
use diana_limiter::request::Parts;
use diana_remote_config::RemoteOptions;
use diana_response::ResponseOptions;
use global_store::GlobalStore;
pub use grant::grant;
pub use inspect::{InspectOptions, Token};
use mode::Mode;
use overlay::{Overlay, Reading};
pub use pattern::pattern;
pub use request_body::RequestBodyOptions;
pub use rule_places::{RulePlace, rule_places};
pub use secret::{Secret, SecretSource};
pub use soft_limit::{SoftLimits, Threshold};
use std::sync::Arc;
pub use tickets::TicketOptions;
use top::Top;
use variables::Lookup;
pub use variables::fill_in;

/// A valid configuration.
///
/// ```
/// let document = br#"{
///     "limits": [{"url": "/", "rules": [{"actor": "ip", "rpu": 5, "unit": "second"}]}],
///     "store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef"}},
///     "access_log": "all"
/// }"#;
/// let configuration = diana_config::compile(document).expect("a valid configuration");
/// assert!(configuration.store.is_some() && configuration.remote.is_none());
/// assert!(configuration.access_log.has_all_requests);
/// assert!(configuration.warnings.is_empty());
/// ```
#[derive(Debug)]
pub struct Configuration {
    /// The compiled limits, rules and lists.
    pub policy: Arc<Policy>,
    /// The options of responses.
    pub response: ResponseOptions,
    /// The global store, which counts rules with `scope: global`.
    pub store: Option<GlobalStoreOptions>,
    /// The source of the remote document that is laid over this one.
    pub remote: Option<RemoteOptions>,
    /// What the access log records about requests.
    pub access_log: AccessLogOptions,
    /// When little of a quota is left. `None`: no request is marked.
    pub near_limit: Option<NearLimit>,
    /// Which requests are marked, and how.
    pub soft_limits: SoftLimits,
    /// How the filter reads the bodies that limits need.
    pub request_body: RequestBodyOptions,
    /// Who may look at counts, and where. `None`: nobody.
    pub inspect: Option<InspectOptions>,
    /// The keys of refusal tickets. `None`: refusals have none.
    pub tickets: Option<TicketOptions>,
    /// Settings that are accepted but are probably mistakes, each with its place.
    pub warnings: Vec<Error>,
    /// A hash of what the document means, without secrets and the headers of calls. It is the same
    /// in each build. Two documents that mean the same have the same fingerprint; another name of a
    /// rule is another meaning.
    pub fingerprint: u64,
}

impl Configuration {
    /// For a host without timers, before a worker has the policy: see [`Policy::refuse_to_wait`].
    ///
    /// [`Policy::refuse_to_wait`]: diana_limiter::policy::Policy::refuse_to_wait
    pub fn refuse_to_wait(&mut self) -> bool {
        let policy = Arc::get_mut(&mut self.policy);
        debug_assert!(policy.is_some(), "a worker already decides by the policy");
        policy.is_some_and(|policy| policy.refuse_to_wait())
    }

    /// For a document that is in force next to others, before a worker has the policy: see
    /// [`Policy::count_apart`].
    ///
    /// [`Policy::count_apart`]: diana_limiter::policy::Policy::count_apart
    pub fn count_apart(&mut self, listener: Option<&Policy>, keeps_sizes: bool) {
        let policy = Arc::get_mut(&mut self.policy);
        debug_assert!(policy.is_some(), "a worker already decides by the policy");
        policy.into_iter().for_each(|policy| policy.count_apart(listener, keeps_sizes));
    }
}

/// Compiles a configuration. The error lists every mistake.
///
/// ```
/// let rule = |rpu| format!(r#"{{"actor": "ip", "rpu": {rpu}, "unit": "second"}}"#);
/// let one_limit = |rules: &[String]| format!(r#"{{"url": "/", "rules": [{}]}}"#, rules.join(","));
///
/// // The second rule can never refuse. That is a warning, and no error.
/// let document = one_limit(&[rule("5"), rule("500")]);
/// let configuration = diana_config::compile(document.as_bytes()).expect("a valid configuration");
/// assert_eq!(configuration.warnings[0].path, "rules[1]");
///
/// let document = one_limit(&[rule("-1"), rule("true")]);
/// let errors = diana_config::compile(document.as_bytes()).expect_err("two mistakes");
/// let places: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
/// assert_eq!(places, ["rules[0].rpu", "rules[1].rpu"]);
/// ```
pub fn compile(bytes: &[u8]) -> Result<Configuration, Vec<Error>> {
    Source::new(bytes, &Secret::Unsupported).compile()
}

/// Like [`compile`], but rules with `scope: global` count locally, with their full quotas: for
/// tools that decide about the traffic of all gateways in one place.
///
/// ```
/// let document = br#"{
///     "limits": [{"url": "/", "rules": [{"rpu": 9, "unit": "hour", "scope": "global"}]}],
///     "store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef"}}
/// }"#;
/// let configuration = diana_config::compile_locally(document).expect("a valid configuration");
/// assert!(configuration.policy.rules().all(|(_, rule)| !rule.is_global()));
/// assert!(configuration.store.is_none());
/// ```
pub fn compile_locally(bytes: &[u8]) -> Result<Configuration, Vec<Error>> {
    let source = Source::new(bytes, &Secret::Absent);
    let (document, errors) = (source.parse()?, Errors::default());
    let top = Top::of(Node::root(&document, &errors));
    let configuration = top.and_then(|top| read(top, source, Reading::Locally));
    checked(configuration, errors.into_vec())
}

/// Like [`compile`], with the remote document `over` laid over the local document `bytes`: each
/// top-level key of `over` replaces that key of `bytes`.
///
/// The error lists the mistakes in `over`, then the keys of `bytes` that do not go with `over`.
///
/// ```
/// let local = br#"{
///     "limits": [],
///     "mode": "shadow",
///     "remote": {"cluster": "config", "path": "/diana.json"}
/// }"#;
/// let remote = br#"{
///     "limits": [{"url": "/", "rules": [{"name": "all", "rpu": 100, "unit": "second"}]}]
/// }"#;
/// let configuration = diana_config::compile_over(local, remote).expect("both are valid");
/// assert_eq!(configuration.policy.rules().count(), 1);
/// // The remote document says nothing about `mode`, so the local `shadow` stays.
/// assert!(configuration.policy.rules().all(|(_, rule)| !rule.enforced()));
/// ```
pub fn compile_over(bytes: &[u8], over: &[u8]) -> Result<Configuration, Vec<Error>> {
    Source::new(bytes, &Secret::Unsupported).compile_over(over)
}

/// Like [`compile`], with the document `route` of a route laid over the `listener`'s document, as a
/// remote document is laid over a local one. The listener's document must not have `remote`.
///
/// ```
/// let listener = br#"{
///     "limits": [],
///     "actors": {"tenant": {"header": "x-tenant"}},
///     "mode": "shadow"
/// }"#;
/// let route = br#"{
///     "limits": [{"url": "/", "rules": [{"actor": "tenant", "rpu": 5, "unit": "second"}]}],
///     "mode": "enforce"
/// }"#;
/// let configuration = diana_config::compile_route(listener, route).expect("both are valid");
/// assert!(configuration.policy.rules().all(|(_, rule)| rule.enforced()));
///
/// let other = br#"{"limits": []}"#;
/// let errors = diana_config::compile_route(other, route).expect_err("no such actor");
/// assert_eq!(errors[0].path, "limits[0].rules[0].actor");
/// ```
pub fn compile_route(listener: &[u8], route: &[u8]) -> Result<Configuration, Vec<Error>> {
    Source::new(listener, &Secret::Unsupported).compile_route(route)
}

/// A document that comes from the gateway itself, and the gateway's secret for it.
///
/// ```
/// use diana_config::{Secret, Source};
///
/// let document = br#"{
///     "limits": [],
///     "store": {"redis": {"cluster": "redis", "secret": {"sds": "diana"}}}
/// }"#;
/// let compile = |secret| Source::new(document, &secret).compile();
/// let errors = compile(Secret::Unsupported).expect_err("such a host has no secrets");
/// assert_eq!(errors[0].path, "store.redis.secret");
/// // Until the secret arrives, the store counts as down.
/// assert!(compile(Secret::Absent).expect("valid").store.is_none());
/// assert!(compile(Secret::Known("0123456789abcdef".into())).expect("valid").store.is_some());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    document: &'a [u8],
    secret: &'a Secret,
    max_enforce: Enforce,
    variables: Lookup,
}

impl<'a> Source<'a> {
    /// This document with this secret, for tools: they read only the name of `{env: …}`.
    #[must_use]
    pub fn new(document: &'a [u8], secret: &'a Secret) -> Source<'a> {
        Source { document, secret, max_enforce: Enforce::EVERYBODY, variables: variables::anything }
    }

    /// With the variables of the gateway's environment, which `{env: NAME}` names.
    #[must_use]
    pub fn with_variables(self, variables: Lookup) -> Source<'a> {
        Source { variables, ..self }
    }

    fn parse(self) -> Result<Value, Vec<Error>> {
        let parsed = diana_document::parse(self.document);
        let filled =
            parsed.and_then(|mut document| fill_in(&mut document, self.variables).map(|()| document));
        filled.map_err(|error| vec![error])
    }

    /// With rules and a deny list that refuse for at most this part of their actors.
    ///
    /// ```
    /// use diana_config::{Secret, Source};
    /// use diana_limiter::policy::Enforce;
    ///
    /// let document = br#"{"url": "/", "rules": [
    ///     {"name": "low", "rpu": 5, "unit": "second", "enforce": "1%"},
    ///     {"name": "whole", "rpu": 9, "unit": "minute"}
    /// ]}"#;
    /// let five = Enforce::parse("5%").expect("a percentage");
    /// let source = Source::new(document, &Secret::Unsupported).refusing_at_most(five);
    /// let policy = source.compile().expect("valid").policy;
    /// let parts: Vec<String> = policy.rules().map(|(_, rule)| rule.enforce().to_string()).collect();
    /// assert_eq!(parts, ["1%", "5%"]);
    /// ```
    #[must_use]
    pub fn refusing_at_most(self, max_enforce: Enforce) -> Source<'a> {
        Source { max_enforce, ..self }
    }

    /// Like [`compile`].
    pub fn compile(self) -> Result<Configuration, Vec<Error>> {
        let (document, errors) = (self.parse()?, Errors::default());
        let top = Top::of(Node::root(&document, &errors));
        let configuration = top.and_then(|top| read(top, self, Reading::Whole));
        checked(configuration, errors.into_vec())
    }

    /// Like [`compile_over`], with this as the local document.
    pub fn compile_over(self, over: &[u8]) -> Result<Configuration, Vec<Error>> {
        self.lay_under(over, Overlay::Remote)
    }

    /// Like [`compile_route`], with this as the listener's document.
    pub fn compile_route(self, route: &[u8]) -> Result<Configuration, Vec<Error>> {
        self.lay_under(route, Overlay::Route)
    }

    fn lay_under(self, upper: &[u8], overlay: Overlay) -> Result<Configuration, Vec<Error>> {
        let other = diana_document::parse(upper).map_err(|error| vec![error]);
        let (document, other) = (self.parse()?, other?);
        let (known, errors) = (Errors::default(), Errors::default());
        let base = Top::of(Node::root(&document, &known)).inspect(|base| overlay.restrict(base));
        let over = overlay.top(Node::root(&other, &errors));
        let top = base.zip(over).map(|(base, over)| over.or(base));
        let configuration = top.and_then(|top| read(top, self, Reading::Over(overlay)));
        // A key of the lower document may be wrong only in combination with the upper one, for
        // example a rule whose actor no longer exists.
        let mut errors = errors.into_vec();
        errors.extend(known.into_vec().into_iter().map(|error| overlay.of_lower(error)));
        checked(configuration, errors)
    }
}

/// Looks for mistakes in the document of a route before the listener's document is known. A key
/// that the listener's document may complete is not a mistake. Returns the configuration of this
/// document alone, unless its limits need more keys of the listener's.
///
/// ```
/// let rule = br#"{"url": "/", "rules": [{"actor": "tenant", "rpu": 5, "unit": "second"}]}"#;
/// // The listener's document may define `tenant`.
/// assert!(diana_config::check_route(rule).is_ok());
///
/// let rule = br#"{"url": "/", "rules": [{"actor": "tenant", "rpu": 5, "unit": "secnd"}]}"#;
/// let errors = diana_config::check_route(rule).expect_err("a mistake");
/// assert_eq!(errors[0].path, "rules[0].unit");
/// ```
pub fn check_route(route: &[u8]) -> Result<Option<Configuration>, Vec<Error>> {
    let document = diana_document::parse(route).map_err(|error| vec![error])?;
    let errors = Errors::default();
    let top = Overlay::Route.top(Node::root(&document, &errors));
    let configuration =
        top.and_then(|top| read(top, Source::new(route, &Secret::Unsupported), Reading::Upper));
    let errors = errors.into_vec();
    if errors.is_empty() { Ok(configuration) } else { Err(errors) }
}

fn checked(configuration: Option<Configuration>, errors: Vec<Error>) -> Result<Configuration, Vec<Error>> {
    configuration.filter(|_| errors.is_empty()).ok_or(errors)
}

fn read(top: Top, source: Source, reading: Reading) -> Option<Configuration> {
    let mut parts = Parts::default();
    let ip = actor::client_ip(top.ip, &mut parts);
    let mut scope = Scope { parts: &mut parts, ip: &ip };
    let is_open = reading == Reading::Upper;
    let actors = match top.actors {
        None if is_open => Actors::open(),
        actors => Actors::compile(actors, &mut scope),
    };
    let case_sensitive = top.case_sensitive.and_then(|node| node.flag()).unwrap_or(true);
    let actors = actors.ignoring_case(!case_sensitive);
    let mode = Mode::compile(top.mode, top.enforce).refusing_at_most(source.max_enforce);
    let has_store = top.store.is_some();
    let store = top.store.and_then(|node| global_store::compile(node, source.secret));
    let global = global_rule::Reader::new(store.as_ref(), has_store, reading, top.is_short);
    let (names, responses, soft_limits) = (names::Names::default(), Vec::new(), Vec::new());
    let is_of_route = matches!(reading, Reading::Over(Overlay::Route) | Reading::Upper);
    let plans = plans::Plans::compile(top.plan, is_open, &actors, &mut scope);
    let costs = cost::Costs::compile(top.costs, is_open);
    let warnings = Vec::new();
    let mut reader = rule::Reader {
        actors: &actors,
        case_sensitive,
        mode,
        is_of_route,
        names,
        plans,
        costs,
        global,
        warnings,
        responses,
        soft_limits,
    };

    let nodes = top.limits.unwrap_or_default();
    reader.names.collect(&nodes);
    let limits: Vec<Option<LimitDraft>> =
        nodes.iter().map(|node| limit::compile(*node, &mut reader, &mut scope)).collect();
    let idle_costs = reader.costs.read_idle(&actors, &mut scope);
    let allow = lists::compile(top.allow, &actors, &mut scope);
    let (deny, denied) = lists::deny(top.deny, &actors, &mut scope);
    let lists = Lists { allow, deny };
    let address = NamedActor::ip(scope.ip, scope.parts);
    let mut response = ResponseOptions::compile(top.response, top.headers);
    response.deny(denied);
    if let Some(node) = top.response.filter(|_| response.reads_calls()) {
        request_body::read_calls(&node, &mut parts);
    }
    let (responses, names, soft_limits) = (reader.responses, reader.names, reader.soft_limits);
    let secret = match &store {
        Some(GlobalStore { client: Some((draft, _)), .. }) => StoreSecret::Known(draft.secret.clone()),
        _ if has_store => StoreSecret::Absent,
        _ if is_open => StoreSecret::Open,
        _ => StoreSecret::None,
    };
    let access_log = top.access_log.map(|node| access_log::compile(node, secret)).unwrap_or_default();
    let near_limit = top.near_limit.and_then(access_log::near_limit);
    let max_actors = local(top.local);
    let request_body = top.request_body.map(request_body::compile).unwrap_or_default();
    let remote = top.remote.and_then(remote::compile);
    let inspect = top.inspect.and_then(inspect::compile);
    let tickets = top.tickets.and_then(tickets::compile);
    let mut limits: Vec<LimitDraft> = limits.into_iter().collect::<Option<_>>()?;
    if reading == Reading::Locally {
        limits.iter_mut().flat_map(|limit| &mut limit.rules).for_each(|rule| rule.on_error = None);
    }
    let mut warnings = std::mem::take(&mut reader.global.warnings);
    warnings.append(&mut reader.warnings);
    warnings.extend(store.as_ref().and_then(|store| store.warning.clone()));
    warnings.append(&mut reader.plans.warnings);
    warnings.extend(reader.plans.warning());
    warnings.extend(idle_costs);
    warnings.extend(headroom::warning(&nodes, &limits));
    warnings.extend(idle::warnings(&nodes, &limits));
    warnings.extend(top.access_log.iter().flat_map(|node| access_log::warnings(node, &access_log, &limits)));
    if let Some(node) = top.response.filter(|_| response.shows_ticket() && top.tickets.is_none() && !is_open)
    {
        warnings.push(node.warning(NO_TICKETS));
    }
    let draft = Draft {
        limits,
        parts,
        ip,
        address,
        lists,
        enforce: mode.of_lists(),
        plan: reader.plans.source(),
        max_actors,
        takes_grants: inspect.is_some(),
        refuses_by_body: response.reads_calls(),
        store: None,
    };
    let store = store.filter(|_| reading != Reading::Locally);
    let of_store = store.as_ref().map(|store| store.canonical_hash);
    let (store, options) = store.and_then(|store| store.client).unzip();
    let policy = Draft { store, ..draft }.build();
    response.assign(&policy, responses);
    let soft_limits = SoftLimits::new(&policy, soft_limits);
    let of_remote = remote.as_ref().map(RemoteOptions::canonical_hash);
    let fingerprint = Hasher::of(&(
        policy.canonical_hash(|name| names.is_given(name)),
        response.canonical_hash(&policy),
        (of_store, of_remote, access_log.has_all_requests),
    ));
    let fingerprint = fingerprint
        ^ inspect.as_ref().map_or(0, InspectOptions::canonical_hash)
        ^ access_log.canonical_hash()
        ^ request_body.canonical_hash(&policy)
        ^ near_limit.map_or(0, NearLimit::canonical_hash)
        ^ soft_limits.canonical_hash(&policy)
        ^ tickets.as_ref().map_or(0, |_| Hasher::name(b"tickets"));
    Some(Configuration {
        policy: Arc::new(policy),
        response,
        store: options,
        remote,
        access_log,
        near_limit,
        soft_limits,
        request_body,
        inspect,
        tickets,
        warnings,
        fingerprint,
    })
}

const NO_TICKETS: &str =
    "without `tickets` at the top, clients see the text `{ticket}` of the `body` as it is written";

/// The default number of actors for which each cell group's table is sized.
const MAX_ACTORS: u64 = 100_000;

fn local(node: Option<Node>) -> u64 {
    let read = |mut fields: Fields| {
        let max_actors = fields.take("max_actors").and_then(|node| node.whole(1..=10_000_000));
        fields.finish();
        max_actors
    };
    node.and_then(|node| node.fields()).and_then(read).unwrap_or(MAX_ACTORS)
}
