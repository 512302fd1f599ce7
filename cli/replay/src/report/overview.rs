//! The top of the page: what was replayed, and all requests together.

use super::table::fact;
use super::{number, text, time};
use crate::caution::cautions;
use crate::summary::Summary;
use maud::{Markup, PreEscaped, html};

/// The title, the range of the log, the links to the sections and the switch of colours.
pub fn header(summary: &Summary) -> Markup {
    let log = &summary.log;
    html! {
        header .top {
            div .title {
                p .brand { (mark()) "Diana replay" }
                h1 { (text::isolated(&summary.document)) }
                p .range {
                    (number::plural(summary.totals.requests, "request")) " of "
                    @match log.files.as_slice() {
                        [file] => (text::code(file)),
                        files => (number::plural(u64::try_from(files.len()).unwrap_or(u64::MAX), "file")),
                    }
                    ", " (time::element(Some(log.first_s))) " to " (time::element(Some(log.last_s)))
                    " UTC (" (number::span(log.last_s - log.first_s)) ")"
                }
            }
            (switch())
        }
        nav .sections aria-label="Sections" {
            ul {
                @if summary.against.is_some() { li { a href="#comparison" { "Comparison" } } }
                li { a href="#totals" { "Totals" } }
                li { a href="#traffic" { "Traffic" } }
                li { a href="#rules" { "Rules" } }
                @if !summary.clients.is_empty() { li { a href="#clients" { "Clients" } } }
                li { a href="#log" { "Log" } }
            }
        }
    }
}

/// The switch works without the script: the style looks at the chosen field.
fn switch() -> Markup {
    html! {
        fieldset .theme {
            legend .hidden { "Colours" }
            @for (value, label) in [("auto", "Auto"), ("light", "Light"), ("dark", "Dark")] {
                input type="radio" name="theme" id={ "theme-" (value) } value=(value) checked[value == "auto"];
                label for={ "theme-" (value) } { (label) }
            }
        }
    }
}

/// What makes the numbers doubtful, above all numbers.
pub fn doubts(summary: &Summary) -> Markup {
    let (cautions, ended_early) = (cautions(summary), &summary.log.ended_early);
    html! {
        @if !(cautions.is_empty() && ended_early.is_empty()) {
            section #cautions aria-labelledby="cautions-title" {
                h2 #cautions-title .hidden { "Cautions" }
                @for ended in ended_early {
                    p .caution {
                        (text::code(&ended.file)) " ended early, after line " (number::count(ended.line))
                        ": the numbers leave out the rest."
                    }
                }
                @for caution in cautions { p .caution { (text::prose(&caution)) } }
            }
        }
    }
}

/// All requests together.
pub fn totals(summary: &Summary) -> Markup {
    let totals = &summary.totals;
    let of_all = |part| html! { (number::percent(part, totals.requests)) };
    let tile = |term, part, note| fact(term, html! { (number::count(part)) }, note);
    html! {
        section #totals aria-labelledby="totals-title" {
            h2 #totals-title .hidden { "Totals" }
            dl .tiles {
                (tile("Requests", totals.requests, html! { (rate(summary)) }))
                (tile("Admitted at once", totals.admitted, of_all(totals.admitted)))
                (tile("Delayed", totals.delayed, of_all(totals.delayed)))
                div .fact.refusal {
                    dt { "Refused" }
                    dd {
                        span .value { (number::count(totals.refused)) }
                        span .note { (of_all(totals.refused)) }
                    }
                }
                @if totals.undecided > 0 {
                    (tile("Cannot be replayed", totals.undecided, of_all(totals.undecided)))
                }
                (tile("Refused in shadow", totals.shadow_refused, of_all(totals.shadow_refused)))
                (tile("Status 429 in the log", totals.logged_429, of_all(totals.logged_429)))
            }
            @if !summary.log.assumptions.is_empty() {
                p .sub {
                    "The log does not record everything that the rules read: "
                    a href="#log" { (assumptions(summary.log.assumptions.len())) }
                    "."
                }
            }
        }
    }
}

fn assumptions(count: usize) -> String {
    number::plural(u64::try_from(count).unwrap_or(u64::MAX), "assumption")
}

/// The mean rate.
fn rate(summary: &Summary) -> String {
    let length = summary.log.last_s - summary.log.first_s;
    if length.is_finite() && length > 0.0 {
        format!("{}\u{a0}per second", number::short(summary.totals.requests as f64 / length))
    } else {
        String::new()
    }
}

/// The page's logo: a bow.
fn mark() -> PreEscaped<&'static str> {
    PreEscaped(
        "<svg class=\"mark\" viewBox=\"0 0 20 20\" width=\"18\" height=\"18\" aria-hidden=\"true\">\
         <path d=\"M5 2a9.5 9.5 0 0 1 0 16M5 2v16M1 10h16M13.5 6.5 17 10l-3.5 3.5\"/></svg>",
    )
}
