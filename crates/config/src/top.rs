//! The top level of a document, in one of three forms.

use super::keys::{LIMIT_KEYS, REMOTE_KEYS, RULE_KEYS, STORE_KEYS, TOP_KEYS};
use diana_document::{Fields, Node, Value, nearest};

const WRAPPED: &str =
    "`@type` and `value` belong to the gateway's wrapper of a document: write only what is in `value`";

/// How a key is taken: a method of [`Fields`] or a function that refuses the key.
pub(super) type Take<'a> = fn(&mut Fields<'a>, &'static str) -> Option<Node<'a>>;

/// The top level of a document. In the two short forms, only `limits` is set.
#[derive(Default)]
pub(super) struct Top<'a> {
    pub(super) limits: Option<Vec<Node<'a>>>,
    /// Whether the limits are in one of the two short forms.
    pub(super) is_short: bool,
    pub(super) case_sensitive: Option<Node<'a>>,
    pub(super) actors: Option<Node<'a>>,
    pub(super) plan: Option<Node<'a>>,
    pub(super) costs: Option<Node<'a>>,
    pub(super) ip: Option<Node<'a>>,
    pub(super) allow: Option<Node<'a>>,
    pub(super) deny: Option<Node<'a>>,
    pub(super) response: Option<Node<'a>>,
    pub(super) headers: Option<Node<'a>>,
    pub(super) mode: Option<Node<'a>>,
    pub(super) enforce: Option<Node<'a>>,
    pub(super) access_log: Option<Node<'a>>,
    pub(super) near_limit: Option<Node<'a>>,
    pub(super) request_body: Option<Node<'a>>,
    pub(super) local: Option<Node<'a>>,
    pub(super) store: Option<Node<'a>>,
    pub(super) remote: Option<Node<'a>>,
    pub(super) inspect: Option<Node<'a>>,
    pub(super) tickets: Option<Node<'a>>,
}

impl<'a> Top<'a> {
    /// Takes all keys of a local document in any of the three forms.
    pub(super) fn of(node: Node<'a>) -> Option<Top<'a>> {
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
    pub(super) fn rest(mut fields: Fields<'a>, limits: Option<Node<'a>>, take_local: Take<'a>) -> Top<'a> {
        fields.belong(LIMIT_KEYS, "to a limit in `limits`");
        fields.belong(RULE_KEYS, "to a rule in `rules`");
        let top = Top {
            limits: limits.and_then(|node| node.list()),
            is_short: false,
            case_sensitive: fields.take("case_sensitive"),
            actors: fields.take("actors"),
            plan: fields.take("plan"),
            costs: fields.take("costs"),
            ip: fields.take("ip"),
            allow: fields.take("allow"),
            deny: fields.take("deny"),
            response: fields.take("response"),
            headers: fields.take("headers"),
            mode: fields.take("mode"),
            enforce: fields.take("enforce"),
            access_log: fields.take("access_log"),
            near_limit: fields.take("near_limit"),
            request_body: fields.take("request_body"),
            local: take_local(&mut fields, "local"),
            store: take_local(&mut fields, "store"),
            remote: take_local(&mut fields, "remote"),
            inspect: take_local(&mut fields, "inspect"),
            tickets: take_local(&mut fields, "tickets"),
        };
        fields.finish();
        top
    }

    /// These keys, with `base` as the fallback for absent ones.
    pub(super) fn or(self, base: Top<'a>) -> Top<'a> {
        Top {
            is_short: if self.limits.is_some() { self.is_short } else { base.is_short },
            limits: self.limits.or(base.limits),
            case_sensitive: self.case_sensitive.or(base.case_sensitive),
            actors: self.actors.or(base.actors),
            plan: self.plan.or(base.plan),
            costs: self.costs.or(base.costs),
            ip: self.ip.or(base.ip),
            allow: self.allow.or(base.allow),
            deny: self.deny.or(base.deny),
            response: self.response.or(base.response),
            headers: self.headers.or(base.headers),
            mode: self.mode.or(base.mode),
            enforce: self.enforce.or(base.enforce),
            access_log: self.access_log.or(base.access_log),
            near_limit: self.near_limit.or(base.near_limit),
            request_body: self.request_body.or(base.request_body),
            local: self.local.or(base.local),
            store: self.store.or(base.store),
            remote: self.remote.or(base.remote),
            inspect: self.inspect.or(base.inspect),
            tickets: self.tickets.or(base.tickets),
        }
    }
}

/// Whether the object is the gateway's message that wraps a document.
pub(super) fn is_wrapped(entries: &[(String, Value)]) -> bool {
    entries.iter().any(|(key, _)| key == "@type")
}

/// Whether the document is one limit, even if its keys are misspelt.
pub(super) fn is_limit(entries: &[(String, Value)]) -> bool {
    let known: Vec<&str> = TOP_KEYS.iter().chain(&["headers", "ip"]).chain(LIMIT_KEYS).copied().collect();
    // A limit has fewer keys than these.
    let near: Vec<&str> =
        entries.iter().take(known.len()).filter_map(|(key, _)| nearest(key, &known)).collect();
    let meant = |of: &[&str]| near.iter().any(|near| of.contains(near));
    !meant(&["limits"]) && meant(LIMIT_KEYS)
}
