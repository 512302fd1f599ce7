//! The summary of a replay as text for people.

use super::caution::{cautions, lacks_actor, no_quotas};
use super::number::{count, difference, percent, plural, span, unit};
use super::summary::{
    ActorSummary, ClientSummary, Comparison, EndedEarly, LogSummary, RuleSummary, Suggestion, Summary,
    Totals, Unreadable, by_refusals,
};
use crate::printable::printable;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The actors of each rule that the text shows.
const TOP: usize = 5;

/// The summary as text, with suggested quotas if `suggests`.
///
/// ```
/// use diana_replay::{summary::Summary, text};
///
/// let summary = Summary { document: "limits.yaml".into(), ..Summary::default() };
/// assert!(text::report(&summary, false).starts_with("limits.yaml over "));
/// ```
#[must_use]
pub fn report(summary: &Summary, suggests: bool) -> String {
    let Summary { log, totals, rules, clients, against, .. } = summary;
    let mut text = String::new();
    let rules = by_refusals(rules);
    // Writing to a text cannot fail.
    let _ = write(&mut text, summary, log, totals);
    if let Some(against) = against {
        comparison(&mut text, &summary.document, totals, against);
    }
    if !log.assumptions.is_empty() {
        text.push_str("\nassumptions\n");
        log.assumptions.iter().for_each(|line| paragraph(&mut text, ("  - ", "    "), &printable(line)));
    }
    rules_table(&mut text, "rule", &rules);
    if let Some(against) = against {
        let heading = format!("rule of {}", printable(&against.document));
        rules_table(&mut text, &heading, &by_refusals(&against.rules));
    }
    if rules.len() > 1 {
        self::clients(&mut text, "most refused", clients);
    }
    for_all(&mut text, &rules, suggests);
    for rule in rules {
        self::rule(&mut text, rule, log.last_s - log.first_s, suggests);
    }
    text
}

/// What concerns several rules, once.
fn for_all(text: &mut String, rules: &[&RuleSummary], suggests: bool) {
    if rules.iter().any(|rule| refused(rule).any(|actor| actor.is_address)) {
        text.push('\n');
        let words = "(address): the requests lack the rule's actor, so the rule counts the requests by client address";
        paragraph(text, ("", ""), words);
    }
    let suggestions = rules.iter().filter(|_| suggests).filter_map(|rule| rule.suggestion.as_ref());
    let caveats: BTreeSet<&str> = suggestions.filter_map(|found| found.caveat.as_deref()).collect();
    for caveat in caveats {
        text.push('\n');
        paragraph(text, ("", ""), caveat);
    }
}

/// The most refused actors of a rule that the text shows.
fn refused(rule: &RuleSummary) -> impl Iterator<Item = &ActorSummary> {
    rule.top.iter().filter(|actor| actor.refused > 0).take(TOP)
}

/// The clients that several rules refuse most.
fn clients(text: &mut String, heading: &str, clients: &[ClientSummary]) {
    if clients.is_empty() {
        return;
    }
    text.push_str(&format!("\n{heading}\n"));
    for ClientSummary { client, actor, refused, rules } in clients.iter().take(TOP) {
        let name = printable(&format!("{actor} {client}"));
        text.push_str(&format!(
            "  {name:<40} {:>10} refused by {}\n",
            count(*refused),
            printable(&rules.join(", "))
        ));
    }
}

fn write(text: &mut String, summary: &Summary, log: &LogSummary, totals: &Totals) -> std::fmt::Result {
    let Totals { requests, admitted, delayed, refused, undecided, shadow_refused, logged_429 } = *totals;
    let (document, files) = (printable(&summary.document), printable(&log.files.join(", ")));
    writeln!(text, "{document} over {files} (format {})", printable(&log.format))?;
    if requests > 0 {
        let length = span(log.last_s - log.first_s);
        writeln!(text, "from {} to {} ({length})", instant(log.first_s), instant(log.last_s))?;
    }
    for caution in cautions(summary) {
        text.push('\n');
        paragraph(text, ("", ""), &printable(&caution));
    }
    for EndedEarly { file, line, why } in &log.ended_early {
        let (file, line) = (printable(file), count(*line));
        writeln!(text, "\n{file} ended early, after line {line}: {}", printable(why))?;
    }
    writeln!(text, "\n{:<14} {:>13}", "requests", count(requests))?;
    let parts = [
        ("admitted", admitted, true),
        ("delayed", delayed, delayed > 0),
        ("refused", refused, true),
        ("not replayable", undecided, undecided > 0),
        ("shadow refused", shadow_refused, shadow_refused > 0),
        ("429 in the log", logged_429, logged_429 > 0),
    ];
    for (name, part, _) in parts.into_iter().filter(|(.., is_shown)| *is_shown) {
        let share = percent(part as f64 / requests.max(1) as f64);
        writeln!(text, "{name:<14} {:>13}  {share}", count(part))?;
    }
    if log.unreadable > 0 {
        let lines = plural(log.lines, "line");
        writeln!(text, "\n{} of {lines} cannot be read, for example:", count(log.unreadable))?;
        for Unreadable { file, line, why } in &log.examples {
            writeln!(text, "  {}:{line}: {}", printable(file), printable(why))?;
        }
    }
    for file in &log.unmatched {
        writeln!(text, "\n{} has no line in the format {}", printable(file), printable(&log.format))?;
    }
    if log.late > 0 {
        let requests = plural(log.late, "request");
        let are = if log.late == 1 { "comes" } else { "come" };
        writeln!(text, "\n{requests} {are} too late in the log to be decided in the order of the starts")?;
    }
    Ok(())
}

