//! What a rule says that a store for all gateways counts: `scope`, `on_error`, `lease`.
//!
//! It does not know: how that store counts.

use super::global_store::GlobalStore;
use super::rule::count;
use crate::algorithm::{Kind, Quota, lease::Lease};
use crate::document::{Error, Errors, Fields, Node, Value};
use crate::map::KeyMap;
use crate::policy::{Counter, Counters, GlobalDraft, OnError};
use crate::remote::rls;
use crate::response;

const NO_STORE: &str = "a global rule is counted in a store, and there is none: write \
    `store: {redis: {cluster: …, secret: …}}` at the top, beside `limits`";
const NO_LOCAL_STORE: &str =
    "a global rule is counted in a store, and there is none: the local document has to have it";
const NOTHING_FAILS: &str = "this document has no store that could fail or lend: leave it out, or write the full form \
    with `limits` and `store`";
const ALONE: &str = "there is no `store`: each gateway counts this rule, and every other global one, by itself; \
    to count them together write the full form with `limits` and `store`";

/// What reading a shared rule depends on.
pub(super) struct Reader<'a> {
    pub(super) store: Option<&'a GlobalStore>,
    without: NoStore,
    /// The warning about the first rule that each gateway counts alone because there is no store.
    pub(super) warning: Option<Error>,
}

/// What a global rule without a store means.
#[derive(Clone, Copy)]
enum NoStore {
    /// There is a store, though it may have mistakes.
    Stored,
    /// The rule is a mistake, for this reason.
    Wrong(&'static str),
    /// Each gateway counts the rule alone, as if its store were never reached.
    Alone,
}

/// A shared rule's own keys.
pub(super) struct Rule<'a> {
    on_error: OnError,
    lease: LeaseSize<'a>,
    replicas: u64,
    /// What the store can count, if not everything.
    windows_only: bool,
}

/// How much is fetched ahead, and where it says so.
enum LeaseSize<'a> {
    Nothing,
    Units(u64, Node<'a>),
    Percent(u64, Node<'a>),
}

/// How a rule counts one actor: in the store or here; in place of the store; of what was fetched ahead.
pub(super) struct Roles {
    primary: Counter,
    fallback: Option<Counter>,
    leased: Option<Counter>,
}

impl Reader<'_> {
    /// `is_over`: whether the limits may come from a remote document, which cannot have a store. `is_short`: whether the
    /// document has one of the short forms, which cannot have a store either.
    pub(super) fn new(
        store: Option<&GlobalStore>,
        has_store: bool,
        is_over: bool,
        is_short: bool,
    ) -> Reader<'_> {
        let without = match (has_store, is_over, is_short) {
            (true, ..) => NoStore::Stored,
            (_, true, _) => NoStore::Wrong(NO_LOCAL_STORE),
            (_, _, true) => NoStore::Alone,
            _ => NoStore::Wrong(NO_STORE),
        };
        Reader { store, without, warning: None }
    }

    /// Takes the keys of a shared rule; `None` for a local one.
    pub(super) fn rule<'a>(&mut self, fields: &mut Fields<'a>) -> Option<Rule<'a>> {
        let scope = fields.take("scope");
        let is_global = |node: &Node| node.choice("scope", &[("local", false), ("global", true)]);
        let Some(scope) = scope.filter(|scope| is_global(scope) == Some(true)) else {
            fields.belong(&["on_error", "lease"], "to a rule with `scope: global`");
            return None;
        };
        match self.without {
            NoStore::Stored => {}
            NoStore::Wrong(why) => scope.fail(why),
            NoStore::Alone => {
                for key in ["on_error", "lease"] {
                    fields.take(key).into_iter().for_each(|node| node.fail(NOTHING_FAILS));
                }
                self.warning.get_or_insert_with(|| scope.warning(ALONE));
            }
        }
        let choices = [("local", OnError::Local), ("allow", OnError::Allow), ("deny", OnError::Deny)];
        let on_error = fields.take("on_error").and_then(|node| node.choice("value", &choices));
        let lease = fields.take("lease").and_then(lease_size).unwrap_or(LeaseSize::Nothing);
        let windows_only = self.store.is_some_and(|store| store.options.protocol.is_service());
        Some(Rule {
            on_error: on_error.unwrap_or(OnError::Local),
            lease,
            replicas: self.store.map_or(1, |store| store.replicas),
            windows_only,
        })
    }
}

