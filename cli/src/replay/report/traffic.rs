//! All requests over time, and by weekday and hour.

use super::chart::heat::{self, WEEKDAYS, Week};
use super::chart::time::{Chart, Series};
use super::{number, table, time};
use crate::replay::summary::{Hour, Interval, Summary, Timeline};
use maud::{Markup, html};

/// The timeline and the heat maps.
pub fn section(summary: &Summary) -> Markup {
    html! {
        section #traffic aria-labelledby="traffic-title" {
            h2 #traffic-title { "Traffic" }
            div .split {
                (timeline(&summary.timeline))
                (hours(&summary.hours))
            }
        }
    }
}

fn timeline(timeline: &Timeline) -> Markup {
    let series = |class, of: fn(&Interval) -> u64| Series {
        class,
        numbers: timeline.intervals.iter().map(of).collect(),
    };
    let length = number::span(timeline.interval_s);
    let requests = Chart {
        id: "timeline-requests",
        title: "Requests over time",
        description: &busiest(timeline, "requests", |interval| interval.requests),
        height: 130,
        series: &[series("requests", |interval| interval.requests)],
    };
    let refused = Chart {
        id: "timeline-refused",
        title: "Refused and delayed requests over time",
        description: &busiest(timeline, "refused or delayed requests", |interval| {
            interval.refused.saturating_add(interval.delayed)
        }),
        height: 90,
        series: &[
            series("refused", |interval| interval.refused),
            series("delayed", |interval| interval.delayed),
        ],
    };
    html! {
        div .panel data-cursor="" {
            div .head {
                div {
                    h3 { "Timeline" }
                    p .sub { "Requests in each interval of " (length) ", UTC" }
                }
                p .readout aria-hidden="true" { "\u{a0}" }
            }
            (key(&[("requests", "Requests")]))
            (requests.draw(timeline))
            (key(&[("refused", "Refused"), ("delayed", "Delayed")]))
            (hatch())
            (refused.draw(timeline))
            (table::behind("Timeline as a table", numbers(timeline)))
        }
    }
}

/// The legend of a chart.
fn key(entries: &[(&str, &str)]) -> Markup {
    html! {
        p .key {
            @for (class, label) in entries {
                span {
                    svg width="12" height="12" aria-hidden="true" { rect .(*class) width="12" height="12" rx="2" {} }
                    (label)
                }
            }
        }
    }
}

/// The pattern of delayed requests, which do not differ by colour alone.
fn hatch() -> Markup {
    html! {
        svg .hidden aria-hidden="true" width="0" height="0" {
            defs {
                pattern #hatch width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                    rect .hatch-ground width="5" height="5" {}
                    rect .hatch-line width="2" height="5" {}
                }
            }
        }
    }
}

fn numbers(timeline: &Timeline) -> Markup {
    html! {
        table {
            caption { "Requests by interval of " (number::span(timeline.interval_s)) }
            thead {
                tr {
                    th scope="col" { "Start (UTC)" }
                    th scope="col" .n { "Requests" }
                    th scope="col" .n { "Refused" }
                    th scope="col" .n { "Delayed" }
                }
            }
            tbody {
                @for (index, interval) in timeline.intervals.iter().enumerate() {
                    tr {
                        th scope="row" { (time::start_of_interval(timeline.start_s + timeline.interval_s * index as f64, timeline.interval_s)) }
                        td .n { (number::count(interval.requests)) }
                        td .n { (number::count(interval.refused)) }
                        td .n { (number::count(interval.delayed)) }
                    }
                }
            }
        }
    }
}

fn busiest(timeline: &Timeline, noun: &str, of: fn(&Interval) -> u64) -> String {
    // If intervals are equal, the first wins.
    let most = timeline.intervals.iter().enumerate().rev().max_by_key(|(_, interval)| of(interval));
    match most {
        Some((index, interval)) if of(interval) > 0 => format!(
            "The most {noun} in an interval are {}, from {} UTC.",
            number::count(of(interval)),
            time::start_of_interval(
                timeline.start_s + timeline.interval_s * index as f64,
                timeline.interval_s
            )
        ),
        _ => format!("There are no {noun}."),
    }
}

fn hours(hours: &[Hour]) -> Markup {
    let requests = week(hours, |hour| hour.requests);
    let refusals = week(hours, |hour| hour.refused);
    html! {
        div .panel {
            h3 { "Hours of the week" }
            p .sub { "Requests by weekday and hour, UTC" }
            (heat::draw("heat-requests", "Requests by weekday and hour", "requests", &requests))
            p .sub { "Refusals by weekday and hour, UTC" }
            (heat::draw("heat-refusals", "Refusals by weekday and hour", "refusals", &refusals))
            (table::behind("Hours as a table", html! {
                table {
                    caption { "Requests and, after the stroke, refusals by weekday and hour" }
                    thead {
                        tr {
                            th scope="col" { "Hour (UTC)" }
                            @for weekday in WEEKDAYS { th scope="col" .n { (weekday) } }
                        }
                    }
                    tbody {
                        @for hour in 0..24 {
                            tr {
                                th scope="row" { (format!("{hour:02}:00")) }
                                @for (requests, refusals) in requests.iter().zip(&refusals) {
                                    @let at = |week: &[u64; 24]| week.get(hour).copied().unwrap_or_default();
                                    td .n { (number::count(at(requests))) " / " (number::count(at(refusals))) }
                                }
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// The numbers in their places; invalid hours are left out.
fn week(hours: &[Hour], of: fn(&Hour) -> u64) -> Week {
    let mut week = Week::default();
    for hour in hours {
        let day = week.get_mut(usize::from(hour.weekday));
        if let Some(number) = day.and_then(|day| day.get_mut(usize::from(hour.hour))) {
            *number = number.saturating_add(of(hour));
        }
    }
    week
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_that_no_week_has_is_left_out() {
        let hour = |weekday, hour| Hour { weekday, hour, requests: 7, refused: 1 };
        let week = week(&[hour(6, 23), hour(7, 0), hour(0, 24), hour(6, 23)], |hour| hour.requests);
        assert_eq!(week[6][23], 14);
        assert_eq!(week.iter().flatten().sum::<u64>(), 14);
    }
}
