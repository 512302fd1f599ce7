//! `store`: the global store that counts global rules for all gateways.

use super::keys::REDIS_KEYS;
use super::secret::{self, Secret};
use diana_base::format::sanitize;
use diana_base::time::Span;
use diana_document::{Error, Node, Value, fold, quoted};
use diana_global_redis::{Login, Redis};
use diana_limiter::cells::table::Hasher;
use diana_limiter::global::GlobalStoreOptions;
use diana_limiter::policy::{Replicas, StoreDraft};
use std::sync::Arc;

const NO_SERVICE: &str = "a rate limit service is no longer a store: count in `redis`, or leave the service to Envoy's \
    own `ratelimit` filter beside Diana; docs/migrate/ratelimit.md says how both stand in one chain";

/// Stands behind the name of a dialect.
const NO_FRONT: &str = "is no longer spoken: put the bridge, a tunnel or a hop to Redis itself in place of the HTTP \
    front, and leave `dialect` out; see docs/configuration/global.md#ways-to-redis";

const ONE_DIALECT: &str = "`resp` is the only dialect, so this key has no effect: leave it out when no gateway runs \
    Diana 0.2.0 any more";

/// The only dialect. The hashes of a store contain it, as they did when there were several.
const DIALECT: &str = "resp";

const TIMEOUT: Span = Span::from_ms(50);

/// The compiled `store` object.
pub(super) struct GlobalStore {
    /// `None` until the gateway has the secret. Until then nobody asks the store.
    pub(super) client: Option<(StoreDraft, GlobalStoreOptions)>,
    /// The number of gateways by which a quota is divided while the global store is down.
    pub(super) replicas: Arc<Replicas>,
    /// A hash of the options, except the headers, the login and the secret.
    pub(super) canonical_hash: u64,
    /// About a key that has no effect.
    pub(super) warning: Option<Error>,
}

/// Compiles `store`. Reports each mistake at its place and then returns `None`.
pub(super) fn compile(node: Node, secret: &Secret) -> Option<GlobalStore> {
    let Value::Object(_) = node.value() else {
        return node.expected("`{redis: {cluster: …, secret: …}}`");
    };
    let mut fields = node.fields()?;
    let (redis, service) = (fields.take("redis"), fields.take_unoffered("rls"));
    fields.belong(REDIS_KEYS, "to `redis` in it");
    let is_misspelt = fields.misspells("redis");
    fields.finish();
    if let Some(service) = &service {
        service.fail(NO_SERVICE);
    }
    if redis.is_none() && service.is_none() && !is_misspelt {
        node.fail("it names no store: write `{redis: {cluster: …, secret: …}}`");
    }
    self::redis(&redis?, secret)
}

fn redis(node: &Node, secret: &Secret) -> Option<GlobalStore> {
    let mut fields = node.fields()?;
    let clusters = match (fields.take("cluster"), fields.take("clusters")) {
        (Some(_), Some(clusters)) => {
            clusters.fail("`cluster` is given already: put it into the list, or leave this out");
            None
        }
        (None, Some(clusters)) => self::clusters(&clusters),
        (Some(node), None) => cluster(&node).map(|name| vec![name]),
        (None, None) => fields.require("cluster").and(None),
    };
    let warning = fields.take("dialect").and_then(|node| dialect(&node));
    let prefix = match fields.take("prefix") {
        Some(node) => prefix(&node),
        None => Some("diana".into()),
    };
    let headers =
        fields.take("headers").map(|node| diana_response::own_headers(&node, reserved)).unwrap_or_default();
    let login = login(fields.take("user"), fields.take("password"));
    let timeout = match fields.take("timeout") {
        Some(node) => node.span(Span::from_ms(1)..=Span::from_secs(10)),
        None => Some(TIMEOUT),
    };
    let in_flight = match fields.take("in_flight") {
        Some(node) => node.whole(1..=1_024),
        None => Some(1),
    };
    let replicas = match fields.take("replicas") {
        Some(node) => self::replicas(&node),
        None => Some(Some(1)),
    };
    let secret = fields.require("secret").and_then(|node| secret::read(&node, secret));
    fields.finish();
    let (clusters, prefix, login) = (clusters?, prefix?, login?);
    let (timeout, replicas, secret) = (timeout?, replicas?, secret?);
    let in_flight = usize::try_from(in_flight?).unwrap_or(1);

    // The names of the clusters divide the counts, whatever their order.
    let shards = Hasher::of_all(&clusters);
    let keys = Hasher::of(&(&prefix, DIALECT));
    // `false` stands where stores of another kind had `true`.
    let canonical_hash = Hasher::of(&(shards, false, keys, timeout, in_flight, replicas));
    let replicas = Arc::new(match replicas {
        Some(number) => Replicas::fixed(number),
        None => Replicas::counted(Hasher::of(&(shards, keys))),
    });
    let headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mut redis = Redis::new(prefix, headers);
    if let Some(login) = login {
        redis = redis.with_login(login);
    }
    if clusters.len() > 1 {
        redis = redis.sharded();
    }
    let client = secret.map(|secret| {
        let draft = StoreDraft { shards: clusters.clone(), secret, replicas: Arc::clone(&replicas) };
        (draft, GlobalStoreOptions { clusters, timeout, in_flight, protocol: Box::new(redis) })
    });
    Some(GlobalStore { client, replicas, canonical_hash, warning })
}

