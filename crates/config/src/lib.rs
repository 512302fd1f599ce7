//! Compiles the bytes of a configuration into a valid policy, or reports every mistake with its
//! place.
//!
//! This module reads the keys that all rules share. Each algorithm, actor and matcher reads its own
//! keys.
//!
//! ```text
//!   bytes ─ document ─► one of three forms ─► limits ─► rules ─► Draft ─► Policy
//!                            │ {limits: [...], …}  {url, rules}  [{url, rules}, …]
//!                            └► actors, ip, lists, response, headers, mode, local, store, remote
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects
    )
)]

mod global_rule;
mod global_store;
mod idle;
mod limit;
mod lists;
mod names;
mod remote;
mod rule;

use diana_document::{Error, Errors, Fields, Node, Value};
use diana_limiter::actor::{Actors, Scope, ip};
use diana_limiter::algorithm::KINDS;
use diana_limiter::global::GlobalStoreOptions;
use diana_limiter::policy::{CandidateOptions, Draft, LimitDraft, Lists, Policy};
use diana_limiter::request::Parts;
use diana_limiter::response::ResponseOptions;
use diana_remote_config::RemoteOptions;

/// A valid configuration.
#[derive(Debug)]
pub struct Configuration {
    /// The compiled limits, rules and lists.
    pub policy: Policy,
    /// The options of responses.
    pub response: ResponseOptions,
    /// The global store, which counts rules with `scope: global`.
    pub store: Option<GlobalStoreOptions>,
    /// The source of the remote document that is laid over this one.
    pub remote: Option<RemoteOptions>,
    /// Whether requests that every rule admits without delay get attributes for the access log.
    pub logs_all: bool,
    /// Settings that are accepted but are probably mistakes, each with its place.
    pub warnings: Vec<Error>,
}

/// Compiles a configuration. The error lists every mistake.
pub fn compile(bytes: &[u8]) -> Result<Configuration, Vec<Error>> {
    let document = diana_document::parse(bytes).map_err(|error| vec![error])?;
    let errors = Errors::default();
    let configuration = Top::of(Node::root(&document, &errors)).and_then(|top| read(top, None, false));
    checked(configuration, errors.into_vec())
}

/// Like [`compile`], with the remote document `over` laid over the local document `bytes`: each
/// top-level key of `over` replaces that key of `bytes`.
///
/// The error lists the mistakes in `over`, then the keys of `bytes` that do not go with `over`. If
/// `candidate` is set, the policy counts separately from the active one, for the actors in the
/// sample only, and counts its global rules locally.
pub fn compile_over(
    bytes: &[u8],
    over: &[u8],
    candidate: Option<CandidateOptions>,
) -> Result<Configuration, Vec<Error>> {
    let (document, other) = (diana_document::parse(bytes), diana_document::parse(over));
    let (document, other) = (document.map_err(|error| vec![error])?, other.map_err(|error| vec![error])?);
    let (known, errors) = (Errors::default(), Errors::default());
    let base = Top::of(Node::root(&document, &known));
    let over = remote::over(Node::root(&other, &errors));
    let configuration =
        base.zip(over).map(|(base, over)| over.or(base)).and_then(|top| read(top, candidate, true));
    // A local key may be wrong only in combination with the remote document, for example a rule
    // whose actor no longer exists.
    let of_first = |error: Error| Error { path: ["the local document's ", &error.path].concat(), ..error };
    let mut errors = errors.into_vec();
    errors.extend(known.into_vec().into_iter().map(of_first));
    checked(configuration, errors)
}

fn checked(configuration: Option<Configuration>, errors: Vec<Error>) -> Result<Configuration, Vec<Error>> {
    configuration.filter(|_| errors.is_empty()).ok_or(errors)
}

/// Whether a rule or a list refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Enforce,
    Shadow,
}

impl Mode {
    fn compile(node: Option<Node>) -> Mode {
        const CHOICES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
        node.and_then(|node| node.choice("mode", &CHOICES)).unwrap_or(Mode::Enforce)
    }
}

