//! `plan` at the top, which names where a request shows its plan, and `plans` of a rule.

use super::actor::{self, Actors, Scope};
use super::algorithm::AlgorithmKind;
use super::global_rule;
use super::headroom::never_admits;
use super::keys::RULE_KEYS;
use super::limit_source::refuse_in_change;
use super::matcher::network;
use super::quota::{TimeBase, Weight, quota};
use super::request_body;
use diana_base::map::KeyMap;
use diana_document::{Error, Fields, Node, Value, one_of, quoted};
use diana_limiter::actor::address::{Network, Networks};
use diana_limiter::actor::{NamedActor, parse_key};
use diana_limiter::policy::{MAX_PLANS, PlanId, PlanSource, Quota};

const NO_PLAN: &str = "the document does not say where a request shows its plan: write, for example, `plan: {header: x-plan}` at the top, \
     beside `limits`";
const IDLE: &str = "no rule has `plans`, so `plan` changes nothing";

/// The longest name of a plan, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The plans that the document names so far.
pub(super) struct Plans<'a> {
    node: Option<Node<'a>>,
    /// Whether a document that is not here may have `plan`.
    is_open: bool,
    /// The actor from which the plan is read. `None` without `plan`, or if it is wrong.
    actor: Option<NamedActor>,
    names: Vec<String>,
    /// The plan of each listed value of the actor. `None`: the actor's value is the plan's name.
    members: Option<KeyMap<PlanId>>,
    /// The members that are networks, in the order of `members`.
    networks: Vec<Network>,
    /// Whether the plan is the first one that an element of the actor's value names.
    is_list: bool,
    /// Whether a rule has plans.
    is_used: bool,
    /// About plans that count apart, or never admit a request.
    pub(super) warnings: Vec<Error>,
}

