//! The actors with the most refusals.

use super::{number, table, text, time};
use crate::replay::summary::RuleSummary;
use maud::{Markup, html};

/// The table of a rule's actors. Text of the log is in the first column.
pub fn panel(rule: &RuleSummary) -> Markup {
    if rule.top.is_empty() {
        return html! {};
    }
    html! {
        div .panel {
            h3 { "Top actors" }
            p .sub { "By refusals, then by peaks. Instants are in UTC" }
            (table::scrolling("Top actors", html! {
                table .actors {
                    caption .hidden { "Actors with the most refusals" }
                    thead {
                        tr {
                            th scope="col" { "Actor" }
                            th scope="col" .n { "Judged" }
                            th scope="col" .n { "Refused" }
                            @if rule.delayed > 0 { th scope="col" .n { "Delayed" } }
                            th scope="col" .n { "Peak" }
                            th scope="col" { "Time of the peak" }
                            th scope="col" { "First refusal" }
                            th scope="col" { "Last refusal" }
                        }
                    }
                    tbody {
                        @for actor in &rule.top {
                            tr {
                                th scope="row" { (text::code(&actor.actor)) }
                                td .n { (number::count(actor.judged)) }
                                td .n.refusal[actor.refused > 0] { (number::count(actor.refused)) }
                                @if rule.delayed > 0 { td .n { (number::count(actor.delayed)) } }
                                td .n { (number::count(actor.peak)) }
                                td { (time::brief(Some(actor.peak_s))) }
                                td { (time::brief(actor.first_refusal_s)) }
                                td { (time::brief(actor.last_refusal_s)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}
