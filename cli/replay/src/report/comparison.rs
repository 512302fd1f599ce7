//! The decisions of two documents about the same requests.

use super::table::Column::{Number, Text};
use super::table::fact;
use super::{clients, number, table, text};
use crate::summary::{Comparison, RuleSummary, Summary, Totals, by_refusals};
use maud::{Markup, html};

/// The comparison.
pub fn section(summary: &Summary, against: &Comparison) -> Markup {
    let either = against.both_refuse.saturating_add(against.only_first).saturating_add(against.only_other);
    let of_either =
        |part| html! { (number::percent(part, either)) " of the requests that either document refuses" };
    let part = |term, part| fact(term, html! { (number::count(part)) }, of_either(part));
    html! {
        section #comparison aria-labelledby="comparison-title" {
            h2 #comparison-title { "Comparison" }
            p .sub {
                (text::code(&summary.document)) " in place of " (text::code(&against.document)) ", about the same requests"
            }
            dl .facts {
                (part("Newly refused", against.only_first))
                (part("Newly admitted", against.only_other))
                (part("Refused by both", against.both_refuse))
            }
            @if either > 0 { (bar(against, either)) }
            @if !(against.newly_refused.is_empty() && against.newly_admitted.is_empty()) {
                div .split.even {
                    (clients::panel("Newly refused clients", &against.newly_refused))
                    (clients::panel("Newly admitted clients", &against.newly_admitted))
                }
            }
            div .split.even {
                div .panel { h3 { "Totals" } (table::scrolling("Compared totals", totals(summary, against))) }
                div .panel { h3 { "Rules" } (table::scrolling("Compared rules", rules(summary, against))) }
            }
        }
    }
}

/// Each part of the refusals as a part of the width. The facts have the same numbers.
fn bar(against: &Comparison, either: u64) -> Markup {
    let parts = [("both", against.both_refuse), ("first", against.only_first), ("other", against.only_other)];
    let mut left = 0.0;
    html! {
        svg .bar aria-hidden="true" width="100%" height="14" {
            @for (class, part) in parts {
                @let width = 100.0 * number::share(part, either);
                rect .(class) x={ (format!("{left:.2}")) "%" } y="0" width={ (format!("{width:.2}")) "%" } height="14" {}
                ({ left += width; "" })
            }
        }
        p .key aria-hidden="true" {
            @for (class, label) in [("both", "Refused by both"), ("first", "Newly refused"), ("other", "Newly admitted")] {
                span {
                    svg .bar width="12" height="12" { rect .(class) width="12" height="12" rx="2" {} }
                    (label)
                }
            }
        }
    }
}

fn totals(summary: &Summary, against: &Comparison) -> Markup {
    type Row = (&'static str, fn(&Totals) -> u64);
    let rows: [Row; 4] = [
        ("Admitted at once", |totals| totals.admitted),
        ("Delayed", |totals| totals.delayed),
        ("Refused", |totals| totals.refused),
        ("Refused in shadow", |totals| totals.shadow_refused),
    ];
    html! {
        table {
            caption .hidden { "Decisions of the two documents" }
            (table::head([Text("Decision"), Number("This"), Number("Other"), Number("Difference")]))
            tbody {
                @for (label, of) in rows {
                    @let (this, other) = (of(&summary.totals), of(&against.totals));
                    tr {
                        th scope="row" { (label) }
                        td .n { (number::count(this)) }
                        td .n { (number::count(other)) }
                        td .n { (number::difference(this, other)) }
                    }
                }
            }
        }
    }
}

/// The rules of both documents; rules of the same name share a row.
fn rules(summary: &Summary, against: &Comparison) -> Markup {
    let other = |name: &str| against.rules.iter().find(|rule| rule.name == name);
    let is_new = |rule: &&RuleSummary| summary.rules.iter().all(|one| one.name != rule.name);
    let both = by_refusals(&summary.rules)
        .into_iter()
        .map(|rule| (rule.name.as_str(), Some(rule), other(&rule.name)));
    let new = against.rules.iter().filter(is_new).map(|rule| (rule.name.as_str(), None, Some(rule)));
    let quota = |rule: Option<&RuleSummary>| match rule {
        Some(rule) => html! { (number::quota(rule.rpu, rule.unit_s)) },
        None => html! { span .none { "–" } },
    };
    let refused = |rule: Option<&RuleSummary>| match rule {
        Some(rule) => html! { (number::count(rule.enforced_refusals())) },
        None => html! { span .none { "–" } },
    };
    html! {
        table {
            caption .hidden { "Rules of the two documents" }
            (table::head([
                Text("Rule"), Text("Quota"), Text("Other quota"), Number("Refused"), Number("Other refused"),
            ]))
            tbody {
                @for (name, this, other) in both.chain(new) {
                    tr {
                        th scope="row" { (text::isolated(name)) }
                        td { (quota(this)) }
                        td { (quota(other)) }
                        td .n { (refused(this)) }
                        td .n { (refused(other)) }
                    }
                }
            }
        }
    }
}
