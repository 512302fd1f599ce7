//! The summary of a replay as text for people.

use super::summary::{ActorSummary, Comparison, LogSummary, RuleSummary, Summary, Totals};
use super::tally::{percent, span};
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
        log.assumptions.iter().for_each(|line| paragraph(&mut text, ("  - ", "    "), &plain(line)));
    }
    text
}

fn write(text: &mut String, summary: &Summary, log: &LogSummary, totals: &Totals) -> std::fmt::Result {
    let Totals { requests, admitted, delayed, refused, shadow_refused, logged_429 } = *totals;
    writeln!(text, "{} over {} (format {})", summary.document, log.files.join(", "), plain(&log.format))?;
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
            writeln!(text, "  {}:{}: {}", plain(&example.file), example.line, plain(&example.why))?;
        }
    }
    for ended in &log.ended_early {
        writeln!(
            text,
            "\n{} ended early, after line {}: {}",
            plain(&ended.file),
            ended.line,
            plain(&ended.why)
        )?;
    }
    if log.late > 0 {
        writeln!(text, "\n{} requests were logged too late and were decided after their start", log.late)?;
    }
    Ok(())
}

/// One line for each rule.
fn rules_table(text: &mut String, rules: &[RuleSummary]) {
    let width = rules.iter().map(|rule| rule.name.len()).max().unwrap_or(0).max(4);
    text.push_str(&format!(
        "\n{:<width$}  {:<10} {:>10} {:>12} {:>12} {:>9} {:>10} {:>15}\n",
        "rule", "algorithm", "rpu", "judged", "refused", "delayed", "actors", "refused actors"
    ));
    for rule in rules {
        let RuleSummary { name, algorithm, rpu, judged, refused, delayed, actors, refused_actors, .. } = rule;
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
    text.push_str(&format!("\n{}: {} {unit} by {} on {}\n", rule.name, rule.rpu, rule.actor, rule.url));
    for actor in refused {
        text.push_str(&format!(
            "  {:<40} {:>10} of {} refused, at most {} {unit}\n",
            plain(&actor.actor),
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
    let Comparison { document: other, totals: others, both_refuse, only_first, only_other, rules } = against;
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

/// Text of a log without control characters and marks that change the direction of text.
fn plain(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_clients_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2J\u{202e}é\n"), "a\\u{1b}[2J\\u{202e}é\\u{a}");
    }
}
