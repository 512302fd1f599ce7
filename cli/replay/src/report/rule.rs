//! A rule: its numbers, its refusals over time, other quotas, its actors and their peaks.

use super::chart::peaks::Peaks;
use super::chart::time::{Chart, Series};
use super::table::Column::{Number, Text};
use super::table::fact;
use super::{actors, number, rules, table, text, time, what_if};
use crate::caution::lacks_actor;
use crate::summary::{RuleSummary, Timeline};
use maud::{Markup, html};

/// The section of a rule.
pub fn section(index: usize, rule: &RuleSummary, timeline: &Timeline, log_s: f64) -> Markup {
    let id = format!("rule-{}", index.saturating_add(1));
    html! {
        section .rule #(id) aria-labelledby={ (id) "-title" } {
            header {
                h2 id={ (id) "-title" } { "Rule " (text::isolated(&rule.name)) }
                p .sub {
                    span .badge {
                        @match (rule.is_enforced, &*rule.enforce) {
                            (false, _) => "shadow",
                            (true, "" | "100%") => "enforced",
                            (true, part) => { "enforced for " (part) }
                        }
                    }
                    " " (text::code(&rule.url)) " · counts " (text::code(&rule.actor)) " · "
                    (text::code(&rule.algorithm)) " · " (text::code(&rule.place))
                }
            }
            (facts(rule))
            (what_if::panel(&id, rule, log_s))
            (refusals(&id, rule, timeline))
            div .split {
                (actors::panel(rule))
                (peaks(rule))
            }
        }
    }
}

fn facts(rule: &RuleSummary) -> Markup {
    let of_checked = |part| html! { (number::percent(part, rule.checked)) };
    let enforced = rule.enforced_refusals();
    if lacks_actor(rule) {
        return html! {
            p { strong {
                "Cannot be replayed: " (number::plural(rule.checked, "request")) " lack the actor "
                (text::code(&rule.actor)) "."
            } }
        };
    }
    let actors = html! { "of " (number::plural(rule.actors, "actor")) };
    let longest = html! { "at most " (number::span(rule.longest_delay_s)) };
    html! {
        dl .facts {
            (fact("Quota", html! { (number::count(rule.rpu)) }, html! { (number::unit(rule.unit_s)) }))
            (fact("Checked", html! { (number::count(rule.checked)) }, html! {}))
            @if rule.is_enforced {
                div .fact.refusal[enforced > 0] {
                    dt { "Refused" }
                    dd { span .value { (number::count(enforced)) } span .note { (of_checked(enforced)) } }
                }
            }
            @if !rule.is_enforced || rule.shadow_refused > 0 {
                (fact("Refused in shadow", html! { (number::count(rule.shadow_refused)) }, of_checked(rule.shadow_refused)))
            }
            (fact("Refused actors", html! { (number::count(rule.refused_actors)) }, actors))
            @if rule.delayed > 0 {
                (fact("Delayed", html! { (number::count(rule.delayed)) }, longest))
            }
            (fact("First refusal", time::element(rule.first_refusal_s), html! {}))
            (fact("Last refusal", time::element(rule.last_refusal_s), html! {}))
        }
    }
}

fn refusals(id: &str, rule: &RuleSummary, timeline: &Timeline) -> Markup {
    if lacks_actor(rule) || rule.refusals.iter().all(|number| *number == 0) {
        return html! {};
    }
    let chart = Chart {
        id: &format!("{id}-refusals"),
        title: "Refusals over time",
        description: &rules::words(rule, timeline),
        height: 100,
        series: &[Series { class: "refused", numbers: rule.refusals.clone() }],
    };
    html! {
        div .panel {
            h3 { "Refusals over time" }
            p .sub { "Refusals in each interval of " (number::span(timeline.interval_s)) ", UTC" }
            (chart.draw(timeline))
            (table::behind("Refusals as a table", html! {
                table {
                    caption { "Intervals with refusals" }
                    (table::head([Text("Start (UTC)"), Number("Refused")]))
                    tbody {
                        @for (index, number) in rule.refusals.iter().enumerate().filter(|(_, number)| **number > 0) {
                            tr {
                                th scope="row" {
                                    (time::start_of_interval(timeline.start_s + timeline.interval_s * index as f64, timeline.interval_s))
                                }
                                td .n { (number::count(*number)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}

fn peaks(rule: &RuleSummary) -> Markup {
    if rule.peaks.is_empty() {
        return html! {};
    }
    let highest = rule.peaks.iter().map(|quantile| quantile.peak).max().unwrap_or_default();
    let peaks = Peaks::new(rule.rpu, rule.burst, highest);
    let beside = match peaks.is_logarithmic() {
        true => "Beside the quota (logarithmic)",
        false => "Beside the quota",
    };
    let within = if rule.unit_s == 0.0 {
        "in flight at once".to_owned()
    } else {
        format!("within {}", number::span(rule.unit_s))
    };
    html! {
        div .panel {
            h3 { "Peaks of the actors" }
            p .sub { "The most requests that an actor has " (within) }
            table .peaks {
                caption .hidden { "Quantiles of the peaks" }
                (table::head([Text("Actors"), Number("Peak up to"), Text(beside)]))
                tbody {
                    @for quantile in &rule.peaks {
                        tr {
                            th scope="row" { (number::quantile(quantile.share)) }
                            td .n { (number::count(quantile.peak)) }
                            td {
                                (peaks.draw(quantile.peak))
                                span .hidden { (peaks.words(quantile.peak)) }
                            }
                        }
                    }
                }
            }
            p .sub { (peaks_key(rule)) }
        }
    }
}

/// What the lines and the shapes in the chart of peaks mean.
fn peaks_key(rule: &RuleSummary) -> Markup {
    let quota = number::quota(rule.rpu, rule.unit_s);
    html! {
        @match rule.burst {
            Some(burst) => {
                "The line is the quota, " (quota) ". The dotted line adds the burst of " (number::count(burst))
                ": the bucket admits no more within one unit. A ring is between the lines: the bucket admits \
                all of these requests only if they come slowly enough. A diamond is above both lines."
                @if burst < rule.rpu {
                    " The bucket never admits more than " (number::count(burst)) " requests at once."
                }
            }
            None => { "The line is the quota, " (quota) ". A diamond is above the quota." }
        }
    }
}
