//! Bytes of configuration to a policy that cannot be wrong, or every mistake in its place.
//!
//! It does not know: what a rule does. It takes the keys that all rules share and hands the rest to the
//! kind that owns them: an algorithm, an actor's source, a condition.
//!
//! ```text
//!   bytes ─ document ─► one of three forms ─► limits ─► rules ─► Draft ─► Policy
//!                            │ {limits: [...], …}  {url, rules}  [{url, rules}, …]
//!                            └► actors, ip, lists, response, headers, mode, local, store, remote
//! ```

mod global_rule;
mod global_store;
mod idle;
mod limit;
mod lists;
mod names;
mod remote;
mod rule;

use crate::actor::{Actors, Scope, ip};
use crate::algorithm::KINDS;
use crate::document::{self, Error, Errors, Fields, Node, Value};
use crate::policy::{CandidateOptions, Draft, LimitDraft, Lists, Policy};
use crate::remote::{self as stores, source};
use crate::request::Parts;
use crate::response::ResponseOptions;

/// A configuration that was accepted.
#[derive(Debug)]
pub struct Configuration {
    /// What decides.
    pub policy: Policy,
    /// What clients are told.
    pub response: ResponseOptions,
    /// Where shared rules are counted.
    pub store: Option<stores::GlobalStoreOptions>,
    /// Where a document comes from that is laid over this one.
    pub remote: Option<source::RemoteOptions>,
    /// Whether requests that every rule admits at once have attributes for the access log.
    pub logs_all: bool,
    /// Settings that are accepted but probably not meant, each with its place.
    pub warnings: Vec<Error>,
}

/// Reads a configuration. All mistakes are told, not only the first.
pub fn compile(bytes: &[u8]) -> Result<Configuration, Vec<Error>> {
    let document = document::parse(bytes).map_err(|error| vec![error])?;
    let errors = Errors::default();
    let configuration = Top::of(Node::root(&document, &errors)).and_then(|top| read(top, None, false));
    whole(configuration, errors.into_vec())
}

/// As [`compile`], with another document laid over the first: what that has at the top stands in place of what the first
/// has there. The mistakes are those of the other one, and then what the first one has that does not go with it. With `trial`
/// it counts apart, for a part of all actors, and all of it here.
pub fn compile_over(
    bytes: &[u8],
    over: &[u8],
    trial: Option<CandidateOptions>,
) -> Result<Configuration, Vec<Error>> {
    let (document, other) = (document::parse(bytes), document::parse(over));
    let (document, other) = (document.map_err(|error| vec![error])?, other.map_err(|error| vec![error])?);
    let (known, errors) = (Errors::default(), Errors::default());
    let base = Top::of(Node::root(&document, &known));
    let over = remote::over(Node::root(&other, &errors));
    let configuration =
        base.zip(over).map(|(base, over)| over.or(base)).and_then(|top| read(top, trial, true));
    // What the first has may be wrong beside what the other has, such as a rule whose actor is gone.
    let of_first = |error: Error| Error { path: ["the local document's ", &error.path].concat(), ..error };
    let mut errors = errors.into_vec();
    errors.extend(known.into_vec().into_iter().map(of_first));
    whole(configuration, errors)
}

fn whole(configuration: Option<Configuration>, errors: Vec<Error>) -> Result<Configuration, Vec<Error>> {
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

/// The keys of each object, to say where a misplaced key belongs. `headers` and `response` are keys of a limit, too.
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

/// How a key is taken.
type Take<'a> = fn(&mut Fields<'a>, &'static str) -> Option<Node<'a>>;

/// The keys of a rule, those of all algorithms included.
fn rule_keys() -> Vec<&'static str> {
    let own = KINDS.iter().flat_map(|kind| kind.keys);
    RULE_KEYS.iter().chain(own).copied().collect()
}

/// The document's parts that are not limits; all `None` in the two short forms.
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

    /// All keys but `limits`, and those that belong elsewhere. `own` takes what is the gateway's own.
    fn rest(mut fields: Fields<'a>, limits: Option<Node<'a>>, own: Take<'a>) -> Top<'a> {
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
            local: own(&mut fields, "local"),
            store: own(&mut fields, "store"),
            remote: own(&mut fields, "remote"),
        };
        fields.finish();
        top
    }

    /// What this one has, and what it lacks from `base`.
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

/// Whether it is a whole message of the gateway's in which a document stands.
fn is_wrapped(entries: &[(String, Value)]) -> bool {
    entries.iter().any(|(key, _)| key == "@type")
}

/// Whether the document is one limit; it may be misspelt.
fn is_limit(entries: &[(String, Value)]) -> bool {
    let known: Vec<&str> = TOP_KEYS.iter().chain(["headers"].iter()).chain(LIMIT_KEYS).copied().collect();
    let meant = |of: &[&str]| {
        entries.iter().any(|(key, _)| document::nearest(key, &known).is_some_and(|near| of.contains(&near)))
    };
    !meant(&["limits"]) && meant(LIMIT_KEYS)
}

/// `is_over`: whether some of it is a remote document's.
fn read(top: Top, trial: Option<CandidateOptions>, is_over: bool) -> Option<Configuration> {
    let mut parts = Parts::default();
    let ip = ip::ClientIp::compile(top.ip, &mut parts);
    let mut scope = Scope { parts: &mut parts, ip: &ip };
    let actors = Actors::compile(top.actors, &mut scope);
    let mode = Mode::compile(top.mode);
    let has_store = top.store.is_some();
    let store = top.store.and_then(global_store::compile);
    let shared = global_rule::Reader::new(store.as_ref(), has_store, is_over, top.is_short);
    let (names, responses) = (names::Names::default(), Vec::new());
    let mut reader = rule::Reader { actors: &actors, mode, names, shared, responses };

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
    let mut warnings: Vec<Error> = reader.shared.warning.take().into_iter().collect();
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
        candidate: trial,
    };
    let (store, mut options) = store.map(|store| (store.draft, store.options)).unzip();
    let policy = Draft { store, ..draft }.build();
    response.assign(&policy, responses);
    options.iter_mut().for_each(|options: &mut stores::GlobalStoreOptions| options.name_rules(&policy));
    Some(Configuration { policy, response, store: options, remote, logs_all, warnings })
}

/// The requests that have attributes for the access log.
const ACCESS_LOG: [(&str, bool); 2] = [("refused", false), ("all", true)];

/// How many actors the table of each cell group is made for.
const MAX_ACTORS: u64 = 100_000;

fn local(node: Option<Node>) -> u64 {
    let read = |mut fields: Fields| {
        let max_actors = fields.take("max_actors").and_then(|node| node.whole(1..=10_000_000));
        fields.finish();
        max_actors
    };
    node.and_then(|node| node.fields()).and_then(read).unwrap_or(MAX_ACTORS)
}
