//! Parts of tables, and the boxes around them: a wide table scrolls in a box of its own, also by
//! keyboard.

use maud::{Markup, html};

/// The head of a column.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// A column of text.
    Text(&'a str),
    /// A column of numbers.
    Number(&'a str),
}

/// The row with the heads of the columns.
pub fn head<'a>(columns: impl IntoIterator<Item = Column<'a>>) -> Markup {
    html! {
        thead {
            tr {
                @for column in columns {
                    @match column {
                        Column::Text(label) => th scope="col" { (label) },
                        Column::Number(label) => th scope="col" .n { (label) },
                    }
                }
            }
        }
    }
}

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
