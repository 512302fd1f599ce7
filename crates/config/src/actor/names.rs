//! The actors of a policy by name: the predefined ones, and those that the configuration defines.
//!
//! Two rules count the same clients if their lists of [`NamedActor`] from [`Actors::select`] are
//! equal.

use super::{Scope, compile, segment};
use crate::request_body;
use diana_base::map::KeyMap;
use diana_base::sort;
use diana_document::{Node, Value, one_of, quoted};
use diana_limiter::actor::{Actor, Header, NamedActor};
use diana_limiter::matcher::pattern::Pattern;
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
const SEGMENT: &str = segment::KIND.key;
const MAX_NAME_BYTES: usize = 64;
const MAX_TUPLE_LEN: usize = 8;
/// How many defined names a hint considers at most, because each mistake is compared with all of
/// them.
const MAX_OFFERED: usize = 100;

/// The actors of a policy.
///
/// ```
/// use diana_document::{Errors, Node, parse};
/// use diana_config::actor::{Actors, Scope, client_ip};
/// use diana_limiter::actor::{key, parse_key};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let document = parse(br#"{"actors": {"tenant": {"path": 1}}, "actor": ["tenant", "user"]}"#)?;
/// let (errors, mut parts) = (Errors::default(), Parts::default());
/// let mut fields = Node::root(&document, &errors).fields().ok_or("not an object")?;
/// let ip = client_ip(None, &mut parts);
/// let mut scope = Scope { parts: &mut parts, ip: &ip };
/// let actors = Actors::compile(fields.take("actors"), &mut scope);
/// let actor = fields.take("actor").ok_or("no actor")?;
/// let urls = ["/{tenant}".parse()?];
/// let tenant_and_user = actors.select(actor, Some(&urls), &mut scope).ok_or("a mistake")?;
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
    definitions: KeyMap<Definition>,
    /// Whether more names are defined elsewhere, in a document that is not here.
    is_open: bool,
    /// Whether segments of the path outside of limits are the same in any case.
    ignores_case: bool,
}

#[derive(Debug)]
struct Definition {
    name: Arc<str>,
    /// `None` if the definition is wrong. Rules may still name the actor, so that the mistake is
    /// reported once.
    actor: Option<Arc<dyn Actor>>,
}

impl Actors {
    /// Reads the policy's optional `actors` object.
    pub fn compile(node: Option<Node>, scope: &mut Scope) -> Actors {
        let entries = node.and_then(|node| node.entries()).unwrap_or_default();
        let mut definitions = KeyMap::default();
        for (name, node) in entries {
            check_name(name, &node);
            let actor = compile(node, scope).map(Arc::from);
            definitions.insert(name.as_bytes(), Definition { name: name.into(), actor });
        }
        Actors { definitions, is_open: false, ignores_case: false }
    }

    /// These actors in a document that ignores case, or not.
    #[must_use]
    pub fn ignoring_case(self, ignores_case: bool) -> Actors {
        Actors { ignores_case, ..self }
    }

    /// The actors of a document whose other part, with more definitions, is not known yet. An
    /// unknown name is not reported.
    #[must_use]
    pub fn open() -> Actors {
        Actors { is_open: true, ..Actors::default() }
    }

    /// The actors of a rule: a name or a `{segment: …}`, or a list of these whose values count
    /// together (a tuple). The order of the result does not depend on the order of the list. `all`
    /// is the empty list. `urls` are those of the rule's limit, sorted; `None` if one is wrong,
    /// which has been reported. Reports each mistake at its place and then returns `None`.
    pub fn select(&self, node: Node, urls: Option<&[Pattern]>, scope: &mut Scope) -> Option<Vec<NamedActor>> {
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
        let found: Vec<Option<NamedActor>> = items.iter().map(|item| self.item(item, urls, scope)).collect();
        for (at, named) in found.iter().enumerate() {
            if let (Some(named), Some(item)) = (named, items.get(at))
                && found.iter().take(at).flatten().any(|earlier| earlier.name() == named.name())
            {
                item.fail(format!("the actor `{}` is in the list already", named.name()));
                return None;
            }
        }
        found.into_iter().collect::<Option<Vec<NamedActor>>>().map(NamedActor::list)
    }

