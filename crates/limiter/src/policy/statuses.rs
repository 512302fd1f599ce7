//! Statuses of responses: `401`, `"4xx"`, `"500-599"`, or a list of these.

use diana_base::format::decimal;
use diana_base::sort;
use diana_document::{Node, Value};

/// A set of statuses. Equal sets have equal ranges, however they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<(u64, u64)>);

const LEAST: u64 = 100;
const MOST: u64 = 599;

impl Statuses {
    /// Reads `{status: …}`. Reports each mistake at its place and then returns `None`.
    ///
    /// ```
    /// use diana_document::{Errors, Node, parse};
    /// use diana_limiter::policy::Statuses;
    ///
    /// let (document, errors) = (parse(br#"{"status": ["401", "5xx"]}"#)?, Errors::default());
    /// let statuses = Statuses::compile(&Node::root(&document, &errors)).ok_or("a mistake")?;
    /// assert!([401, 500, 599].iter().all(|status| statuses.contains(*status)));
    /// assert!(![200, 403, 600].iter().any(|status| statuses.contains(*status)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compile(node: &Node) -> Option<Statuses> {
        let Value::Object(_) = node.value() else {
            return node.expected("an object such as `{status: [401, \"5xx\"]}`");
        };
        let mut fields = node.fields()?;
        let status = fields.require("status");
        fields.finish();
        let nodes = status?.one_or_many();
        if nodes.is_empty() {
            node.fail("no status is listed");
            return None;
        }
        let ranges: Vec<Option<(u64, u64)>> = nodes.iter().map(range).collect();
        let mut ranges = ranges.into_iter().collect::<Option<Vec<_>>>()?;
        sort::sort_by_key(&mut ranges, |range| *range);
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in ranges {
            match merged.last_mut() {
                Some((_, end)) if from <= end.saturating_add(1) => *end = to.max(*end),
                _ => merged.push((from, to)),
            }
        }
        Some(Statuses(merged))
    }

    /// Whether the set has this status.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&status.into()))
    }

    /// The canonical text.
    pub(crate) fn canonical_form(&self) -> String {
        let range = |(from, to): &(u64, u64)| [&decimal(*from), "-", &*decimal(*to)].concat();
        self.0.iter().map(range).collect::<Vec<_>>().join(" ")
    }
}

/// One status or several, both ends included.
fn range(node: &Node) -> Option<(u64, u64)> {
    let found = match node.value() {
        Value::Whole(status) => Some((*status, *status)),
        Value::Text(text) => parse(text.trim()),
        _ => None,
    };
    match found {
        Some((from, to)) if LEAST <= from && from <= to && to <= MOST => found,
        _ => node.expected("a status from 100 to 599, a class such as `4xx`, or a range such as `500-599`"),
    }
}

fn parse(text: &str) -> Option<(u64, u64)> {
    if let Some(class) = text.strip_suffix("xx") {
        let first = class.parse::<u64>().ok()?.checked_mul(100)?;
        return Some((first, first.checked_add(99)?));
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_document::{Errors, parse};

    fn canonical_form(json: &str) -> Result<String, Vec<String>> {
        let (value, errors) = (parse(json.as_bytes()).unwrap(), Errors::default());
        let statuses = Statuses::compile(&Node::root(&value, &errors));
        let mistakes: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        statuses.filter(|_| mistakes.is_empty()).map(|statuses| statuses.canonical_form()).ok_or(mistakes)
    }

    #[test]
    fn every_spelling_of_a_set_is_the_same_set() {
        for json in [
            r#"{"status": "4xx"}"#,
            r#"{"status": ["400-499"]}"#,
            r#"{"status": ["450-499", "400-449", 404]}"#,
            r#"{"status": ["400 - 498", 499, "401"]}"#,
        ] {
            assert_eq!(canonical_form(json).as_deref(), Ok("400-499"), "{json}");
        }
        assert_eq!(canonical_form(r#"{"status": [503, 401, "402"]}"#).as_deref(), Ok("401-402 503-503"));
    }

    #[test]
    fn anything_else_is_refused_at_its_place() {
        let why =
            "expected a status from 100 to 599, a class such as `4xx`, or a range such as `500-599`, found";
        for (status, found) in [
            ("99", "`99`"),
            ("600", "`600`"),
            (r#""6xx""#, "`6xx`"),
            (r#""xx""#, "`xx`"),
            (r#""404-400""#, "`404-400`"),
            (r#""ok""#, "`ok`"),
            ("null", "nothing"),
        ] {
            let mistakes = canonical_form(&format!(r#"{{"status": [200, {status}]}}"#));
            assert_eq!(mistakes, Err(vec![format!("status[1]: {why} {found}")]), "{status}");
        }
        assert_eq!(canonical_form(r#"{"status": []}"#), Err(vec!["no status is listed".into()]));
        assert_eq!(canonical_form("{}"), Err(vec!["`status` is missing".into()]));
    }
}
