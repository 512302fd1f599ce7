//! The section on the log: readable lines, unreadable lines and assumptions of the replay.

use super::table::Column::{Number, Text};
use super::table::fact;
use super::{number, table, text, time};
use crate::summary::LogSummary;
use maud::{Markup, html};

/// The section about the log.
pub fn section(log: &LogSummary) -> Markup {
    let of_all = |part| html! { (number::percent(part, log.lines)) " of the lines" };
    html! {
        section #log aria-labelledby="log-title" {
            h2 #log-title { "Log" }
            dl .facts {
                (fact("Format", text::code(&log.format), html! {}))
                (fact("Lines", html! { (number::count(log.lines)) }, html! {}))
                (fact("Unreadable lines", html! { (number::count(log.unreadable)) }, of_all(log.unreadable)))
                (fact("Logged too late", html! { (number::count(log.late)) }, html! { "decided after their starts" }))
                (fact("First request", time::element(Some(log.first_s)), html! { "UTC" }))
                (fact("Last request", time::element(Some(log.last_s)), html! { "UTC" }))
            }
            @for file in &log.unmatched {
                p { (text::code(file)) " has no line in the format " (text::code(&log.format)) "." }
            }
            @for ended in &log.ended_early {
                p {
                    (text::code(&ended.file)) " ended early, after line " (number::count(ended.line)) ": "
                    (text::prose(&ended.why))
                }
            }
            div .split.even {
                div .panel {
                    h3 { "Files" }
                    ul .plain { @for file in &log.files { li { (text::code(file)) } } }
                }
                div .panel {
                    h3 { "Assumptions" }
                    @if log.assumptions.is_empty() {
                        p { "The log has every value that the rules need." }
                    } @else {
                        ul { @for assumption in &log.assumptions { li { (text::prose(assumption)) } } }
                    }
                }
            }
            @if !log.examples.is_empty() { (unreadable(log)) }
        }
    }
}

fn unreadable(log: &LogSummary) -> Markup {
    html! {
        div .panel {
            h3 { "Unreadable lines" }
            p .sub { "The first of " (number::plural(log.unreadable, "line")) " without a request in this format" }
            (table::scrolling("Unreadable lines", html! {
                table {
                    caption .hidden { "Lines without a request" }
                    (table::head([Text("File"), Number("Line"), Text("Reason")]))
                    tbody {
                        @for example in &log.examples {
                            tr {
                                th scope="row" { (text::code(&example.file)) }
                                td .n { (number::count(example.line)) }
                                td .reason { (text::prose(&example.why)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}