/// The keys of each object, to report where a misplaced key belongs. `headers` and `response` are
/// also keys of a limit.
const TOP_KEYS: &[&str] = &[
    "limits",
    "actors",
    "ip",
    "allow",
    "deny",
    "response",
    "mode",
    "access_log",
    "local",
    "store",
    "remote",
];
const LIMIT_KEYS: &[&str] = &["url", "Url", "methods", "hosts", "exclusive", "rules"];
const RULE_KEYS: &[&str] = &[
    "name",
    "actor",
    "rpu",
    "unit",
    "algo",
    "scope",
    "missing",
    "overrides",
    "reject_delay",
    "on_error",
    "lease",
];

const STORE_KEYS: &[&str] = &["redis", "rls"];
const REMOTE_KEYS: &[&str] = &["path", "authority", "interval", "max_stale", "pointer", "encoding"];

const WRAPPED: &str =
    "`@type` and `value` are the gateway's, around a document: write here what stands in `value`";

/// How a key is taken: a method of [`Fields`] or a function that refuses the key.
type Take<'a> = fn(&mut Fields<'a>, &'static str) -> Option<Node<'a>>;

/// The keys of a rule, including those of all algorithms.
fn rule_keys() -> Vec<&'static str> {
    let own = KINDS.iter().flat_map(|kind| kind.keys);
    RULE_KEYS.iter().chain(own).copied().collect()
}

/// The top level of a document. In the two short forms, only `limits` is set.
#[derive(Default)]
struct Top<'a> {
    limits: Option<Vec<Node<'a>>>,
    /// Whether the limits are in one of the two short forms.
    is_short: bool,
    actors: Option<Node<'a>>,
    ip: Option<Node<'a>>,
    allow: Option<Node<'a>>,
    deny: Option<Node<'a>>,
    response: Option<Node<'a>>,
    headers: Option<Node<'a>>,
    mode: Option<Node<'a>>,
    access_log: Option<Node<'a>>,
    local: Option<Node<'a>>,
    store: Option<Node<'a>>,
    remote: Option<Node<'a>>,
}