fn lease_size(node: Node) -> Option<LeaseSize> {
    let percent = match node.value() {
        Value::Whole(0) => return Some(LeaseSize::Nothing),
        Value::Whole(units @ 1..=Quota::MAX_RPU) => return Some(LeaseSize::Units(*units, node)),
        // It tells that there are quotes.
        Value::Text(text) if text.parse::<u64>().is_ok() => return node.whole(0..=Quota::MAX_RPU).and(None),
        Value::Text(text) => response::percent_of(text),
        _ => None,
    };
    match percent {
        Some(percent @ 1..=100) => Some(LeaseSize::Percent(percent.into(), node)),
        _ => node.expected(
            "a whole number of requests from 0 to 1000000000, or a part of `rpu` from `1%` to `100%`",
        ),
    }
}

/// All that a rule, or an override of it, says about how much.
pub(super) fn roles(fields: &mut Fields, kind: Option<&Kind>, shared: Option<&Rule>) -> Option<Roles> {
    let mut own = count(fields, kind)?;
    let Some(shared) = shared else {
        return Some(Roles { primary: own, fallback: None, leased: None });
    };
    if shared.windows_only && own.quota.rpu > 0 {
        windows_only(fields, kind?, &own)?;
    }
    let spare = match shared.on_error {
        OnError::Local => Some(scaled(fields, kind?, shared.replicas)?),
        OnError::Allow | OnError::Deny => None,
    };
    let (piece, node) = match &shared.lease {
        LeaseSize::Nothing => return Some(Roles { primary: own, fallback: spare, leased: None }),
        LeaseSize::Units(units, node) => (*units, node),
        LeaseSize::Percent(percent, node) => (own.quota.rpu.saturating_mul(*percent).div_ceil(100), node),
    };
    if !own.algorithm.can_reserve() || shared.windows_only {
        node.fail(match shared.windows_only {
            true => "a rate limit service hands out nothing ahead: leave it out",
            false => "only what `TB` without `max_wait`, `W` and `SW` count can be fetched ahead: leave it out, or write \
                      another `algo`",
        });
        return None;
    }
    let ahead = piece.clamp(1, own.quota.rpu.max(1));
    let lease = Lease::new(&*own.algorithm, ahead, own.quota);
    let leased = Counter::new(own.quota, Box::new(lease));
    own.lease = ahead;
    Some(Roles { primary: own, fallback: spare, leased: Some(leased) })
}

fn windows_only(fields: &mut Fields, kind: &Kind, own: &Counter) -> Option<()> {
    if kind.short != "W" {
        fields.fail_as_rule("a rate limit service counts in windows: write `algo: W`");
        return None;
    }
    if rls::unit(own.quota.unit).is_none() {
        fields.take("unit")?.expected("second, minute, hour or day, by which a rate limit service counts")
    } else {
        Some(())
    }
}

/// The same rule for one of so many gateways: a part of each number that says how many, at least one. A `rpu` that was
/// rounded down makes a burst or a queue take up to twice as long; where that is too long, half of it is left.
fn scaled(fields: &mut Fields, kind: &Kind, replicas: u64) -> Option<Counter> {
    let part = |number: u64| number.checked_div(replicas).unwrap_or(number).max(1);
    [1u64, 2].into_iter().find_map(|parts| {
        let mut entries: Vec<(String, Value)> = Vec::new();
        for key in ["rpu", "unit"].iter().chain(kind.keys) {
            let Some(node) = fields.take(key) else {
                continue;
            };
            let value = match (*key, node.value()) {
                ("rpu", Value::Whole(number @ 1..)) => Value::Whole(part(*number)),
                ("burst" | "queue", Value::Whole(number @ 1..)) => {
                    Value::Whole(part(*number).checked_div(parts).unwrap_or(0))
                }
                (_, value) => value.clone(),
            };
            entries.push(((*key).into(), value));
        }
        let (value, errors) = (Value::Object(entries), Errors::default());
        count(&mut Node::root(&value, &errors).fields()?, Some(kind))
    })
}

/// The ways of a rule and of its overrides, each with its like.
pub(super) fn draft(
    ways: Roles,
    overrides: Vec<(Vec<u8>, Roles)>,
    shared: Option<Rule>,
) -> (Counters, Option<GlobalDraft>) {
    let counts = |count| Counters { default: count, overrides: KeyMap::default() };
    let (mut own, mut spare, mut ahead) =
        (counts(ways.primary), ways.fallback.map(counts), ways.leased.map(counts));
    for (key, ways) in overrides {
        own.overrides.insert(&key, ways.primary);
        let others = [(&mut spare, ways.fallback), (&mut ahead, ways.leased)];
        for (counts, count) in others {
            if let (Some(counts), Some(count)) = (counts, count) {
                counts.overrides.insert(&key, count);
            }
        }
    }
    (own, shared.map(|shared| GlobalDraft { on_error: shared.on_error, fallback: spare, leased: ahead }))
}
