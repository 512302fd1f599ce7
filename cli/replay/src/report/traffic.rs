//! All requests over time, and by weekday and hour.

use super::chart::heat::{self, WEEKDAYS, Week};
use super::chart::time::{Chart, Series};
use super::table::Column::{Number, Text};
use super::{number, table, time};
use crate::summary::{Hour, Interval, LogSummary, Summary, Timeline};
use maud::{Markup, html};

/// A shorter log has no rhythm of days. A daily log begins after its day does, and ends before.
const NEARLY_A_DAY_S: f64 = 0.95 * DAY_S;
const DAY_S: f64 = 86_400.0;

/// The timeline and, if the log is long enough, the heat maps.
pub fn section(summary: &Summary) -> Markup {
    let length_s = summary.log.last_s - summary.log.first_s;
    let is_short = length_s < NEARLY_A_DAY_S;
    html! {
        section #traffic aria-labelledby="traffic-title" {
            h2 #traffic-title { "Traffic" }
            div .split {
                (timeline(&summary.timeline, is_short.then_some(length_s)))
                @if !is_short { (hours(&summary.log, &summary.hours)) }
            }
        }
    }
}

/// `short_s`: the length of a log that is too short for heat maps.
fn timeline(timeline: &Timeline, short_s: Option<f64>) -> Markup {
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
            @if let Some(short_s) = short_s {
                p .sub {
                    "The log covers " (number::span(short_s)) ", less than a day: the page does not compare hours of the week."
                }
            }
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
            (table::head([Text("Start (UTC)"), Number("Requests"), Number("Refused"), Number("Delayed")]))
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
            "Most {noun} in one interval: {}, from {} UTC.",
            number::count(of(interval)),
            time::start_of_interval(
                timeline.start_s + timeline.interval_s * index as f64,
                timeline.interval_s
            )
        ),
        _ => format!("No {noun}."),
    }
}

fn hours(log: &LogSummary, hours: &[Hour]) -> Markup {
    let weekdays = weekdays(log.first_s, log.last_s);
    let names = weekdays.iter().filter_map(|weekday| WEEKDAYS.get(*weekday)).map(|name| Number(name));
    let requests = week(hours, |hour| hour.requests);
    let refusals = week(hours, |hour| hour.refused);
    html! {
        div .panel {
            h3 { "Hours of the week" }
            p .sub { "Requests by weekday and hour, UTC" }
            (heat::draw("heat-requests", "Requests by weekday and hour", "requests", &requests, &weekdays))
            p .sub { "Refusals by weekday and hour, UTC" }
            (heat::draw("heat-refusals", "Refusals by weekday and hour", "refusals", &refusals, &weekdays))
            (table::behind("Hours as a table", html! {
                table {
                    caption { "Requests and, after the stroke, refusals by weekday and hour" }
                    (table::head([Text("Hour (UTC)")].into_iter().chain(names)))
                    tbody {
                        @for hour in 0..24 {
                            tr {
                                th scope="row" { (format!("{hour:02}:00")) }
                                @for weekday in &weekdays {
                                    @let at = |week: &Week| number::count(week.get(*weekday).and_then(|day| day.get(hour)).copied().unwrap_or_default());
                                    td .n { (at(&requests)) " / " (at(&refusals)) }
                                }
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// The weekdays of a log from `first_s` to `last_s`, from Monday on. All of them if the log has six
/// midnights.
fn weekdays(first_s: f64, last_s: f64) -> Vec<usize> {
    let [first, last] = [first_s, last_s].map(|seconds| (seconds / DAY_S).floor());
    let midnights = last - first;
    let is_within = |weekday: &usize| {
        // 1970 began on a Thursday.
        let days_after_first = (*weekday as f64 - 3.0 - first).rem_euclid(7.0);
        days_after_first <= midnights
    };
    let is_part = (0.0..6.0).contains(&midnights);
    (0..WEEKDAYS.len()).filter(|weekday| !is_part || is_within(weekday)).collect()
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
    fn only_weekdays_of_the_log_have_rows() {
        const MONDAY: f64 = 1_772_409_600.0;
        let days = |first: f64, last: f64| weekdays(MONDAY + first * DAY_S, MONDAY + last * DAY_S);
        assert_eq!(days(0.0, 0.99), [0]);
        assert_eq!(days(3.5, 4.0), [3, 4]);
        // From Friday to Tuesday.
        assert_eq!(days(4.2, 8.1), [0, 1, 4, 5, 6]);
        for (first, last) in [(0.5, 6.5), (0.0, 99.0), (5.0, 1.0), (0.0, f64::NAN)] {
            assert_eq!(days(first, last).len(), 7);
        }
    }

    #[test]
    fn an_hour_that_no_week_has_is_left_out() {
        let hour = |weekday, hour| Hour { weekday, hour, requests: 7, refused: 1 };
        let week = week(&[hour(6, 23), hour(7, 0), hour(0, 24), hour(6, 23)], |hour| hour.requests);
        assert_eq!(week[6][23], 14);
        assert_eq!(week.iter().flatten().sum::<u64>(), 14);
    }
}
