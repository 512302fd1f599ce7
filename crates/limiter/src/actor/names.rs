//! The actors of a policy by name: the predefined ones, and those that the configuration defines.
//!
//! Two rules count the same clients if their lists of [`NamedActor`] from [`Actors::select`] are
//! equal.

use super::{Actor, NamedActor, Scope, compile, header, ip};
use crate::matcher::pattern::Pattern;
use diana_base::sort;
use diana_document::{Node, Value, nearest, one_of, quoted};
use std::sync::Arc;

/// Counts all requests together.
const ALL: &str = "all";
/// The client's address. The policy's `ip` object configures this actor, so no definition may
/// replace it.
const IP: &str = "ip";
/// Predefined names, each with the header that provides its value.
const DEFAULTS: [(&str, &str); 2] = [("user", "x-user-id"), ("device", "x-device-id")];
/// An alias and its target.
const ALIAS: (&str, &str) = ("account", "user");
/// The only source that a rule may define itself, because the source belongs to the limit.
const SEGMENT: &str = super::segment::KIND.key;
const MAX_NAME_BYTES: usize = 64;
const MAX_TUPLE_LEN: usize = 8;

/// The actors of a policy.
///
/// ```
/// use diana_document::{Errors, Node, parse};
/// use diana_limiter::actor::{Actors, Scope, ip::ClientIp, key, parse_key};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let document = parse(br#"{"actors": {"tenant": {"path": 1}}, "actor": ["tenant", "user"]}"#)?;
/// let (errors, mut parts) = (Errors::default(), Parts::default());
/// let mut fields = Node::root(&document, &errors).fields().ok_or("not an object")?;
/// let ip = ClientIp::compile(None, &mut parts);
/// let mut scope = Scope { parts: &mut parts, ip: &ip };
/// let actors = Actors::compile(fields.take("actors"), &mut scope);
/// let actor = fields.take("actor").ok_or("no actor")?;
/// let url = "/{tenant}".parse()?;
/// let tenant_and_user = actors.select(actor, Some(&url), &mut scope).ok_or("a mistake")?;
///
/// let values = Values::default()
///     .with(Part::Path, "/acme/orders")
///     .with(Part::Header("x-user-id".into()), "alice");
/// let mut found = Vec::new();
/// assert!(key(&tenant_and_user, &Request::new(&values, &parts), &mut found));
/// assert_eq!(found, parse_key(&tenant_and_user, "acme, alice")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Actors {
    definitions: Vec<Definition>,
    /// Whether more names are defined elsewhere, in a document that is not here.
    is_open: bool,
}

#[derive(Debug)]
struct Definition {
    name: Arc<str>,
    /// `None` if the definition is wrong. Rules may still name the actor, so that the mistake is
    /// reported once.
    actor: Option<Arc<dyn Actor>>,
}

impl Actors {
    /// Compiles the policy's optional `actors` object.
    pub fn compile(node: Option<Node>, scope: &mut Scope) -> Actors {
        let entries = node.and_then(|node| node.entries()).unwrap_or_default();
        let define = |(name, node): (&str, Node)| {
            check_name(name, &node);
            Definition { name: name.into(), actor: compile(node, scope).map(Arc::from) }
        };
        Actors { definitions: entries.into_iter().map(define).collect(), is_open: false }
    }

    /// The actors of a document whose other part, with more definitions, is not known yet. An
    /// unknown name is not reported.
    ///
    /// ```
    /// use diana_document::{Errors, Node, Value};
    /// use diana_limiter::actor::{Actors, Scope, ip::ClientIp};
    /// use diana_limiter::request::Parts;
    ///
    /// let (value, errors) = (Value::Text("tenant".into()), Errors::default());
    /// let mut parts = Parts::default();
    /// let ip = ClientIp::compile(None, &mut parts);
    /// let mut scope = Scope { parts: &mut parts, ip: &ip };
    /// let place = Node::root(&value, &errors);
    /// assert!(Actors::open().find("tenant", &place, &mut scope).is_none());
    /// assert!(errors.is_empty());
    /// assert!(Actors::default().find("tenant", &place, &mut scope).is_none());
    /// assert!(!errors.is_empty());
    /// ```
    #[must_use]
    pub fn open() -> Actors {
        Actors { definitions: Vec::new(), is_open: true }
    }

