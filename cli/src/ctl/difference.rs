//! Which gateways do not enforce what the others enforce.

use super::table::{Line, Named, quota, table};
use diana_console::answer::{Policy, Rule, UNKNOWN};
use diana_replay::number::count;
use diana_replay::printable::printable;

/// How gateways differ from most of the others.
pub struct Differences {
    /// The fields that are not the same everywhere.
    pub fields: Vec<&'static str>,
    /// The rules of gateways with another document: what is different, in words.
    pub rules: Vec<String>,
    usual: [String; 3],
}

/// Reads a field.
type Read = fn(&Policy) -> &str;

/// What must be the same, and how to read it.
const FIELDS: [(&str, Read); 3] = [
    ("document", |policy| &policy.fingerprint),
    ("version", |policy| &policy.version),
    ("secret of the store", Policy::secret),
];

impl Differences {
    /// Compares the gateways that have answered.
    pub fn of(names: &[String], answers: &[Result<Policy, String>]) -> Self {
        let policies: Vec<(&String, &Policy)> = names
            .iter()
            .zip(answers)
            .filter_map(|(name, answer)| Some((name, answer.as_ref().ok()?)))
            .collect();
        let usual = FIELDS.map(|(_, read)| most_frequent(policies.iter().map(|(_, policy)| read(policy))));
        let differs = |at: usize, read: Read| {
            let usual = usual.get(at).map_or("", String::as_str);
            policies.iter().any(|(_, policy)| is_other(read(policy), usual))
        };
        let fields = FIELDS
            .iter()
            .enumerate()
            .filter(|(at, (_, read))| differs(*at, *read))
            .map(|(_, (name, _))| *name);
        let fields = fields.collect();
        let model = policies.iter().find(|(_, policy)| usual.first() == Some(&policy.fingerprint));
        let others = policies.iter().filter(|(_, policy)| usual.first() != Some(&policy.fingerprint));
        let rules = match model {
            Some((_, model)) => others.flat_map(|(name, policy)| of_rules(name, policy, model)).collect(),
            None => Vec::new(),
        };
        Self { fields, rules, usual }
    }

    /// The gateways with what differs, and a sentence.
    pub fn table(&self, answers: &[Named<Policy>]) -> String {
        let lines: Vec<Line> = answers
            .iter()
            .map(|(gateway, answer)| match answer {
                Err(why) => Line::Text(gateway.clone(), printable(why)),
                Ok(policy) => {
                    let cells = FIELDS.iter().zip(&self.usual).map(|((_, read), usual)| {
                        let mark = if is_other(read(policy), usual) { " *" } else { "" };
                        format!("{}{mark}", printable(read(policy)))
                    });
                    let generation =
                        if policy.generation == 0 { "local".into() } else { count(policy.generation) };
                    Line::Cells(gateway.clone(), cells.chain([generation]).collect())
                }
            })
            .collect();
        let mut text =
            table(&["gateway", "document", "version", "secret of the store", "generation"], &lines);
        if self.fields.is_empty() {
            let answered = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
            text.push_str(match answered {
                0 => "no gateway has answered\n",
                _ if answered < answers.len() => "the gateways that have answered are the same\n",
                _ => "all gateways are the same\n",
            });
        } else {
            let is_unknown = answers.iter().any(|(_, answer)| {
                answer.as_ref().is_ok_and(|policy| FIELDS.iter().any(|(_, read)| read(policy) == UNKNOWN))
            });
            let words = if is_unknown { "different or unknown" } else { "different" };
            text.push_str(&format!("{words} (*): {}\n", self.fields.join(", ")));
            self.rules.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        }
        text
    }
}

/// Whether a value may differ from those of the other gateways, as two unknown ones may.
fn is_other(value: &str, usual: &str) -> bool {
    value != usual || value == UNKNOWN
}

/// Of equally frequent values the first.
fn most_frequent<'a>(values: impl Iterator<Item = &'a str> + Clone) -> String {
    let count = |value: &str| values.clone().filter(|other| *other == value).count();
    let mut best: Option<(usize, &str)> = None;
    for value in values.clone() {
        if best.is_none_or(|(most, _)| count(value) > most) {
            best = Some((count(value), value));
        }
    }
    best.map(|(_, value)| value.to_owned()).unwrap_or_default()
}

/// The rules in which a policy differs from another.
fn of_rules(gateway: &str, policy: &Policy, model: &Policy) -> Vec<String> {
    let find = |rules: &'_ [Rule], name: &str| rules.iter().find(|rule| rule.name == name).cloned();
    let mut lines = Vec::new();
    for rule in &policy.rules {
        let name = printable(&rule.name);
        match find(&model.rules, &rule.name) {
            None => lines.push(format!("{gateway}: the rule `{name}` is only here")),
            Some(other) if other != *rule => {
                let (here, elsewhere) = forms(rule, &other);
                lines.push(format!("{gateway}: `{name}` is {here}, elsewhere {elsewhere}"));
            }
            Some(_) => {}
        }
    }
    let missing = model.rules.iter().filter(|rule| find(&policy.rules, &rule.name).is_none());
    lines.extend(missing.map(|rule| format!("{gateway}: the rule `{}` is missing", printable(&rule.name))));
    if lines.is_empty() {
        lines.push(format!("{gateway}: the rules look the same; conditions, actors or overrides differ"));
    }
    lines
}

/// In what two rules of one name differ, in words.
fn forms(rule: &Rule, other: &Rule) -> (String, String) {
    type Words = fn(&Rule) -> String;
    let fields: [Words; 3] = [
        |rule| quota(rule.rpu, rule.unit_ms),
        |rule| rule.scope.clone(),
        |rule| format!("enforced for {}", rule.enforce),
    ];
    let mut different: Vec<Words> = fields.into_iter().filter(|field| field(rule) != field(other)).collect();
    if different.is_empty() {
        // The quota decides most of the algorithm's numbers, which are hard to read.
        different.push(|rule| rule.algorithm.clone());
    }
    let words = |rule| printable(&different.iter().map(|field| field(rule)).collect::<Vec<_>>().join(", "));
    (words(rule), words(other))
}
