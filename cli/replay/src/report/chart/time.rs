//! Numbers over time: a filled curve in steps for each series, one on top of the other.

use super::scale::Linear;
use crate::report::{number, time};
use crate::summary::Timeline;
use maud::{Markup, html};
use std::fmt::Write;

/// Numbers of one kind, one for each interval.
pub struct Series {
    /// The class, which decides the look.
    pub class: &'static str,
    /// The numbers.
    pub numbers: Vec<u64>,
}

/// A chart over the intervals of the timeline.
pub struct Chart<'a> {
    /// The beginning of the ids in the chart.
    pub id: &'a str,
    /// What the chart shows.
    pub title: &'a str,
    /// What a reader sees in the chart.
    pub description: &'a str,
    /// The height of the plot in pixels, without the labels of the axis.
    pub height: u32,
    /// From the bottom up.
    pub series: &'a [Series],
}

/// The height of the labels below a plot.
const LABELS: u32 = 22;
/// The height of a stretched curve in its own units.
const UNITS: f64 = 100.0;

impl Chart<'_> {
    /// Draws the chart.
    pub fn draw(&self, timeline: &Timeline) -> Markup {
        let Self { id, title, description, height, series } = self;
        let stacks = stacked(series);
        let most = stacks.last().and_then(|top| top.iter().copied().max()).unwrap_or_default();
        let axis = Linear::whole(most);
        let length = timeline.intervals.len().max(1);
        let end = timeline.start_s + timeline.interval_s * length as f64;
        html! {
            svg .plot role="img" aria-labelledby={ (id) "-title " (id) "-text" } width="100%"
                height=(height.saturating_add(LABELS)) {
                title id={ (id) "-title" } { (title) }
                desc id={ (id) "-text" } { (description) }
                @for tick in axis.ticks() {
                    line .grid x1="0" x2="100%" y1=(y(&axis, *height, tick)) y2=(y(&axis, *height, tick)) {}
                }
                @for tick in time::ticks(timeline.start_s, end, 9) {
                    line .grid x1=(percent(tick.place)) x2=(percent(tick.place)) y1="0" y2=(height) {}
                }
                svg width="100%" height=(height) viewBox={ "0 0 " (length) " " (UNITS) }
                    preserveAspectRatio="none" {
                    @for (index, series) in series.iter().enumerate().rev() {
                        @let below = index.checked_sub(1).and_then(|index| stacks.get(index));
                        @if let Some(above) = stacks.get(index) {
                            path .(series.class) d=(area(&axis, above, below)) {}
                        }
                    }
                }
                line .axis x1="0" x2="100%" y1=(height) y2=(height) {}
                @for tick in axis.ticks() {
                    text .label x="0" y={ (y(&axis, *height, tick)) } dy="11" { (number::short(tick)) }
                }
                (labels(timeline.start_s, end, height.saturating_add(16)))
                line .cursor x1="0" x2="0" y1="0" y2=(height) {}
            }
        }
    }
}

/// The labels of the axis of time: each begins at its instant.
fn labels(start: f64, end: f64, y: u32) -> Markup {
    html! {
        @for (index, tick) in time::ticks(start, end, 9).into_iter().enumerate() {
            @if tick.place < 0.93 {
                text .label.odd[index % 2 == 1 || tick.place > 0.8] x=(percent(tick.place)) y=(y) dx="1" { (tick.label) }
            }
        }
    }
}

/// For each series the sums with all series below.
fn stacked(series: &[Series]) -> Vec<Vec<u64>> {
    let mut stacks: Vec<Vec<u64>> = Vec::with_capacity(series.len());
    for series in series {
        let below = stacks.last().map_or(&[][..], Vec::as_slice);
        let lower = |index: usize| below.get(index).copied().unwrap_or_default();
        let sums = series.numbers.iter().enumerate().map(|(at, number)| number.saturating_add(lower(at)));
        stacks.push(sums.collect());
    }
    stacks
}

/// The outline between two curves in steps; an interval is one unit wide. Intervals in which the
/// two are the same have no outline.
fn area(axis: &Linear, above: &[u64], below: Option<&Vec<u64>>) -> String {
    let height = |number: u64| UNITS * (1.0 - axis.place(number as f64));
    let lower = |index: usize| below.and_then(|below| below.get(index)).copied().unwrap_or_default();
    let is_empty = |index: usize, number: &u64| *number == lower(index);
    let numbers: Vec<_> = above.iter().copied().enumerate().collect();
    let mut path = String::new();
    for run in numbers.chunk_by(|one, next| is_empty(one.0, &one.1) == is_empty(next.0, &next.1)) {
        let Some((first, number)) = run.first() else { continue };
        if is_empty(*first, number) {
            continue;
        }
        // Writing to a `String` cannot fail.
        let _ = write!(path, "M{first} {:.1}", height(lower(*first)));
        for (_, number) in run {
            let _ = write!(path, "V{:.1}h1", height(*number));
        }
        for (index, _) in run.iter().rev() {
            let _ = write!(path, "V{:.1}h-1", height(lower(*index)));
        }
        path.push('z');
    }
    path
}

/// A place across.
fn percent(place: f64) -> String {
    format!("{:.3}%", place * 100.0)
}

/// A place down in a plot.
fn y(axis: &Linear, height: u32, number: f64) -> String {
    format!("{:.1}", f64::from(height) * (1.0 - axis.place(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_stands_on_the_series_below() {
        let series = |numbers: [u64; 4]| Series { class: "x", numbers: numbers.to_vec() };
        let stacks = stacked(&[series([1, 0, 2, 4]), series([1, 0, 2, 0])]);
        assert_eq!(stacks, [[1, 0, 2, 4], [2, 0, 4, 4]]);
        let axis = Linear::whole(4);
        assert_eq!(
            area(&axis, &stacks[0], None),
            "M0 100.0V75.0h1V100.0h-1zM2 100.0V50.0h1V0.0h1V100.0h-1V100.0h-1z"
        );
        let above = area(&axis, &stacks[1], Some(&stacks[0]));
        assert_eq!(above, "M0 75.0V50.0h1V75.0h-1zM2 50.0V0.0h1V50.0h-1z");
    }
}