/// One line for each rule.
fn rules_table(text: &mut String, heading: &str, rules: &[&RuleSummary]) {
    let names: Vec<String> = rules.iter().map(|rule| printable(&rule.name)).collect();
    let widths = names.iter().map(|name| name.chars().count());
    let width = widths.max().unwrap_or(0).max(heading.chars().count());
    text.push('\n');
    // Without refusals in shadow, the column would be empty.
    let has_shadow = rules.iter().any(|rule| rule.shadow_refused > 0);
    let mut line = |name: &str, algorithm: &str, cells: [&str; 7], end: &str| {
        let [rpu, checked, refused, shadow, delayed, actors, refused_actors] = cells;
        let shadow = if has_shadow { format!(" {shadow:>10}") } else { String::new() };
        text.push_str(&format!(
            "{name:<width$}  {algorithm:<10} {rpu:>10} {checked:>12} {refused:>12}{shadow} {delayed:>9} {actors:>10} {refused_actors:>15}{end}\n"
        ));
    };
    let heads = ["rpu", "checked", "refused", "in shadow", "delayed", "actors", "refused actors"];
    line(heading, "algorithm", heads, "");
    for (rule, name) in rules.iter().zip(&names) {
        let RuleSummary { rpu, checked, shadow_refused, delayed, actors, refused_actors, .. } = **rule;
        let refused = rule.enforced_refusals();
        let mut cells = [rpu, checked, refused, shadow_refused, delayed, actors, refused_actors].map(count);
        if lacks_actor(rule) {
            for place in [2, 3, 6] {
                cells.get_mut(place).into_iter().for_each(|cell| *cell = "not known".into());
            }
        }
        let end = match (rule.is_enforced, &*rule.enforce) {
            (false, _) => "  shadow".into(),
            (true, "" | "100%") => String::new(),
            (true, part) => {
                format!("  enforced for {part}")
            }
        };
        line(name, &rule.algorithm, cells.each_ref().map(String::as_str), &end);
    }
}

/// The most refused actors of a rule, and other quotas.
fn rule(text: &mut String, rule: &RuleSummary, log_s: f64, suggests: bool) {
    let suggestion = rule.suggestion.as_ref().filter(|_| suggests);
    if refused(rule).next().is_none() && suggestion.is_none() && rule.least.none.is_none() {
        return;
    }
    let per = match rule.unit_s {
        0.0 => "in flight".to_owned(),
        length => format!("per {}", unit(length).trim_start_matches("one ")),
    };
    let [name, actor, url] = [&rule.name, &rule.actor, &rule.url].map(|text| printable(text));
    text.push_str(&format!("\n{name}: {} {per} by {actor} on {url}\n", count(rule.rpu)));
    let shadow = if rule.is_enforced { "" } else { " in shadow" };
    for actor in refused(rule) {
        let mark = if actor.is_address { " (address)" } else { "" };
        text.push_str(&format!(
            "  {:<40} {:>10} of {} refused{shadow}, at most {} {per}\n",
            printable(&actor.actor) + mark,
            count(actor.refused),
            count(actor.checked),
            count(actor.peak)
        ));
    }
    let least = [
        ("nothing", rule.least.none),
        ("at most 0.1 %", rule.least.per_mille),
        ("at most 1 %", rule.least.percent),
    ];
    let known = least.iter().enumerate().filter_map(|(at, (share, rpu))| {
        // A looser share with the same quota adds nothing.
        let is_new =
            at.checked_sub(1).and_then(|before| least.get(before)).is_none_or(|(_, before)| before != rpu);
        Some(format!("{share} with rpu {} or more", count((*rpu).filter(|_| is_new)?)))
    });
    let known: Vec<String> = known.collect();
    if let (Some(why), false) = (no_quotas(rule, log_s), known.is_empty()) {
        paragraph(text, ("  ", "    "), &why);
    } else if !known.is_empty() {
        paragraph(text, ("  ", "    "), &format!("this rule alone would refuse {}", known.join(", ")));
    }
    if let Some(Suggestion { rpu, compared, why, .. }) = suggestion {
        let compared = compared.iter().map(|compared| format!(" {compared}")).collect::<String>();
        let (rpu, now) = (count(*rpu), count(rule.rpu));
        paragraph(text, ("  ", "    "), &format!("suggested rpu: {rpu} (now {now}).{compared} {why}"));
    }
}

