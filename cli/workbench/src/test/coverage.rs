//! Which branches of the rules the cases have reached.

use crate::check::place::Places;
use crate::explain::Decided;
use crate::explain::document::{Document, get, is_global};
use crate::explain::gateways::{Compiled, Gateways};
use crate::source::content::File;
use crate::source::documents::documents;
use crate::source::parts::parts;
use diana_document::Value;
use diana_limiter::algorithm::Admission;
use diana_limiter::decide::RuleResult;
use miette::{Result, miette};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A branch that no case has reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Uncovered {
    /// The name of the rule.
    pub rule: String,
    /// What did not happen to the rule, as `refused by its quota` or `delayed`.
    pub never: String,
    /// The file and the line of the rule.
    pub place: String,
}

/// The indices of limit and rule.
type Place = (usize, usize);

/// The branches of all rules, and those that were reached.
pub struct Coverage {
    rules: BTreeMap<Place, RuleBranches>,
}

struct RuleBranches {
    name: String,
    /// The place in the document, as `limits[0].rules[1]`.
    path: String,
    /// In the order of the report.
    possible: Vec<Branch>,
    reached: BTreeSet<Branch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Branch {
    Refused,
    Penalized,
    WouldRefuse,
    Delayed,
    /// A threshold of `over`, in percent.
    Beyond(u32),
    WithoutStore,
}

impl Branch {
    fn words(self) -> String {
        match self {
            Branch::Refused => "refused by its quota".into(),
            Branch::Penalized => "refused by its penalty".into(),
            Branch::WouldRefuse => "refused in shadow".into(),
            Branch::Delayed => "delayed".into(),
            Branch::Beyond(percent) => format!("beyond {percent}%"),
            Branch::WithoutStore => "without its store".into(),
        }
    }
}

impl Coverage {
    /// Nothing is reached yet.
    pub fn new(document: &Document) -> Result<Coverage> {
        let gateways = Gateways::new(document, 1)?;
        let by = gateways.compiled(0, false).ok_or_else(|| miette!("there is no gateway"))?;
        let mut rules = BTreeMap::new();
        for (at, limit) in document.limits.iter().enumerate() {
            for (index, (path, value)) in limit.rules().enumerate() {
                let Some(rule) = by.rule((at, index)).and_then(|id| by.policy().rule(id)) else { continue };
                let thresholds = by.configuration.soft_limits.thresholds();
                let own = thresholds.iter().filter(|known| by.rule((at, index)) == Some(known.rule));
                let own: Vec<u32> = own.map(|threshold| threshold.percent).collect();
                let mut possible = Vec::new();
                if rule.enforced() && !admits_all(value) {
                    possible.push(Branch::Refused);
                } else if !rule.enforced() {
                    possible.push(Branch::WouldRefuse);
                }
                if rule.enforced() && rule.quota().penalty().is_some() {
                    possible.push(Branch::Penalized);
                }
                if rule.enforced() && rule.quota().algorithm().may_wait() {
                    possible.push(Branch::Delayed);
                }
                possible.extend(own.into_iter().map(Branch::Beyond));
                if is_global(value) {
                    possible.push(Branch::WithoutStore);
                }
                let name = rule.name().to_owned();
                rules.insert((at, index), RuleBranches { name, path, possible, reached: BTreeSet::new() });
            }
        }
        Ok(Coverage { rules })
    }

    /// Adds the decision about a request.
    pub fn add(&mut self, by: &Rc<Compiled>, decided: &Decided) {
        for check in &decided.checks {
            let Some(branches) = by.place(check.rule()).and_then(|place| self.rules.get_mut(&place)) else {
                continue;
            };
            // Without a verdict, the request lacks the actor, or the store is down. A penalty
            // begins with a refusal by the quota.
            match (check.result(), check.verdict()) {
                (RuleResult::Refused, Some(verdict)) => {
                    branches.reached.insert(Branch::Refused);
                    if verdict.is_penalty() {
                        branches.reached.insert(Branch::Penalized);
                    }
                }
                (RuleResult::Shadowed, Some(_)) if check.is_in_shadow() => {
                    _ = branches.reached.insert(Branch::WouldRefuse);
                }
                _ => {}
            }
            let admission = check.verdict().map(|verdict| verdict.admission);
            if let Some(Admission::Admit { delay }) = admission
                && delay > diana_base::time::Span::ZERO
            {
                branches.reached.insert(Branch::Delayed);
            }
            if check.is_degraded() {
                branches.reached.insert(Branch::WithoutStore);
            }
            let beyond = decided.over.iter().filter(|(rule, _)| *rule == check.rule());
            branches.reached.extend(beyond.map(|(_, percent)| Branch::Beyond(*percent)));
        }
    }

    /// The name of each rule that checked a request, in the order of the checks.
    pub fn names(&self, by: &Rc<Compiled>, decided: &Decided) -> Vec<String> {
        let name =
            |rule| by.place(rule).and_then(|place| self.rules.get(&place)).map(|rule| rule.name.clone());
        decided.checks.iter().map(|check| name(check.rule()).unwrap_or_default()).collect()
    }

    /// The number of branches that were reached, and of all.
    pub fn branches(&self) -> [usize; 2] {
        let rules = || self.rules.values();
        let reached =
            |rule: &RuleBranches| rule.possible.iter().filter(|branch| rule.reached.contains(branch)).count();
        [rules().map(reached).sum(), rules().map(|rule| rule.possible.len()).sum()]
    }

    /// The branches that were not reached, in the order of the document.
    pub fn uncovered(&self, file: &File, name: &str) -> Vec<Uncovered> {
        let lines = lines(file, self.rules.values().map(|rule| rule.path.as_str()));
        let mut uncovered = Vec::new();
        for (rule, line) in self.rules.values().zip(lines) {
            let place = line.map_or_else(|| rule.path.clone(), |line| format!("{name}:{line}"));
            for branch in rule.possible.iter().filter(|branch| !rule.reached.contains(branch)) {
                let (rule, place) = (rule.name.clone(), place.clone());
                uncovered.push(Uncovered { rule, never: branch.words(), place });
            }
        }
        uncovered
    }
}

/// The line of each path in the file's only document; `None` if the file has several.
fn lines<'p>(file: &File, paths: impl Iterator<Item = &'p str>) -> Vec<Option<usize>> {
    let parts = parts(file);
    let documents = documents(&parts);
    let only = documents.first().filter(|_| documents.len() == 1);
    let line = |path: &str| {
        let document = only?;
        let (value, _) = Places::new(document.value()?, true).at(path);
        Some(file.position(document.content().outer(&value.range).start).line)
    };
    paths.map(line).collect()
}

/// Whether the rule marks requests beyond its quota in place of refusing them.
fn admits_all(rule: &Value) -> bool {
    let admits = |over: &Value| get(over, "admit") == Some(&Value::Bool(true));
    match get(rule, "over") {
        Some(Value::List(items)) => items.iter().any(admits),
        Some(over) => admits(over),
        None => false,
    }
}
