//! The answers of gateways as tables of text, a line for each gateway.

use diana_console::answer::{Count, Policy, Rule, Top};
use diana_replay::number::{count, plural, span, unit};
use diana_replay::printable::printable;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A gateway's name, and its answer or why there is none.
pub type Named<'a, T> = (String, &'a Result<T, String>);

/// A line of a table: cells, or a text that goes on to the right.
pub enum Line {
    /// The cells after the first.
    Cells(String, Vec<String>),
    /// What stands in place of the cells.
    Text(String, String),
}

/// A table with headings, which begin with `>` if the column is one of numbers.
pub fn table(headings: &[&str], lines: &[Line]) -> String {
    let headings: Vec<(bool, &str)> =
        headings.iter().map(|heading| (heading.starts_with('>'), heading.trim_start_matches('>'))).collect();
    let width = |column: usize, heading: &str| {
        let cells = lines.iter().filter_map(|line| match line {
            Line::Cells(first, _) | Line::Text(first, _) if column == 0 => Some(first),
            Line::Cells(_, rest) => rest.get(column.saturating_sub(1)),
            Line::Text(..) => None,
        });
        cells.map(|cell| cell.chars().count()).chain([heading.chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> =
        headings.iter().enumerate().map(|(at, (_, heading))| width(at, heading)).collect();
    let mut text = String::new();
    let mut row = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), (is_number, _)) in cells.zip(&widths).zip(&headings) {
            // A `String` takes any text.
            let _ = match is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    if lines.iter().any(|line| matches!(line, Line::Cells(..))) {
        row(&mut headings.iter().map(|(_, heading)| *heading));
    }
    for line in lines {
        match line {
            Line::Cells(first, rest) => row(&mut [first].into_iter().chain(rest).map(String::as_str)),
            Line::Text(first, why) => {
                let width = widths.first().copied().unwrap_or_default();
                row(&mut [format!("{first:width$}  {why}").as_str()].into_iter());
            }
        }
    }
    text
}

/// The count of an actor by a gateway.
pub struct Row<'a> {
    /// The gateway.
    pub gateway: &'a str,
    /// The rule, if the table is about several.
    pub rule: Option<&'a str>,
    /// What it has counted, or why there is no answer.
    pub answer: &'a Result<Count, String>,
}

/// The counts of an actor, at `now`.
pub fn counts(rows: &[Row], now: Timestamp) -> String {
    let any = |has: fn(&Count) -> Option<u64>| {
        rows.iter().any(|row| row.answer.as_ref().is_ok_and(|count| has(count).is_some()))
    };
    let (granted, reserved) = (any(|count| count.granted), any(|count| count.reserved));
    let mut headings = vec!["gateway"];
    headings.extend(rows.iter().any(|row| row.rule.is_some()).then_some("rule"));
    headings.extend([">used", ">remaining", ">quota", ">more in", ">new again in", ">penalty"]);
    headings.extend(granted.then_some(">grant"));
    headings.extend(reserved.then_some(">reserved"));
    headings.push("next request");
    let lines: Vec<Line> = rows
        .iter()
        .map(|Row { gateway, rule, answer }| match answer {
            Err(why) => {
                let why = rule.map_or_else(|| why.clone(), |rule| format!("{rule}  {why}"));
                Line::Text((*gateway).into(), printable(&why))
            }
            Ok(found) => {
                let mut cells: Vec<String> = rule.iter().map(|rule| printable(rule)).collect();
                cells.extend([
                    count(found.used),
                    count(found.remaining),
                    quota(found.quota, found.quota_ms),
                    again(found.more_in_ms, now),
                    time(found.full_in_ms),
                    time(found.penalty_ms),
                ]);
                if granted {
                    let for_ms = found.granted_for_ms.unwrap_or_default();
                    cells.push(match found.granted {
                        None | Some(0) => "–".into(),
                        Some(units) => format!("{} for {}", count(units), time(for_ms)),
                    });
                }
                if reserved {
                    cells.push(found.reserved.map_or("–".into(), count));
                }
                cells.push(if found.is_refused { "refused" } else { "admitted" }.into());
                Line::Cells((*gateway).into(), cells)
            }
        })
        .collect();
    let mut text = table(&headings, &lines);
    let hidden = rows.iter().filter_map(|row| row.answer.as_ref().ok()?.actor.as_ref());
    let mut listed: Vec<String> = hidden.map(pairs).collect();
    listed.sort_unstable();
    listed.dedup();
    if !listed.is_empty() {
        text.push_str(&format!("`diana ctl top` lists {}\n", printable(&listed.join(" or "))));
    }
    text
}

/// An actor as people write it.
fn pairs(actor: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = actor.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}

/// The rules of all gateways, each form of a rule with the gateways that have it.
pub fn rules(answers: &[Named<Policy>]) -> String {
    let mut forms: Vec<(&Rule, Vec<&str>)> = Vec::new();
    let answered = answers.iter().filter_map(|(gateway, answer)| Some((gateway, answer.as_ref().ok()?)));
    let mut count = 0usize;
    for (gateway, policy) in answered {
        count = count.saturating_add(1);
        for rule in &policy.rules {
            match forms.iter_mut().find(|(known, _)| *known == rule) {
                Some((_, gateways)) => gateways.push(gateway),
                None => forms.push((rule, vec![gateway])),
            }
        }
    }
    let lines = forms.into_iter().map(|(rule, gateways)| {
        let actors = if rule.actors.is_empty() { "everybody".into() } else { rule.actors.join(" with ") };
        let gateways = if gateways.len() == count { "all".into() } else { gateways.join(", ") };
        let cells =
            [actors, quota(rule.rpu, rule.unit_ms), rule.scope.clone(), rule.enforce.clone(), gateways];
        Line::Cells(printable(&rule.name), cells.iter().map(|cell| printable(cell)).collect())
    });
    let failed = answers
        .iter()
        .filter_map(|(gateway, answer)| Some(Line::Text(gateway.clone(), printable(answer.as_ref().err()?))));
    let lines: Vec<Line> = lines.chain(failed).collect();
    table(&["rule", "counts", ">quota", "scope", ">enforced", "gateways"], &lines)
}

/// The actors that each gateway has refused most.
pub fn top(answers: &[Named<Top>], limit: usize) -> String {
    let mut lines = Vec::new();
    for (gateway, answer) in answers {
        match answer {
            Err(why) => lines.push(Line::Text(gateway.clone(), printable(why))),
            Ok(top) if top.actors.is_empty() => lines.push(Line::Text(gateway.clone(), "nobody yet".into())),
            Ok(top) => lines.extend(top.actors.iter().take(limit).map(|one| {
                let pairs = one.actor.iter().map(|(name, value)| format!("{name}={value}"));
                let pairs: Vec<String> =
                    pairs.chain(one.name.iter().map(|name| format!("({name})"))).collect();
                let error = if one.error == 0 {
                    "exact".into()
                } else {
                    format!("at most {} less", count(one.error))
                };
                Line::Cells(gateway.clone(), vec![count(one.count), error, printable(&pairs.join(" "))])
            })),
        }
    }
    let mut text = table(&["gateway", ">count", "error", "actor"], &lines);
    for (gateway, answer) in answers {
        let Some(top) = answer.as_ref().ok().filter(|top| !top.actors.is_empty()) else { continue };
        let mut parts = Vec::new();
        if let Some(since) = since(top.since_ms) {
            parts.push(format!("counted since {since}"));
        }
        let rest = top.actors.len().saturating_sub(limit);
        if rest > 0 {
            parts.push(format!("{} beyond `--limit`", plural(rest as u64, "more actor")));
        }
        parts.push(format!("any other actor has at most {}", count(top.error_bound)));
        text.push_str(&format!("{gateway}: {}\n", parts.join("; ")));
    }
    text
}

/// A time in UTC; `None` for none, and for one that no calendar has.
fn since(ms: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(ms).ok().filter(|ms| *ms > 0)?).ok()
}