    /// An actor in a limit with these urls; `None` if it depends on them and one is wrong, which
    /// has been reported.
    #[must_use]
    pub fn placed(
        &self,
        named: NamedActor,
        urls: Option<&[Pattern]>,
        place: &Node,
        scope: &Scope,
    ) -> Option<NamedActor> {
        let is_unknown = urls.is_none() && named.actor().in_limit(None).is_some();
        if is_unknown { None } else { self.in_limit(named, urls, place, scope) }
    }

    /// One actor of a rule.
    fn item(&self, item: &Node, urls: Option<&[Pattern]>, scope: &mut Scope) -> Option<NamedActor> {
        let named = match inline(item) {
            Some(name) => NamedActor::new(&name, compile(*item, scope)?.into(), scope.parts),
            None => self.known(&item.scalar()?, item, scope)?,
        };
        self.placed(named, urls, item, scope)
    }

    /// The actor called `name`, outside of limits. An unknown name, and an actor that depends on
    /// the url of a limit or on the body, are reported at `place`.
    pub fn find(&self, name: &str, place: &Node, scope: &mut Scope) -> Option<NamedActor> {
        let named = self.in_limit(self.known(name, place, scope)?, None, place, scope)?;
        request_body::refuse(named, place)
    }

    /// The actor in a limit with these urls. A mistake is reported at `place`.
    fn in_limit(
        &self,
        named: NamedActor,
        urls: Option<&[Pattern]>,
        place: &Node,
        scope: &Scope,
    ) -> Option<NamedActor> {
        let ignores_case = urls.map_or(self.ignores_case, |urls| urls.iter().any(Pattern::ignores_case));
        let actor = match named.actor().in_limit(urls) {
            None => named.actor().ignoring_case().filter(|_| ignores_case),
            Some(Ok(actor)) => Some(actor),
            Some(Err(error)) => {
                place.fail(segment::why(urls, &error));
                return None;
            }
        };
        Some(match actor {
            Some(actor) => NamedActor::new(named.name(), actor, scope.parts),
            None => named,
        })
    }

    fn known(&self, name: &str, place: &Node, scope: &mut Scope) -> Option<NamedActor> {
        let name = if name == ALIAS.0 { ALIAS.1 } else { name };
        if let Some(definition) = self.definitions.get(name.as_bytes()) {
            return Some(NamedActor::new(&definition.name, definition.actor.clone()?, scope.parts));
        }
        if name == IP {
            return Some(NamedActor::ip(scope.ip, scope.parts));
        }
        if let Some((name, header)) = DEFAULTS.into_iter().find(|(known, _)| *known == name) {
            let actor = Header::new(header, scope.parts).ok()?;
            return Some(NamedActor::new(name, Arc::new(actor), scope.parts));
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
        let defined = self.definitions.values().iter().map(|definition| &*definition.name);
        known.extend(defined.filter(|name| is_name(name)).take(MAX_OFFERED));
        sort::sort_by_key(&mut known, |name| *name);
        known.dedup();
        let hint = match place.meant(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let define = if is_name(name) { ", or define it in `actors`" } else { "" };
                format!("expected {}{define}", one_of(&known))
            }
        };
        place.fail(format!("unknown actor {}, {hint}", quoted(name)));
        None
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

/// Whether a text is 1 to 64 of a to z, 0 to 9, `_` and `-`.
pub(in super::super) fn is_name(name: &str) -> bool {
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
    use diana_limiter::request::{Part, Request, Values};

    /// Selects `actor` in a document `{"actors": …, "actor": …}`. Returns the names, or the
    /// mistakes.
    fn select(json: &str) -> Result<Vec<String>, Vec<String>> {
        let (selected, _, mistakes) = with_scope(json, |node, scope| {
            let mut fields = node.fields().unwrap();
            let actors = Actors::compile(fields.take("actors"), scope);
            let url = fields.take("url").map_or("/", |node| node.text().unwrap()).parse().unwrap();
            actors.select(fields.take("actor").unwrap(), Some(&[url]), scope)
        });
        assert!(selected.is_some() || !mistakes.is_empty(), "a mistake is told");
        let names = |list: Vec<NamedActor>| list.iter().map(|named| named.name().to_string()).collect();
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
                actors.select(Node::root(&name, &errors), None, scope).unwrap()
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
                    node.list().unwrap().into_iter().map(|node| actors.select(node, None, scope).unwrap());
                let mut next = || lists.next().unwrap();
                (next(), next(), next(), next())
            });
        assert_eq!(a, b);
        assert_eq!(a, c);
        assert_ne!(a, d);
    }

