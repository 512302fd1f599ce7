//! The summary of a replay as text for people.

use super::summary::{ActorSummary, Comparison, LogSummary, RuleSummary, Summary, Totals};
use super::tally::{percent, span};
use crate::printable::printable;
use std::fmt::Write;

/// The actors of each rule that the text shows.
const TOP: usize = 5;

/// The summary as text.
#[must_use]
pub fn report(summary: &Summary) -> String {
    let Summary { log, totals, rules, against, .. } = summary;
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = write(&mut text, summary, log, totals);
    rules_table(&mut text, rules);
    for rule in rules {
        self::rule(&mut text, rule);
    }
    if let Some(against) = against {
        comparison(&mut text, &summary.document, totals, against);
    }
    if !log.assumptions.is_empty() {
        text.push_str("\nassumptions\n");
        log.assumptions.iter().for_each(|line| paragraph(&mut text, ("  - ", "    "), &printable(line)));
    }
    text
}

fn write(text: &mut String, summary: &Summary, log: &LogSummary, totals: &Totals) -> std::fmt::Result {
    let Totals { requests, admitted, delayed, refused, shadow_refused, logged_429 } = *totals;
    let (document, files) = (printable(&summary.document), printable(&log.files.join(", ")));
    writeln!(text, "{document} over {files} (format {})", printable(&log.format))?;
    if requests > 0 {
        writeln!(text, "from {} to {}", instant(log.first_s), instant(log.last_s))?;
    }
    writeln!(text)?;
    let share = |count: u64| format!("{:>12}  {}", count, percent(count as f64 / requests.max(1) as f64));
    writeln!(text, "requests {requests:>14}")?;
    writeln!(text, "admitted {:>2}{}", "", share(admitted))?;
    let others =
        [("delayed", delayed), ("refused", refused), ("shadow", shadow_refused), ("429 then", logged_429)];
    for (name, count) in others.into_iter().filter(|(name, count)| *count > 0 || *name == "refused") {
        writeln!(text, "{name:<11}{}", share(count))?;
    }
    if log.unreadable > 0 {
        writeln!(text, "\n{} of {} lines cannot be read, such as", log.unreadable, log.lines)?;
        for example in &log.examples {
            writeln!(text, "  {}:{}: {}", printable(&example.file), example.line, printable(&example.why))?;
        }
    }
    if log.late > 0 {
        writeln!(text, "\n{} requests were logged too late and were decided after their start", log.late)?;
    }
    Ok(())
}

/// One line for each rule.
fn rules_table(text: &mut String, rules: &[RuleSummary]) {
    let names: Vec<String> = rules.iter().map(|rule| printable(&rule.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    text.push_str(&format!(
        "\n{:<width$}  {:<10} {:>10} {:>12} {:>12} {:>9} {:>10} {:>15}\n",
        "rule", "algorithm", "rpu", "judged", "refused", "delayed", "actors", "refused actors"
    ));
    for (rule, name) in rules.iter().zip(names) {
        let RuleSummary { algorithm, rpu, judged, refused, delayed, actors, refused_actors, .. } = rule;
        let shadow = if rule.is_enforced { "" } else { "  shadow" };
        text.push_str(&format!(
            "{name:<width$}  {algorithm:<10} {rpu:>10} {judged:>12} {refused:>12} {delayed:>9} {actors:>10} {refused_actors:>15}{shadow}\n"
        ));
    }
}

/// The most refused actors of a rule, and other quotas.
fn rule(text: &mut String, rule: &RuleSummary) {
    let refused: Vec<&ActorSummary> = rule.top.iter().filter(|actor| actor.refused > 0).take(TOP).collect();
    if refused.is_empty() && rule.suggestion.is_none() {
        return;
    }
    let unit = if rule.unit_s == 0.0 {
        "in flight".to_owned()
    } else {
        format!("per {}", span(rule.unit_s).trim_start_matches("one "))
    };
    let [name, actor, url] = [&rule.name, &rule.actor, &rule.url].map(|text| printable(text));
    text.push_str(&format!("\n{name}: {} {unit} by {actor} on {url}\n", rule.rpu));
    for actor in refused {
        text.push_str(&format!(
            "  {:<40} {:>10} of {} refused, at most {} {unit}\n",
            printable(&actor.actor),
            actor.refused,
            actor.judged,
            actor.peak
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
        Some(format!("{share} from rpu {} on", (*rpu).filter(|_| is_new)?))
    });
    let known: Vec<String> = known.collect();
    if !known.is_empty() {
        paragraph(text, ("  ", "    "), &format!("as the only rule it refuses {}", known.join(", ")));
    }
    if let Some(suggestion) = &rule.suggestion {
        paragraph(text, ("  ", "    "), &format!("suggested rpu: {}. {}", suggestion.rpu, suggestion.why));
    }
}

/// A paragraph of at most 100 columns, with the indent of its first line and of all others.
fn paragraph(text: &mut String, (first, others): (&str, &str), words: &str) {
    let options = textwrap::Options::new(100).initial_indent(first).subsequent_indent(others);
    text.push_str(&textwrap::fill(words, options));
    text.push('\n');
}

fn comparison(text: &mut String, document: &str, totals: &Totals, against: &Comparison) {
    let Comparison { totals: others, both_refuse, only_first, only_other, rules, .. } = against;
    let [document, other] = [document, &against.document].map(printable);
    let lines = [
        (format!("refused by {document}"), totals.refused),
        (format!("refused by {other}"), others.refused),
        ("refused by both".into(), *both_refuse),
        (format!("only by {document}"), *only_first),
        (format!("only by {other}"), *only_other),
    ];
    text.push_str("\ncomparison\n");
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, count) in lines {
        text.push_str(&format!("  {name:<width$} {count:>12}\n"));
    }
    rules_table(text, rules);
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
    use crate::replay::summary::Unreadable;

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
            against: Some(Comparison { document: hostile(), rules: vec![rule], ..Comparison::default() }),
            ..Summary::default()
        };
        let text = report(&summary);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        assert_eq!(text.matches("\\u{1b}[2J\\u{202e}é\\u{a}").count(), 16, "{text}");
    }
}
