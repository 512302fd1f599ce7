//! The actors of a policy by name: the predefined ones, and those that the configuration defines.
//!
//! Two rules count the same clients if their lists of [`Named`] from [`Actors::select`] are equal.

use super::{Actor, Named, Scope, compile, header, ip};
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
/// let tenant_and_user = actors.select(actor, &mut scope).ok_or("a mistake")?;
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
pub struct Actors(Vec<Definition>);

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
        Actors(entries.into_iter().map(define).collect())
    }

    /// The actors of a rule: a name, or a list of names whose values count together (a tuple). The
    /// order of the result does not depend on the order of the list. `all` is the empty list.
    /// Reports each mistake at its place and then returns `None`.
    pub fn select(&self, node: Node, scope: &mut Scope) -> Option<Vec<Named>> {
        if matches!(node.value(), Value::Null | Value::Object(_)) {
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
            && only.scalar()? == ALL
        {
            return Some(Vec::new());
        }
        let found: Vec<Option<Named>> =
            items.iter().map(|item| self.find(&item.scalar()?, item, scope)).collect();
        for (at, named) in found.iter().enumerate() {
            if let (Some(named), Some(item)) = (named, items.get(at))
                && found.iter().take(at).flatten().any(|earlier| earlier.name() == named.name())
            {
                item.fail(format!("the actor `{}` is in the list already", named.name()));
                return None;
            }
        }
        let placed = |(place, named): (usize, Option<Named>)| Some(named?.at(place));
        let mut found = found.into_iter().enumerate().map(placed).collect::<Option<Vec<Named>>>()?;
        sort::sort_by_key(&mut found, Named::order);
        Some(found)
    }

    /// The actor called `name`. An unknown name is reported at `place`.
    pub fn find(&self, name: &str, place: &Node, scope: &mut Scope) -> Option<Named> {
        let name = if name == ALIAS.0 { ALIAS.1 } else { name };
        if let Some(definition) = self.0.iter().find(|definition| *definition.name == *name) {
            return Some(Named::new(&definition.name, definition.actor.clone()?, scope));
        }
        if name == IP {
            return Some(Actors::ip(scope));
        }
        if let Some((name, header)) = DEFAULTS.into_iter().find(|(known, _)| *known == name) {
            let actor = header::named(header.into(), scope).into();
            return Some(Named::new(name, actor, scope));
        }
        if name == ALL {
            place.fail("`all` is nobody in particular: it stands alone and has no values");
            return None;
        }
        let mut known = vec![ALL, IP, ALIAS.0];
        known.extend(DEFAULTS.map(|(name, _)| name));
        known.extend(self.0.iter().map(|definition| &*definition.name).filter(|name| is_name(name)));
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
    pub fn ip(scope: &mut Scope) -> Named {
        let actor = ip::by_client(scope).into();
        Named::new(IP, actor, scope)
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
mod tests {
    use super::*;
    use crate::actor::testing::with_scope;
    use crate::request::{Part, Request, Values};

    /// Selects `actor` in a document `{"actors": …, "actor": …}`. Returns the names, or the
    /// mistakes.
    fn select(json: &str) -> Result<Vec<String>, Vec<String>> {
        let (selected, _, mistakes) = with_scope(json, |node, scope| {
            let mut fields = node.fields().unwrap();
            let actors = Actors::compile(fields.take("actors"), scope);
            actors.select(fields.take("actor").unwrap(), scope)
        });
        assert!(selected.is_some() || !mistakes.is_empty(), "a mistake is told");
        let names = |list: Vec<Named>| list.iter().map(|named| named.name().to_string()).collect();
        if mistakes.is_empty() { Ok(selected.map(names).unwrap()) } else { Err(mistakes) }
    }

    fn check(actor: &str, expected: &[&str]) {
        let json = format!(
            r#"{{"actors": {{"net": {{"ip": {{}}}}, "m": "method", "42": "host"}}, "actor": {actor}}}"#
        );
        assert_eq!(select(&json).unwrap(), expected, "{actor}");
    }

    #[test]
    fn a_rule_names_one_actor_or_several() {
        check(r#""all""#, &[]);
        check(r#"["all"]"#, &[]);
        check(r#""ip""#, &["ip"]);
        check(r#""user""#, &["user"]);
        check(r#""account""#, &["user"]);
        check(r#"["account"]"#, &["user"]);
        check(r#"["net", "device", "m"]"#, &["device", "net", "m"]);
        check(r#"["m", "net", "device"]"#, &["device", "net", "m"]);
        check("42", &["42"]);
    }

    fn refused(actor: &str, mistakes: &[&str]) {
        let json = format!(r#"{{"actors": {{"net": {{"ip": {{}}}}, "bad": 1}}, "actor": {actor}}}"#);
        let expected =
            [&["actors.bad: expected a source such as `{header: x-user-id}`, found `1`"], mistakes];
        assert_eq!(select(&json).unwrap_err(), expected.concat(), "{actor}");
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_known_ones() {
        const KNOWN: &str = "expected account, all, bad, device, ip, net or user, or define it in `actors`";
        refused(r#""usr""#, &["actor: unknown actor `usr`, did you mean `user`?"]);
        refused(r#""session""#, &[&format!("actor: unknown actor `session`, {KNOWN}")]);
        refused(
            r#"["ip", "nte", "zzz"]"#,
            &[
                "actor[1]: unknown actor `nte`, did you mean `net`?",
                &format!("actor[2]: unknown actor `zzz`, {KNOWN}"),
            ],
        );
        let alone = "`all` is nobody in particular: it stands alone and has no values";
        refused(r#"["ip", "all"]"#, &[&format!("actor[1]: {alone}")]);
        refused(r#"["user", "ip", "account"]"#, &["actor[2]: the actor `user` is in the list already"]);
        refused(r#"["account", "user"]"#, &["actor[1]: the actor `user` is in the list already"]);
        refused("[]", &["actor: expected 1 to 8 actors, found 0"]);
        refused(&format!("[{}]", ["\"ip\""; 9].join(",")), &["actor: expected 1 to 8 actors, found 9"]);
        refused(
            "{}",
            &[
                "actor: expected the name of an actor, such as one defined in `actors`, or a list of names, found an object",
            ],
        );
        refused("[[]]", &["actor[0]: expected text, found a list"]);
        // The mistake in a definition is reported once, at the definition.
        refused(r#""bad""#, &[]);
        refused(r#"["bad", "ip"]"#, &[]);
    }

    #[test]
    fn a_definition_has_a_plain_name_of_its_own() {
        for (name, why) in [
            ("account", "actors.account: `account` is another name of `user`: define `user`"),
            ("all", "actors.all: `all` is nobody in particular and cannot be defined"),
            (
                "ip",
                "actors.ip: `ip` is the client's address, set by `ip` at the top: define another name, such as `net`",
            ),
            ("A", "actors.A: `A` is not an actor's name: 1 to 64 of a to z, 0 to 9, `_` and `-`"),
            ("a b", "actors[\"a b\"]: `a b` is not an actor's name: 1 to 64 of a to z, 0 to 9, `_` and `-`"),
        ] {
            let json = format!(r#"{{"actors": {{"{name}": "host"}}, "actor": "all"}}"#);
            assert_eq!(select(&json).unwrap_err(), [why]);
        }
        for (length, fine) in [(0, false), (1, true), (64, true), (65, false)] {
            let json = format!(r#"{{"actors": {{"{}": "host"}}, "actor": "all"}}"#, "a".repeat(length));
            assert_eq!(select(&json).is_ok(), fine, "{length}");
        }
    }

    #[test]
    fn a_definition_replaces_a_default() {
        let request = Values::default()
            .with(Part::Header("x-user-id".into()), "alice")
            .with(Part::Header("x-device-id".into()), "phone")
            .with(Part::Header("x-login".into()), "bob");
        let value = |json: &str, name: &str| {
            let (named, parts, mistakes) = with_scope(json, |node, scope| {
                let actors = Actors::compile(Some(node), scope);
                let name = diana_document::Value::Text(name.into());
                let errors = diana_document::Errors::default();
                actors.select(Node::root(&name, &errors), scope).unwrap()
            });
            assert_eq!(mistakes, [""; 0]);
            let mut key = Vec::new();
            assert!(named[0].actor().write(&Request::new(&request, &parts), &mut key));
            String::from_utf8(key).unwrap()
        };
        for name in ["user", "account"] {
            assert_eq!(value("{}", name), "alice");
            assert_eq!(value(r#"{"user": {"header": "x-login"}}"#, name), "bob");
        }
        assert_eq!(value("{}", "device"), "phone");
    }

    #[test]
    fn lists_of_the_same_sources_are_equal_in_any_order() {
        let ((a, b, c, d), _, _) =
            with_scope(r#"[["user", "ip"], ["account", "ip"], ["ip", "user"], "ip"]"#, |node, scope| {
                let actors = Actors::default();
                let mut lists =
                    node.list().unwrap().into_iter().map(|node| actors.select(node, scope).unwrap());
                let mut next = || lists.next().unwrap();
                (next(), next(), next(), next())
            });
        assert_eq!(a, b);
        assert_eq!(a, c);
        assert_ne!(a, d);
    }

    /// The canonical text of the actor `x` with this definition, in a policy with these `ip`
    /// options.
    fn meaning(definition: &str) -> String {
        let json = format!(r#"{{"x": {definition}}}"#);
        let (named, _, mistakes) = with_scope(&json, |node, scope| {
            let actors = Actors::compile(Some(node), scope);
            actors.find("x", &node, scope).unwrap()
        });
        assert_eq!(mistakes, [""; 0], "{definition}");
        named.meaning().into()
    }

    #[test]
    fn definitions_of_one_source_have_one_meaning() {
        for same in [
            &[r#"{"header": "x-user-id"}"#, r#"{"header": "X-User-ID"}"#][..],
            &[
                r#""ip""#,
                r#"{"ip": {}}"#,
                r#"{"ip": true}"#,
                r#"{"ip": {"v6_prefix": 64, "v4_prefix": 32}}"#,
                r#"{"ip": {"v4_prefix": 3.2e1}}"#,
            ],
            &[r#""host""#, r#"{"host": {}}"#, r#"{"host": true}"#],
            &[r#""method""#, r#"{"method": {}}"#],
            &[r#"{"property": "a"}"#, r#"{"property": ["a"]}"#],
            &[r#"{"path": 2}"#, r#"{"path": 2.0}"#],
        ] {
            same.iter().for_each(|other| assert_eq!(meaning(other), meaning(same[0]), "{other}"));
        }
        let others = [
            r#"{"header": "a"}"#,
            r#"{"cookie": "a"}"#,
            r#"{"cookie": "A"}"#,
            r#"{"query": "a"}"#,
            r#"{"query": "A"}"#,
            r#"{"jwt": "a"}"#,
            r#"{"property": "a"}"#,
            r#"{"property": ["a", "b"]}"#,
            r#"{"property": ["ab"]}"#,
            r#"{"property": ["a1:b"]}"#,
            r#"{"path": 1}"#,
            r#"{"path": 2}"#,
            r#""ip""#,
            r#"{"ip": {"v4_prefix": 24}}"#,
            r#"{"ip": {"v6_prefix": 48}}"#,
            r#""host""#,
            r#""method""#,
        ];
        for (at, one) in others.iter().enumerate() {
            others
                .iter()
                .take(at)
                .for_each(|other| assert_ne!(meaning(one), meaning(other), "{one} {other}"));
        }
    }
}
