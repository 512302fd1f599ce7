//! Where the rules of a document stand, for tools that show a rule next to its text.

use super::names::Names;
use super::pattern;
use super::quota::algorithm;
use super::top::Top;
use diana_document::{Error, Errors, Node};

/// A rule of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePlace {
    /// The index of the limit, and of the rule in the limit.
    pub index: (usize, usize),
    /// The rule's place, such as `limits[0].rules[1]`.
    pub place: String,
    /// The given name, or the default one.
    pub name: String,
    /// The url patterns of the limit, as written and separated by `, `.
    pub url: String,
    /// The names of the actors, as written and separated by `, `; `all` without any.
    pub actor: String,
    /// The abbreviation of the algorithm, such as `TB`.
    pub algorithm: &'static str,
    /// Whether the rule has `scope: global`.
    pub is_global: bool,
}

/// The rules of a valid document, in the order of the document. The error lists the mistakes of a
/// document in which rules cannot be found.
///
/// ```
/// let document = br#"{"url": "/api", "rules": [
///     {"actor": ["user", "ip"], "rpu": 5, "unit": "hour"}
/// ]}"#;
/// let rules = diana_config::rule_places(document).expect("a valid document");
/// assert_eq!((&*rules[0].place, &*rules[0].name, &*rules[0].url), ("rules[0]", "api-0", "/api"));
/// assert_eq!((&*rules[0].actor, rules[0].algorithm), ("user, ip", "TB"));
/// assert!(!rules[0].is_global);
/// ```
pub fn rule_places(document: &[u8]) -> Result<Vec<RulePlace>, Vec<Error>> {
    let document = diana_document::parse(document).map_err(|error| vec![error])?;
    let errors = Errors::default();
    let limits = Top::of(Node::root(&document, &errors)).and_then(|top| top.limits).unwrap_or_default();
    let mut names = Names::default();
    names.collect(&limits);
    let mut rules = Vec::new();
    for (place, limit) in limits.into_iter().enumerate() {
        let Some(mut fields) = limit.fields() else { continue };
        let urls = fields.require_either("url", "Url").map(|url| pattern::items(&url)).unwrap_or_default();
        let first = pattern::first(&urls);
        let urls: Vec<&str> = urls.iter().filter_map(|url| url.text()).collect();
        let nodes = fields.take("rules").and_then(|rules| rules.list()).unwrap_or_default();
        for (index, node) in nodes.into_iter().enumerate() {
            rules.extend(rule(node, &mut names, (first, &urls), (place, index)));
        }
    }
    let errors = errors.into_vec();
    if errors.is_empty() { Ok(rules) } else { Err(errors) }
}

fn rule(
    node: Node,
    names: &mut Names,
    (first, urls): (&str, &[&str]),
    index: (usize, usize),
) -> Option<RulePlace> {
    let mut fields = node.fields()?;
    let name = names.name(fields.take("name"), first, index.1)?;
    let actors = fields.take("actor").map(|node| node.one_or_many()).unwrap_or_default();
    let actors: Vec<&str> = actors.iter().filter_map(|actor| actor.text()).collect();
    let scope = fields.take("scope");
    Some(RulePlace {
        index,
        place: node.warning(String::new()).path,
        name,
        url: urls.join(", "),
        actor: if actors.is_empty() { "all".into() } else { actors.join(", ") },
        algorithm: algorithm(fields.take("algo"))?.short,
        is_global: scope
            .and_then(|scope| scope.choice("scope", &[("local", false), ("global", true)]))
            .unwrap_or(false),
    })
}
