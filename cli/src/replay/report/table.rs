//! Boxes around tables: a wide table scrolls in a box of its own, also by keyboard.

use maud::{Markup, html};

/// A box in which a table scrolls; `label` names the box for screen readers.
pub fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div .scroll role="group" aria-label=(label) tabindex="0" { (table) } }
}

/// A table that repeats a chart, folded away.
pub fn behind(summary: &str, table: Markup) -> Markup {
    html! {
        details .numbers {
            summary { (summary) }
            (scrolling(summary, table))
        }
    }
}

/// A term and its value in a list of facts.
pub fn fact(term: &str, value: Markup, note: Markup) -> Markup {
    html! {
        div .fact {
            dt { (term) }
            dd { span .value { (value) } @if !note.0.is_empty() { span .note { (note) } } }
        }
    }
}