/// Reads `dialect`, and returns a warning, because the only dialect needs no key.
fn dialect(node: &Node) -> Option<Error> {
    if let Value::Text(text) = node.value()
        && matches!(&*fold(text), "webdis" | "upstash")
    {
        node.fail([&*quoted(text), " ", NO_FRONT].concat());
        return None;
    }
    node.choice("dialect", &[(DIALECT, ())]).map(|()| node.warning(ONE_DIALECT))
}

/// Reads `user` and `password`: `Some(None)` if the call has no login.
fn login(user: Option<Node>, password: Option<Node>) -> Option<Option<Login>> {
    let Some(password) = password else {
        if let Some(user) = user {
            user.fail("it needs a `password`");
            return None;
        }
        return Some(None);
    };
    let user = match user {
        Some(node) => match node.text()? {
            "" => return node.expected("the name of a user of Redis"),
            name => Some(name.to_owned()),
        },
        None => None,
    };
    match password.value() {
        Value::Text(text) if !text.is_empty() => Some(Some(Login { user, password: text.clone() })),
        _ => {
            // The error omits the value found, because mistakes are logged.
            password.fail("expected the password of a user of Redis, as text in quotes");
            None
        }
    }
}

/// Reads `replicas`: `Some(None)` for `auto`.
fn replicas(node: &Node) -> Option<Option<u64>> {
    match node.value() {
        Value::Text(text) if text == "auto" => Some(None),
        Value::Text(text) if !text.starts_with(|first: char| first.is_ascii_digit()) => {
            node.expected("a whole number from 1 to 10000, or `auto`")
        }
        _ => node.whole(1..=Replicas::MAX).map(Some),
    }
}

/// A cluster of the gateway, by name.
pub(super) fn cluster(node: &Node) -> Option<String> {
    let name = node.text()?;
    if name.is_empty() || name.len() > 120 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return node.expected("the gateway's name of a cluster, 1 to 120 visible ASCII characters");
    }
    Some(name.into())
}

fn clusters(node: &Node) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let nodes = node.list()?;
    if nodes.is_empty() || nodes.len() > 64 {
        node.fail(match nodes.is_empty() {
            true => "expected 1 to 64 clusters, found none",
            false => "expected 1 to 64 clusters, found more",
        });
        return None;
    }
    for node in nodes {
        let name = cluster(&node)?;
        if names.contains(&name) {
            node.fail("this cluster is named already: leave it out");
            return None;
        }
        if let Some(like) = names.iter().find(|known| sanitize(known) == sanitize(&name)) {
            let like = quoted(like);
            node.fail(format!(
                "in metrics, where `-` is the only mark that does not become `_`, it has the name of {like}: give it another"
            ));
            return None;
        }
        names.push(name);
    }
    Some(names)
}

fn prefix(node: &Node) -> Option<String> {
    let prefix = node.text()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(is_plain) {
        return node.expected("1 to 64 of a-z, A-Z, 0-9, `-`, `_`, `.` and `:`");
    }
    Some(prefix.into())
}

/// The reason why a configuration may not set a header of a call.
pub(super) fn reserved(name: &str) -> Option<&'static str> {
    Some(match name {
        "content-type" | "content-length" | "transfer-encoding" | "connection" | "host" | "te"
        | "upgrade" => "it is set for each call",
        _ => return None,
    })
}
