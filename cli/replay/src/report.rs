//! The result of a replay as one page of HTML, which needs no other file and makes no request.
//!
//! The page depends on the summary alone: no clock, no random. Charts are drawn here; the page's
//! script only moves markers and copies numbers that are already in tables.

mod actors;
mod chart;
mod clients;
mod comparison;
mod head;
mod log;
mod number;
mod overview;
mod rule;
mod rules;
mod table;
mod text;
mod time;
mod traffic;
mod what_if;

use super::summary::{Summary, by_refusals};
use maud::{DOCTYPE, html};

/// The page.
///
/// ```
/// use diana_replay::{report, summary::Summary};
///
/// assert!(report::html(&Summary::default()).starts_with("<!DOCTYPE html>"));
/// ```
#[must_use]
pub fn html(summary: &Summary) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head::head(summary))
            body {
                a .skip href="#main" { "Skip to the numbers" }
                (overview::header(summary))
                main #main tabindex="-1" {
                    (overview::doubts(summary))
                    @if let Some(against) = &summary.against {
                        (comparison::section(summary, against))
                    }
                    (overview::totals(summary))
                    (traffic::section(summary))
                    (rules::section(summary))
                    (clients::section(&summary.clients))
                    @for (index, rule) in by_refusals(&summary.rules).into_iter().enumerate() {
                        (rule::section(index, rule, &summary.timeline, summary.log.last_s - summary.log.first_s))
                    }
                    (log::section(&summary.log))
                }
                footer {
                    p {
                        "Made by " code { "diana replay" } ". This page contains values from the log, such as \
                        addresses of clients. Share the page as you would share the log."
                    }
                }
                (head::script())
            }
        }
    };
    page.into_string()
}