/// A paragraph of at most 100 columns, with the indent of its first line and of all others.
fn paragraph(text: &mut String, (first, others): (&str, &str), words: &str) {
    let options = textwrap::Options::new(100).initial_indent(first).subsequent_indent(others);
    text.push_str(&textwrap::fill(words, options));
    text.push('\n');
}

fn comparison(text: &mut String, document: &str, totals: &Totals, against: &Comparison) {
    let Comparison { totals: others, both_refuse, only_first, only_other, .. } = against;
    let [document, other] = [document, &against.document].map(printable);
    let lines = [
        (format!("refused by {document}"), count(totals.refused)),
        (format!("refused by {other}"), count(others.refused)),
        ("difference".into(), difference(totals.refused, others.refused)),
        ("refused by both".into(), count(*both_refuse)),
        (format!("newly refused, only by {document}"), count(*only_first)),
        (format!("newly admitted, only by {other}"), count(*only_other)),
    ];
    text.push_str(&format!("\ncomparison with {other}\n"));
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, number) in lines {
        text.push_str(&format!("  {name:<width$} {number:>12}\n"));
    }
    clients(text, "newly refused", &against.newly_refused);
    clients(text, "newly admitted", &against.newly_admitted);
}

/// An instant, in UTC.
fn instant(seconds: f64) -> String {
    let micros = (seconds * 1e6).round();
    let instant = jiff::Timestamp::from_microsecond(micros as i64);
    instant.map_or_else(|_| seconds.to_string(), |instant| instant.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_others_moves_the_cursor() {
        let hostile = || "\u{1b}[2J\u{202e}é\n".to_owned();
        let rule = RuleSummary {
            name: hostile(),
            url: hostile(),
            actor: hostile(),
            top: vec![ActorSummary { actor: hostile(), refused: 1, ..ActorSummary::default() }],
            ..RuleSummary::default()
        };
        let client =
            ClientSummary { client: hostile(), actor: hostile(), refused: 1, rules: vec![hostile()] };
        let example = Unreadable { file: hostile(), line: 1, why: hostile() };
        let summary = Summary {
            document: hostile(),
            log: LogSummary {
                files: vec![hostile()],
                format: hostile(),
                unreadable: 1,
                examples: vec![example],
                assumptions: vec![hostile()],
                ..LogSummary::default()
            },
            rules: vec![rule.clone()],
            against: Some(Comparison {
                document: hostile(),
                newly_refused: vec![client],
                rules: vec![rule],
                ..Comparison::default()
            }),
            ..Summary::default()
        };
        let text = report(&summary, true);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        assert_eq!(text.matches("\\u{1b}[2J\\u{202e}é\\u{a}").count(), 21, "{text}");
    }

    #[test]
    fn numbers_are_grouped_and_nouns_agree() {
        let mut summary = Summary {
            totals: Totals { requests: 5_000_000, admitted: 4_999_999, refused: 1, ..Totals::default() },
            ..Summary::default()
        };
        (summary.log.lines, summary.log.unreadable, summary.log.late) = (5_001_234, 1_234, 1);
        summary.rules = vec![RuleSummary {
            name: "r".into(),
            rpu: 1_500,
            unit_s: 60.0,
            checked: 5_000_000,
            suggestion: Some(Suggestion {
                rpu: 2_000,
                caveat: Some("Short.".into()),
                ..Suggestion::default()
            }),
            ..RuleSummary::default()
        }];
        let text = report(&summary, true);
        for words in [
            "requests           5,000,000\nadmitted           4,999,999  100.0 %\n",
            "1,234 of 5,001,234 lines cannot be read",
            "1 request comes too late in the log",
            "\nr     ",
            "     1,500    5,000,000 ",
            "\nShort.\n",
            "suggested rpu: 2,000 (now 1,500).",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        summary.log.late = 2_000;
        assert!(report(&summary, true).contains("2,000 requests come too late in the log"));
    }

    #[test]
    fn whole_seconds_are_stated_above_the_totals() {
        let mut summary = Summary::default();
        summary.log.whole_seconds = true;
        summary.log.ended_early = vec![EndedEarly { file: "a.gz".into(), ..EndedEarly::default() }];
        let text = report(&summary, true);
        let (above, rules) = text.split_once("\nrequests ").unwrap();
        assert!(above.contains("All times in the log are whole seconds"), "{text}");
        assert!(!rules.contains("whole seconds"));
        assert!(above.contains("a.gz ended early") && !rules.contains("ended early"), "{text}");
    }
}
