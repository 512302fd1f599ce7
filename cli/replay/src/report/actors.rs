//! The actors with the most refusals.

use super::table::Column::{Number, Text};
use super::{number, table, text, time};
use crate::summary::RuleSummary;
use maud::{Markup, html};

/// The table of a rule's actors. Text of the log is in the first column.
pub fn panel(rule: &RuleSummary) -> Markup {
    if rule.top.is_empty() {
        return html! {};
    }
    let has_addresses = rule.top.iter().any(|actor| actor.is_address);
    let delayed = (rule.delayed > 0).then_some(Number("Delayed"));
    let refused = if rule.is_enforced { "Refused" } else { "Refused in shadow" };
    let heads = [Text("Actor"), Number("Checked"), Number(refused)].into_iter().chain(delayed);
    let heads =
        heads.chain([Number("Peak"), Text("Time of the peak"), Text("First refusal"), Text("Last refusal")]);
    html! {
        div .panel {
            h3 { "Top actors" }
            p .sub { "By refusals, then by peaks. Instants are in UTC" }
            @if has_addresses {
                p .sub { "Requests without the actor count by address; such actors have the mark " (address()) }
            }
            (table::scrolling("Top actors", html! {
                table .actors {
                    caption .hidden { "Actors with the most refusals" }
                    (table::head(heads))
                    tbody {
                        @for actor in &rule.top {
                            tr {
                                th scope="row" {
                                    (text::code(&actor.actor))
                                    @if actor.is_address { " " (address()) }
                                }
                                td .n { (number::count(actor.checked)) }
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

/// The mark of an address that replaces a missing actor.
fn address() -> Markup {
    html! { span .badge { "address" } }
}
