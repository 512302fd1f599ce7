//! The clients that rules refuse most, whichever rules these are.

use super::table::Column::{Number, Text};
use super::{number, table, text};
use crate::summary::ClientSummary;
use maud::{Markup, html};

/// The section about all rules together.
pub fn section(clients: &[ClientSummary]) -> Markup {
    html! {
        @if !clients.is_empty() {
            section #clients aria-labelledby="clients-title" {
                h2 #clients-title { "Most refused clients" }
                div .panel.flush { (rows("Most refused clients", clients)) }
            }
        }
    }
}

/// A panel with some clients.
pub fn panel(title: &str, clients: &[ClientSummary]) -> Markup {
    html! {
        @if !clients.is_empty() {
            div .panel { h3 { (title) } (rows(title, clients)) }
        }
    }
}

fn rows(title: &str, clients: &[ClientSummary]) -> Markup {
    table::scrolling(
        title,
        html! {
            table .clients {
                caption .hidden { (title) ", with the number of refused requests" }
                (table::head([Text("Client"), Number("Refused"), Text("By the rules")]))
                tbody {
                    @for ClientSummary { client, actor, refused, rules } in clients {
                        tr {
                            th scope="row" { (text::code(client)) span .where { (text::isolated(actor)) } }
                            td .n.refusal { (number::count(*refused)) }
                            td { (text::isolated(&rules.join(", "))) }
                        }
                    }
                }
            }
        },
    )
}