    /// The actors of a rule: a name or a `{segment: …}`, or a list of these whose values count
    /// together (a tuple). The order of the result does not depend on the order of the list. `all`
    /// is the empty list. `url` is the url of the rule's limit; `None` if the url is wrong, which
    /// has been reported. Reports each mistake at its place and then returns `None`.
    pub fn select(&self, node: Node, url: Option<&Pattern>, scope: &mut Scope) -> Option<Vec<NamedActor>> {
        let is_wrong = match node.value() {
            Value::Null => true,
            Value::Object(_) => inline(&node).is_none(),
            _ => false,
        };
        if is_wrong {
            return node
                .expected("the name of an actor, such as one defined in `actors`, or a list of names");
        }
        let items = node.one_or_many();
        if items.is_empty() || items.len() > MAX_TUPLE_LEN {
            node.fail(format!("expected 1 to {MAX_TUPLE_LEN} actors, found {}", items.len()));
            return None;
        }
        // YAML may have parsed a name as a number.
        if let [only] = items.as_slice()
            && inline(only).is_none()
            && only.scalar()? == ALL
        {
            return Some(Vec::new());
        }
        let found: Vec<Option<NamedActor>> = items.iter().map(|item| self.item(item, url, scope)).collect();
        for (at, named) in found.iter().enumerate() {
            if let (Some(named), Some(item)) = (named, items.get(at))
                && found.iter().take(at).flatten().any(|earlier| earlier.name() == named.name())
            {
                item.fail(format!("the actor `{}` is in the list already", named.name()));
                return None;
            }
        }
        let placed = |(place, named): (usize, Option<NamedActor>)| Some(named?.at(place));
        let mut found = found.into_iter().enumerate().map(placed).collect::<Option<Vec<NamedActor>>>()?;
        sort::sort_by_key(&mut found, NamedActor::order);
        Some(found)
    }

    /// One actor of a rule.
    fn item(&self, item: &Node, url: Option<&Pattern>, scope: &mut Scope) -> Option<NamedActor> {
        let named = match inline(item) {
            Some(name) => NamedActor::new(&name, compile(*item, scope)?.into(), scope),
            None => self.known(&item.scalar()?, item, scope)?,
        };
        // A wrong url is reported once, at the url.
        let is_unknown = url.is_none() && named.actor().in_limit(None).is_some();
        if is_unknown { None } else { in_limit(named, url, item, scope) }
    }

    /// The actor called `name`, outside of limits. An unknown name, and an actor that depends on
    /// the url of a limit, are reported at `place`.
    pub fn find(&self, name: &str, place: &Node, scope: &mut Scope) -> Option<NamedActor> {
        in_limit(self.known(name, place, scope)?, None, place, scope)
    }

    fn known(&self, name: &str, place: &Node, scope: &mut Scope) -> Option<NamedActor> {
        let name = if name == ALIAS.0 { ALIAS.1 } else { name };
        if let Some(definition) = self.definitions.iter().find(|definition| *definition.name == *name) {
            return Some(NamedActor::new(&definition.name, definition.actor.clone()?, scope));
        }
        if name == IP {
            return Some(Actors::ip(scope));
        }
        if let Some((name, header)) = DEFAULTS.into_iter().find(|(known, _)| *known == name) {
            let actor = header::named(header.into(), scope).into();
            return Some(NamedActor::new(name, actor, scope));
        }
        if name == ALL {
            place.fail("`all` is nobody in particular: it stands alone and has no values");
            return None;
        }
        if self.is_open {
            return None;
        }
        let mut known = vec![ALL, IP, ALIAS.0];
        known.extend(DEFAULTS.map(|(name, _)| name));
        known
            .extend(self.definitions.iter().map(|definition| &*definition.name).filter(|name| is_name(name)));
        sort::sort_by_key(&mut known, |name| *name);
        known.dedup();
        let hint = match nearest(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("expected {}, or define it in `actors`", one_of(&known)),
        };
        place.fail(format!("unknown actor {}, {hint}", quoted(name)));
        None
    }

    /// The actor `ip`: the client's address under the policy's `ip` options.
    pub fn ip(scope: &mut Scope) -> NamedActor {
        let actor = ip::by_client(scope).into();
        NamedActor::new(IP, actor, scope)
    }
}

/// The name of an actor that a rule defines itself; `None` if the node refers to an actor by name.
fn inline(node: &Node) -> Option<String> {
    let Value::Object(entries) = node.value() else { return None };
    let (_, value) = entries.iter().find(|(key, _)| key == SEGMENT)?;
    Some(match value {
        Value::Text(name) => format!("{{{SEGMENT}: {name}}}"),
        _ => SEGMENT.into(),
    })
}

/// The actor in a limit with this url. A mistake is reported at `place`.
fn in_limit(named: NamedActor, url: Option<&Pattern>, place: &Node, scope: &Scope) -> Option<NamedActor> {
    match named.actor().in_limit(url) {
        None => Some(named),
        Some(Ok(actor)) => Some(NamedActor::new(named.name(), actor, scope)),
        Some(Err(why)) => {
            place.fail(why);
            None
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

fn check_name(name: &str, node: &Node) {
    if name == ALIAS.0 {
        node.fail(format!("`{}` is another name of `{}`: define `{1}`", ALIAS.0, ALIAS.1));
    } else if name == ALL {
        node.fail("`all` is nobody in particular and cannot be defined");
    } else if name == IP {
        node.fail("`ip` is the client's address, set by `ip` at the top: define another name, such as `net`");
    } else if !is_name(name) {
        let why = format!("1 to {MAX_NAME_BYTES} of a to z, 0 to 9, `_` and `-`");
        node.fail(format!("{} is not an actor's name: {why}", quoted(name)));
    }
}

#[cfg(test)]
mod tests;