impl<'a> Plans<'a> {
    /// Reads `plan`.
    pub(super) fn compile(
        node: Option<Node<'a>>,
        is_open: bool,
        actors: &Actors,
        scope: &mut Scope,
    ) -> Plans<'a> {
        let mut plans = Plans {
            node,
            is_open,
            actor: None,
            names: Vec::new(),
            members: None,
            networks: Vec::new(),
            is_list: false,
            is_used: false,
            warnings: Vec::new(),
        };
        let Some(node) = node else {
            return plans;
        };
        let keys = match node.value() {
            Value::Object(entries) => entries.as_slice(),
            _ => &[],
        };
        if keys.iter().any(|(key, _)| key == "actor" || key == "members") {
            plans.actor = plans.by_members(node, actors, scope);
        } else if keys.iter().any(|(key, _)| key == "first") {
            plans.actor = plans.by_elements(node, scope);
        } else if let Value::Object(_) = node.value() {
            plans.actor =
                actor::named("plan", node, scope).and_then(|named| request_body::refuse(named, &node));
        } else {
            node.expected::<()>("where a request shows its plan, such as `{header: x-plan}`");
        }
        plans
    }

    /// Reads `{actor: apikey, members: {gold: [k1, k2]}}`.
    fn by_members(&mut self, node: Node<'a>, actors: &Actors, scope: &mut Scope) -> Option<NamedActor> {
        let mut fields = node.fields()?;
        let actor = fields.require("actor");
        let named = actor.and_then(|node| actors.find(&node.scalar()?, &node, scope));
        let members = fields.require("members");
        fields.finish();
        let members = members?;
        let mut values = KeyMap::default();
        for (name, node) in members.entries().unwrap_or_default() {
            let plan = self.number(name, &node);
            let (Some(plan), Some(named)) = (plan, &named) else {
                continue;
            };
            for value in node.one_or_many() {
                let Some((key, network)) = member(named, &value) else { continue };
                match values.get(&key) {
                    Some(other) if *other != plan => {
                        let text = value.text().unwrap_or_default();
                        value.fail(format!("{} is a member of another plan already", quoted(text)));
                    }
                    Some(_) => {}
                    None => {
                        values.insert(&key, plan);
                        self.networks.extend(network);
                    }
                }
            }
        }
        self.members = Some(values);
        named
    }

    /// Reads `{jwt: roles, first: [gold, silver]}`.
    fn by_elements(&mut self, node: Node<'a>, scope: &mut Scope) -> Option<NamedActor> {
        let mut fields = node.fields()?;
        let first = fields.require("first");
        let actor = actor::list(&mut fields, scope);
        fields.finish();
        let mut values = KeyMap::default();
        for node in first?.list()? {
            let Some(name) = node.text() else { continue };
            let plan = self.number(name, &node);
            if plan.is_some_and(|plan| !values.insert(name.as_bytes(), plan)) {
                node.fail(format!("the plan {} is in the list already", quoted(name)));
            }
        }
        if self.names.is_empty() {
            node.fail("`first` lists no plan");
        }
        self.members = Some(values);
        self.is_list = true;
        Some(NamedActor::new("plan", actor?.into(), scope.parts))
    }

    /// The number of the plan with this name, which is added if it is new.
    fn number(&mut self, name: &str, node: &Node) -> Option<PlanId> {
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return Some(PlanId::new(index));
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(allowed) {
            node.fail(format!(
                "{} is not a plan's name: 1 to {MAX_NAME_BYTES} of A to Z, a to z, 0 to 9, `.`, `_` and `-`",
                quoted(name)
            ));
            return None;
        }
        if self.names.len() >= MAX_PLANS {
            node.fail(format!("there are {MAX_PLANS} plans already, and no more are allowed"));
            return None;
        }
        self.names.push(name.into());
        Some(PlanId::new(self.names.len().saturating_sub(1)))
    }

    /// The number of a plan that a rule names.
    fn find(&mut self, name: &str, node: &Node) -> Option<PlanId> {
        let known: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if self.members.is_none() || known.contains(&name) {
            return self.number(name, node);
        }
        let hint = match node.meant(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "`plan` names no plan".into(),
            None => {
                let names: Vec<String> = known.iter().map(|name| quoted(name).to_string()).collect();
                format!("expected {}", one_of(&names.iter().map(String::as_str).collect::<Vec<_>>()))
            }
        };
        node.fail(format!("unknown plan {}, {hint}", quoted(name)));
        None
    }

    /// Reads `plans` of a rule. Each plan reads the rule's keys again, below its own.
    pub(super) fn rule(
        &mut self,
        node: &Node,
        rule: &Fields,
        (kind, weight): (Option<&'static AlgorithmKind>, Weight),
        global: Option<&global_rule::Rule>,
        time_base: &mut TimeBase,
    ) -> Option<Vec<(PlanId, Option<Quota>)>> {
        self.is_used = true;
        if self.node.is_none() && !self.is_open {
            node.fail(NO_PLAN);
        }
        let entries = node.entries()?;
        if entries.is_empty() {
            node.fail("an empty object changes nothing: leave `plans` out, or name a plan as in `{gold: {rpu: 1000}}`");
        }
        let mut plans = Vec::new();
        for (name, node) in &entries {
            let plan = self.find(name, node);
            let quota = of_plan(node, rule, (kind, weight), global);
            if let Some(Some(of_plan)) = &quota {
                let never = never_admits(of_plan, None, weight.on_arrival);
                self.warnings.extend(never.map(|why| node.warning(why)));
            }
            let of_plan = quota.as_ref().and_then(Option::as_ref);
            let fits = of_plan.is_none_or(|of_plan| time_base.check(node, of_plan));
            plans.extend(plan.zip(quota).filter(|_| fits));
        }
        (plans.len() == entries.len()).then_some(plans)
    }

    /// A warning if no rule has plans.
    pub(super) fn warning(&self) -> Option<Error> {
        self.node.filter(|_| !self.is_used).map(|node| node.warning(IDLE))
    }

    /// What the policy needs; `None` if no rule has plans.
    pub(super) fn source(self) -> Option<PlanSource> {
        let Plans { actor, names, members, networks, is_list, is_used, .. } = self;
        let actor = actor.filter(|_| is_used)?;
        let of_names = || {
            let mut values = KeyMap::default();
            for (index, name) in names.iter().enumerate() {
                // No request has a value that the actor refuses.
                if let Ok(key) = parse_key(std::slice::from_ref(&actor), name) {
                    values.insert(&key, PlanId::new(index));
                }
            }
            values
        };
        let values = members.unwrap_or_else(of_names);
        Some(PlanSource { actor, names, values, networks: Networks::new(networks), is_list })
    }
}

/// Reads a member: its key, and the network if the actor's values are addresses, which then count
/// as a whole.
fn member(named: &NamedActor, node: &Node) -> Option<(Vec<u8>, Option<Network>)> {
    if named.actor().is_address() {
        let (network, mut key) = (network(node)?, Vec::new());
        network.write_key(&mut key);
        return Some((key, Some(network)));
    }
    let key = parse_key(std::slice::from_ref(named), node.text()?).map_err(|why| node.fail(why)).ok()?;
    Some((key, None))
}

/// `unlimited`, which is `Some(None)`, or what is different for the plan.
fn of_plan(
    node: &Node,
    rule: &Fields,
    (kind, weight): (Option<&'static AlgorithmKind>, Weight),
    global: Option<&global_rule::Rule>,
) -> Option<Option<Quota>> {
    match node.value() {
        Value::Text(text) if text == "unlimited" => return Some(None),
        Value::Object(_) => {}
        _ => return node.expected("`unlimited`, or what is different for the plan, such as `{rpu: 1000}`"),
    }
    refuse_in_change(node);
    let mut fields = node.fields()?.over(rule);
    let quota = quota(&mut fields, kind, global, weight);
    fields.belong(RULE_KEYS, "to the rule itself: a plan changes how much");
    fields.finish();
    quota.map(Some)
}