/// A quota: `100 per minute`, `5 per 30 seconds`.
pub fn quota(rpu: u64, unit_ms: u64) -> String {
    if unit_ms == 0 {
        return format!("{} in flight", count(rpu));
    }
    let unit = unit(unit_ms as f64 / 1e3);
    format!("{} per {}", count(rpu), unit.strip_prefix("one ").unwrap_or(&unit))
}

fn time(ms: u64) -> String {
    if ms == 0 { "–".into() } else { span(ms as f64 / 1e3) }
}

/// The time until more comes, from one day on with the instant. A calendar's period ends on a whole
/// minute, so rounding undoes the delay of the answer.
fn again(ms: u64, now: Timestamp) -> String {
    let at = now.as_millisecond().saturating_add_unsigned(ms).saturating_add(MINUTE_MS / 2);
    match Timestamp::from_millisecond(at) {
        Ok(at) if ms >= DAY_MS => format!("{} ({})", time(ms), at.strftime("%Y-%m-%d %H:%M UTC")),
        _ => time(ms),
    }
}

const MINUTE_MS: i64 = 60_000;
const DAY_MS: u64 = 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_errors_take_the_line() {
        let ok = Ok(Count {
            rule: "a".into(),
            quota: 5,
            quota_ms: 60_000,
            used: 1_200,
            remaining: 4,
            penalty_ms: 1_500,
            ..Count::default()
        });
        let wrong = Err("there is no rule `\u{1b}[2J`".to_owned());
        let row = |gateway, answer| Row { gateway, rule: None, answer };
        let now: Timestamp = "2027-03-30T11:59:59.9Z".parse().unwrap();
        let shown = counts(&[row("a", &ok), row("longer:1", &wrong)], now);
        assert_eq!(
            shown,
            "gateway    used  remaining         quota  more in  new again in  penalty  next request\n\
             a         1,200          4  5 per minute        –             –    1.5 s  admitted\n\
             longer:1  there is no rule `\\u{1b}[2J`\n"
        );
        let granted = Ok(Count { granted: Some(7), granted_for_ms: Some(3_600_000), ..ok.clone().unwrap() });
        let shown = counts(&[row("a", &granted), row("b", &ok)], now);
        assert!(shown.contains("7 for 1 h"), "{shown}");
        let month = Ok(Count { more_in_ms: 1_332_000_000, ..ok.clone().unwrap() });
        let shown = counts(&[row("a", &month)], now);
        assert!(shown.contains("  15 d 10 h (2027-04-14 22:00 UTC)  "), "{shown}");
    }
}
