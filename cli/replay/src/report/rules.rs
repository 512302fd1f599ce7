//! All rules in one table, with a sparkline each.

use super::chart::spark;
use super::table::Column::{Number, Text};
use super::{number, table, text, time};
use crate::summary::{RuleSummary, Summary, Timeline, by_refusals};
use maud::{Markup, html};

/// The table of the rules.
pub fn section(summary: &Summary) -> Markup {
    html! {
        section #rules aria-labelledby="rules-title" {
            h2 #rules-title { "Rules" }
            @if summary.rules.is_empty() {
                p { "The document has no rules." }
            } @else {
                div .panel.flush { (table::scrolling("Rules", rules(summary))) }
            }
        }
    }
}

fn rules(summary: &Summary) -> Markup {
    html! {
        table .rules {
            caption .hidden { "Rules, the most refusals first" }
            (table::head([
                // A phone shows the first columns; the sections of the rules have the others.
                Text("Rule"), Number("Refused"), Text("Quota"), Number("Share"), Text("Suggested"),
                Number("Checked"), Number("Refused actors"), Text("Refusals over time"),
            ]))
            tbody {
                @for (index, rule) in by_refusals(&summary.rules).into_iter().enumerate() {
                    tr {
                        th scope="row" {
                            a href={ "#rule-" (index.saturating_add(1)) } { (text::isolated(&rule.name)) }
                            @match (rule.is_enforced, &*rule.enforce) {
                                (false, _) => { " " span .badge { "shadow" } }
                                (true, "" | "100%") => {}
                                (true, part) => { " " span .badge { (part) } }
                            }
                            span .where { (text::isolated(&rule.url)) }
                        }
                        td .n.refusal[rule.refused > 0] { (number::count(rule.refused)) }
                        td { (number::quota(rule.rpu, rule.unit_s)) }
                        td .n { (number::percent(rule.refused, rule.checked)) }
                        td {
                            @match &rule.suggestion {
                                Some(suggestion) => {
                                    (number::quota(suggestion.rpu, rule.unit_s))
                                    @if suggestion.compared.is_some() { span .where { "no improvement" } }
                                }
                                None => span .none { "–" },
                            }
                        }
                        td .n { (number::count(rule.checked)) }
                        td .n { (number::count(rule.refused_actors)) " of " (number::count(rule.actors)) }
                        td { (spark::draw(&rule.refusals, &words(rule, &summary.timeline))) }
                    }
                }
            }
        }
    }
}

/// What a sparkline shows.
pub fn words(rule: &RuleSummary, timeline: &Timeline) -> String {
    // If intervals are equal, the first wins.
    match rule.refusals.iter().copied().enumerate().rev().max_by_key(|(_, number)| *number) {
        Some((index, most)) if most > 0 => format!(
            "Most refusals in one interval: {}, from {} UTC.",
            number::count(most),
            time::start_of_interval(
                timeline.start_s + timeline.interval_s * index as f64,
                timeline.interval_s
            )
        ),
        _ => "No refusals.".to_owned(),
    }
}
