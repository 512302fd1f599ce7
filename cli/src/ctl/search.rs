//! Finds the rules that count an actor, and shows what each has counted.

use super::table;
use diana_console::answer::{Count, Policy, Rule};
use diana_console::fleet::{Address, Failure, Target};
use diana_document::quoted;
use diana_replay::printable::printable;
use jiff::Timestamp;
use serde_json::{Value, json};

/// What a rule has counted in the gateway with this index.
pub struct Found {
    pub rule: String,
    pub place: usize,
    pub answer: Result<Count, Failure>,
}

/// The rules of any gateway that count this actor or everybody, in the order of the documents: the
/// query for each, and the indices of the gateways that have the rule.
pub fn questions(policies: &[Result<Policy, String>], target: &Target) -> Vec<(Target, Vec<usize>)> {
    let mut questions: Vec<(Target, Vec<usize>)> = Vec::new();
    for (place, policy) in policies.iter().enumerate() {
        for rule in policy.iter().flat_map(|policy| &policy.rules) {
            let value = |name: &String| target.actor.iter().find(|(own, _)| own == name).cloned();
            let Some(actor) = rule.actors.iter().map(value).collect::<Option<Vec<_>>>() else { continue };
            let asked = Target { rule: rule.name.clone(), actor, plan: target.plan.clone() };
            match questions.iter_mut().find(|(known, _)| *known == asked) {
                Some((_, places)) => places.push(place),
                None => questions.push((asked, vec![place])),
            }
        }
    }
    // A rule on everybody alone says nothing about an actor.
    if questions.iter().all(|(asked, _)| asked.actor.is_empty()) {
        questions.clear();
    }
    questions
}

/// Why no rule counts the actor.
pub fn nobody(policies: &[Result<Policy, String>], target: &Target) -> String {
    let known =
        each(policies, |rule| rule.actors.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" with "));
    let names: Vec<String> = target.actor.iter().map(|(name, _)| quoted(name)).collect();
    let counted = if known.is_empty() { "everybody together".into() } else { known };
    printable(&format!("no rule counts {}: the rules count {counted}", names.join(" with ")))
}

/// What there is in place of a rule that no gateway has. The text that was given is not repeated.
pub fn no_rule(policies: &[Result<Policy, String>]) -> String {
    let rules = each(policies, |rule| quoted(&rule.name));
    let known = if rules.is_empty() { "there are no rules".into() } else { format!("the rules are {rules}") };
    printable(&format!("no gateway has this rule: {known}; an actor is written `NAME=VALUE`"))
}

/// What the rules have, without what is empty or repeated.
fn each(policies: &[Result<Policy, String>], of: impl Fn(&Rule) -> String) -> String {
    let mut known: Vec<String> = Vec::new();
    for rule in policies.iter().flatten().flat_map(|policy| &policy.rules) {
        let text = of(rule);
        if !text.is_empty() && !known.contains(&text) {
            known.push(text);
        }
    }
    known.join(", ")
}

/// The lines of gateways that do not answer, and a table.
pub fn text(names: &[String], policies: &[Result<Policy, String>], found: &[Found]) -> String {
    let failed = names.iter().zip(policies).filter_map(|(name, policy)| Some((name, policy.as_ref().err()?)));
    let failed = failed.map(|(name, why)| table::Line::Text(name.clone(), printable(why)));
    let answers: Vec<Result<Count, String>> =
        found.iter().map(|one| one.answer.clone().map_err(|failure| failure.to_string())).collect();
    let rows = found.iter().zip(&answers).filter_map(|(one, answer)| {
        Some(table::Row { gateway: names.get(one.place)?, rule: Some(&one.rule), answer })
    });
    let text = table::counts(&rows.collect::<Vec<_>>(), Timestamp::now());
    let failed: Vec<table::Line> = failed.collect();
    if failed.is_empty() { text } else { text + &table::table(&[""], &failed) }
}

/// The same for programs.
pub fn json(addresses: &[Address], policies: &[Result<Policy, String>], found: &[Found]) -> Value {
    let entry = |place: usize| addresses.get(place).map(|address| (address.name(), address.url()));
    let answers = found.iter().filter_map(|one| {
        let (gateway, url) = entry(one.place)?;
        Some(match &one.answer {
            Ok(answer) => json!({"rule": one.rule, "gateway": gateway, "url": url, "answer": answer}),
            Err(why) => json!({"rule": one.rule, "gateway": gateway, "url": url, "error": why.to_string()}),
        })
    });
    let failed = policies.iter().enumerate().filter_map(|(place, policy)| {
        let ((gateway, url), why) = (entry(place)?, policy.as_ref().err()?);
        Some(json!({"gateway": gateway, "url": url, "error": why}))
    });
    json!({"counts": answers.collect::<Vec<_>>(), "failed": failed.collect::<Vec<_>>()})
}