impl<'a> Top<'a> {
    fn of(node: Node<'a>) -> Option<Top<'a>> {
        if let Value::List(_) = node.value() {
            return Some(Top { limits: node.list(), is_short: true, ..Top::default() });
        }
        let Value::Object(entries) = node.value() else {
            return node.expected("an object with `limits`, one limit, or a list of limits");
        };
        if is_wrapped(entries) {
            node.fail(WRAPPED);
            return None;
        }
        let mut fields = node.fields()?;
        if is_limit(entries) {
            return Some(Top { limits: Some(vec![node]), is_short: true, ..Top::default() });
        }
        fields.belong(STORE_KEYS, "to `store`");
        fields.belong(REMOTE_KEYS, "to `remote`");
        let limits = fields.require("limits");
        Some(Top::rest(fields, limits, Fields::take))
    }

    /// Takes all keys except `limits`, and records those that belong elsewhere. `take_local` takes
    /// the keys that only the local document may have.
    fn rest(mut fields: Fields<'a>, limits: Option<Node<'a>>, take_local: Take<'a>) -> Top<'a> {
        fields.belong(LIMIT_KEYS, "to a limit in `limits`");
        fields.belong(&rule_keys(), "to a rule in `rules`");
        let top = Top {
            limits: limits.and_then(|node| node.list()),
            is_short: false,
            actors: fields.take("actors"),
            ip: fields.take("ip"),
            allow: fields.take("allow"),
            deny: fields.take("deny"),
            response: fields.take("response"),
            headers: fields.take("headers"),
            mode: fields.take("mode"),
            access_log: fields.take("access_log"),
            local: take_local(&mut fields, "local"),
            store: take_local(&mut fields, "store"),
            remote: take_local(&mut fields, "remote"),
        };
        fields.finish();
        top
    }

    /// These keys, with `base` as the fallback for absent ones.
    fn or(self, base: Top<'a>) -> Top<'a> {
        Top {
            is_short: if self.limits.is_some() { self.is_short } else { base.is_short },
            limits: self.limits.or(base.limits),
            actors: self.actors.or(base.actors),
            ip: self.ip.or(base.ip),
            allow: self.allow.or(base.allow),
            deny: self.deny.or(base.deny),
            response: self.response.or(base.response),
            headers: self.headers.or(base.headers),
            mode: self.mode.or(base.mode),
            access_log: self.access_log.or(base.access_log),
            local: self.local.or(base.local),
            store: self.store.or(base.store),
            remote: self.remote.or(base.remote),
        }
    }
}

/// Whether the object is the gateway's message that wraps a document.
fn is_wrapped(entries: &[(String, Value)]) -> bool {
    entries.iter().any(|(key, _)| key == "@type")
}

/// Whether the document is one limit, even if its keys are misspelt.
fn is_limit(entries: &[(String, Value)]) -> bool {
    let known: Vec<&str> = TOP_KEYS.iter().chain(["headers"].iter()).chain(LIMIT_KEYS).copied().collect();
    let meant = |of: &[&str]| {
        entries
            .iter()
            .any(|(key, _)| diana_document::nearest(key, &known).is_some_and(|near| of.contains(&near)))
    };
    !meant(&["limits"]) && meant(LIMIT_KEYS)
}

/// `has_remote`: whether some keys come from a remote document.
fn read(top: Top, candidate: Option<CandidateOptions>, has_remote: bool) -> Option<Configuration> {
    let mut parts = Parts::default();
    let ip = ip::ClientIp::compile(top.ip, &mut parts);
    let mut scope = Scope { parts: &mut parts, ip: &ip };
    let actors = Actors::compile(top.actors, &mut scope);
    let mode = Mode::compile(top.mode);
    let has_store = top.store.is_some();
    let store = top.store.and_then(global_store::compile);
    let global = global_rule::Reader::new(store.as_ref(), has_store, has_remote, top.is_short);
    let (names, responses) = (names::Names::default(), Vec::new());
    let mut reader = rule::Reader { actors: &actors, mode, names, global, responses };

    let nodes = top.limits.unwrap_or_default();
    reader.names.collect(&nodes);
    let limits: Vec<Option<LimitDraft>> =
        nodes.iter().map(|node| limit::compile(*node, &mut reader, &mut scope)).collect();
    let allow = lists::compile(top.allow, &actors, &mut scope);
    let (deny, denied) = lists::deny(top.deny, &actors, &mut scope);
    let lists = Lists { allow, deny };
    let address = Actors::ip(&mut scope);
    let mut response = ResponseOptions::compile(top.response, top.headers);
    response.deny(denied);
    let responses = reader.responses;
    let logs_all = top.access_log.and_then(|node| node.choice("access log", &ACCESS_LOG)).unwrap_or(false);
    let max_actors = local(top.local);
    let remote = top.remote.and_then(remote::compile);
    let limits: Vec<LimitDraft> = limits.into_iter().collect::<Option<_>>()?;
    let mut warnings: Vec<Error> = reader.global.warning.take().into_iter().collect();
    warnings.extend(idle::warnings(&nodes, &limits));
    let draft = Draft {
        limits,
        parts,
        ip,
        address,
        lists,
        enforced: mode == Mode::Enforce,
        max_actors,
        store: None,
        candidate,
    };
    let (store, mut options) = store.map(|store| (store.draft, store.options)).unzip();
    let policy = Draft { store, ..draft }.build();
    response.assign(&policy, responses);
    options.iter_mut().for_each(|options: &mut GlobalStoreOptions| options.protocol.name_rules(&policy));
    Some(Configuration { policy, response, store: options, remote, logs_all, warnings })
}

/// The requests that get attributes for the access log.
const ACCESS_LOG: [(&str, bool); 2] = [("refused", false), ("all", true)];

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
