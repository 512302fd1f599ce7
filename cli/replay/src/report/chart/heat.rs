//! Numbers by weekday and hour: a cell for each hour of some weekdays, darker for higher numbers.

use crate::report::number;
use maud::{Markup, html};

/// The names of the weekdays, as `Hour::weekday` counts them.
pub const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// Numbers for each hour of the week.
pub type Week = [[u64; 24]; 7];

/// The shades above nothing.
const SHADES: u64 = 6;
/// The height of a cell in pixels.
const FIELD: u32 = 15;
/// The part of the width that the names of the weekdays take.
const NAMES: f64 = 9.0;
const HOUR: f64 = (100.0 - NAMES) / 24.0;

/// Draws the cells of these weekdays. `noun` says what is counted, and is also the class.
pub fn draw(id: &str, title: &str, noun: &str, week: &Week, weekdays: &[usize]) -> Markup {
    let most = week.iter().flatten().copied().max().unwrap_or_default();
    let down = |row: usize| u32::try_from(row).unwrap_or_default().saturating_mul(FIELD);
    let rows = weekdays.iter().filter_map(|weekday| Some((*WEEKDAYS.get(*weekday)?, week.get(*weekday)?)));
    let x = |hour: usize| format!("{:.3}%", NAMES + HOUR * hour as f64);
    html! {
        svg .plot.heat.(noun) role="img" aria-labelledby={ (id) "-title " (id) "-text" } width="100%"
            height=(down(weekdays.len()).saturating_add(20)) {
            title id={ (id) "-title" } { (title) }
            desc id={ (id) "-text" } { (description(noun, week)) }
            @for (row, (weekday, hours)) in rows.enumerate() {
                text .label x="0" y=(down(row).saturating_add(11)) { (weekday) }
                @for (hour, count) in hours.iter().enumerate() {
                    rect .{ "shade-" (shade(*count, most)) } x=(x(hour)) y=(down(row))
                        width={ (format!("{HOUR:.3}")) "%" } height=(FIELD) rx="2" {
                        title { (weekday) " " (format!("{hour:02}")) ":00, " (number::count(*count)) " " (noun) }
                    }
                }
            }
            @for hour in [0, 6, 12, 18] {
                text .label x=(x(hour)) y=(down(weekdays.len()).saturating_add(15)) { (format!("{hour:02}:00")) }
            }
        }
        p .legend aria-hidden="true" {
            span { "0" }
            svg .{ "scale " (noun) } width="98" height="10" {
                @for shade in 0..=SHADES {
                    rect .{ "shade-" (shade) } x=(shade.saturating_mul(14)) y="0" width="13" height="10" rx="2" {}
                }
            }
            span { (number::count(most)) " " (noun) " an hour" }
        }
    }
}

fn description(noun: &str, week: &Week) -> String {
    let hours = WEEKDAYS.iter().zip(week).flat_map(|(weekday, hours)| {
        hours.iter().enumerate().map(move |(hour, count)| (*count, *weekday, hour))
    });
    // If hours are equal, the first wins.
    match hours.rev().max_by_key(|(count, ..)| *count) {
        Some((count, weekday, hour)) if count > 0 => {
            format!(
                "Most {noun} in one hour of the week: {}, from {weekday} {hour:02}:00 UTC.",
                number::count(count)
            )
        }
        _ => format!("No {noun}."),
    }
}

/// From 0, for a count of 0 only, to `SHADES`. The square root makes small numbers visible.
fn shade(count: u64, most: u64) -> u64 {
    if count == 0 || most == 0 {
        return 0;
    }
    ((number::share(count, most).sqrt() * SHADES as f64).ceil() as u64).clamp(1, SHADES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nothing_has_no_shade() {
        let shades = [(0, 9), (1, 1_000_000), (25, 100), (26, 100), (100, 100), (0, 0)];
        assert_eq!(shades.map(|(count, most)| shade(count, most)), [0, 1, 3, 4, 6, 0]);
    }

    #[test]
    fn the_description_names_the_first_of_the_busiest_hours() {
        let mut week = Week::default();
        assert_eq!(description("refusals", &week), "No refusals.");
        week[2][14] = 1200;
        week[5][1] = 1200;
        let expected = "Most refusals in one hour of the week: 1,200, from Wed 14:00 UTC.";
        assert_eq!(description("refusals", &week), expected);
    }
}
