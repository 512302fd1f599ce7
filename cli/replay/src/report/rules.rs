//! All rules in one table, with a sparkline each.

use super::chart::spark;
use super::table::Column::{Number, Text};
use super::{number, table, text, time};
use crate::caution::lacks_actor;
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
    // Without refusals in shadow, the column would be empty.
    let has_shadow = summary.rules.iter().any(|rule| rule.shadow_refused > 0);
    html! {
        table .rules {
            caption .hidden { "Rules, the most refusals first" }
            // A phone shows the first columns; the sections of the rules have the others.
            (table::head(
                [Text("Rule"), Number("Refused"), Text("Quota"), Number("Share"), Text("Suggested")]
                    .into_iter()
                    .chain(has_shadow.then_some(Number("In shadow")))
                    .chain([Number("Checked"), Number("Refused actors"), Text("Refusals over time")]),
            ))
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
                        @let (refused, is_known) = (rule.enforced_refusals(), !lacks_actor(rule));
                        td .n.refusal[refused > 0 && is_known] {
                            @if is_known { (number::count(refused)) } @else { "not known" }
                        }
                        td { (number::quota(rule.rpu, rule.unit_s)) }
                        td .n {
                            @if is_known { (number::percent(refused, rule.checked)) } @else { span .none { "–" } }
                        }
                        td {
                            @match &rule.suggestion {
                                Some(suggestion) => {
                                    (number::quota(suggestion.rpu, rule.unit_s))
                                    @if suggestion.compared.is_some() { span .where { "no improvement" } }
                                }
                                None => span .none { "–" },
                            }
                        }
                        @if has_shadow {
                            td .n {
                                @if is_known { (number::count(rule.shadow_refused)) } @else { span .none { "–" } }
                            }
                        }
                        td .n { (number::count(rule.checked)) }
                        td .n { (number::count(rule.refused_actors)) " of " (number::count(rule.actors)) }
                        td {
                            @if is_known {
                                (spark::draw(&rule.refusals, summary.timeline.intervals.len(), &words(rule, &summary.timeline)))
                            } @else {
                                span .none { "–" }
                            }
                        }
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