    /// The canonical text of the actor `x` with this definition, in a policy with these `ip`
    /// options.
    fn canonical_form(definition: &str) -> String {
        let json = format!(r#"{{"x": {definition}}}"#);
        let (named, _, mistakes) = with_scope(&json, |node, scope| {
            let actors = Actors::compile(Some(node), scope);
            actors.find("x", &node, scope).unwrap()
        });
        assert_eq!(mistakes, [""; 0], "{definition}");
        named.canonical_form().into()
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
            same.iter()
                .for_each(|other| assert_eq!(canonical_form(other), canonical_form(same[0]), "{other}"));
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
                .for_each(|other| assert_ne!(canonical_form(one), canonical_form(other), "{one} {other}"));
        }
    }

    #[test]
    fn a_rule_may_name_a_segment_of_its_url() {
        let check = |actor: &str, expected: Result<&[&str], &[&str]>| {
            let json = format!(
                r#"{{"url": "/t/{{tenant}}/{{order}}", "actors": {{"who": {{"segment": "tenant"}}, "far": {{"segment": "x"}}}},
                    "actor": {actor}}}"#
            );
            let found = select(&json);
            let found = found.as_ref().map(|names| names.iter().map(String::as_str).collect::<Vec<_>>());
            let found = found.map_err(|mistakes| mistakes.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(found, expected.map(<[_]>::to_vec).map_err(<[_]>::to_vec), "{actor}");
        };
        check(r#"{"segment": "tenant"}"#, Ok(&["{segment: tenant}"]));
        check(r#"["ip", {"segment": "tenant"}]"#, Ok(&["ip", "{segment: tenant}"]));
        check(r#"[{"segment": "order"}, "who"]"#, Ok(&["who", "{segment: order}"]));
        check(r#""who""#, Ok(&["who"]));
        let unknown = "the limit's url has no segment `{x}`, expected tenant or order";
        check(r#"["ip", {"segment": "x"}]"#, Err(&[&format!("actor[1]: {unknown}")]));
        check(r#""far""#, Err(&[&format!("actor: {unknown}")]));
        check(
            r#"[{"segment": "order"}, {"segment": "order"}]"#,
            Err(&["actor[1]: the actor `{segment: order}` is in the list already"]),
        );
        check(
            r#"[{"segment": 7}, {"segment": "order", "ip": {}}]"#,
            Err(&[
                "actor[0].segment: expected text, found `7`, put it in quotes",
                "actor[1]: expected one source, found `segment` and `ip`",
            ]),
        );
        check(r#"[{"header": "a"}]"#, Err(&["actor[0]: expected text, found an object"]));
    }

    #[test]
    fn a_segment_needs_a_limit() {
        let (found, _, mistakes) = with_scope(r#"{"who": {"segment": "tenant"}}"#, |node, scope| {
            let actors = Actors::compile(Some(node), scope);
            let name = Value::Text("who".into());
            let errors = diana_document::Errors::default();
            // A wrong url has been reported at the url.
            assert!(actors.select(Node::root(&name, &errors), None, scope).is_none() && errors.is_empty());
            actors.find("who", &node, scope)
        });
        assert!(found.is_none());
        assert_eq!(mistakes, ["the actor is a segment of a limit's url, and there is no url here"]);
    }
}
