//! What other quotas would refuse: the shares of the requests and of the actors, over `rpu`.

use super::scale::{Linear, Wide};
use crate::report::number;
use crate::summary::{RuleSummary, WhatIf};
use maud::{Markup, html};
use std::fmt::Write;

/// The height of the plot in pixels, without the labels of the axis.
const HEIGHT: f64 = 160.0;
/// The width of the stretched curves in their own units.
const WIDTH: f64 = 1000.0;

/// The axes of a rule's curves.
pub struct Curve<'a> {
    rule: &'a RuleSummary,
    quotas: Wide,
    /// In per cent.
    shares: Linear,
}

/// The places of a quota in the chart.
pub struct Places {
    /// Across, in per cent.
    pub x: String,
    /// The share of the refused requests, down, in pixels.
    pub requests_y: String,
    /// The share of the refused actors, down, in pixels.
    pub actors_y: String,
}

impl<'a> Curve<'a> {
    /// The curves of a rule, if it has at least two quotas to compare.
    pub fn of(rule: &'a RuleSummary) -> Option<Self> {
        let [first, .., last] = rule.what_if.as_slice() else { return None };
        let quotas = Wide::new(first.rpu.min(rule.rpu), last.rpu.max(rule.rpu));
        let shares = rule.what_if.iter().flat_map(|point| [requests(rule, point), actors(rule, point)]);
        let mut shares = Linear::new(shares.fold(0.0, f64::max));
        shares.top = shares.top.min(100.0);
        Some(Self { rule, quotas, shares })
    }

    /// The places of a quota.
    pub fn places(&self, point: &WhatIf) -> Places {
        Places {
            x: self.x(point.rpu),
            requests_y: format!("{:.1}", self.y(requests(self.rule, point))),
            actors_y: format!("{:.1}", self.y(actors(self.rule, point))),
        }
    }

    /// Draws the curves, with a marker at `chosen`.
    pub fn draw(&self, id: &str, chosen: &WhatIf) -> Markup {
        let now = self.x(self.rule.rpu);
        let Places { x, requests_y, actors_y } = self.places(chosen);
        html! {
            svg .plot.curve role="img" aria-labelledby={ (id) "-title " (id) "-text" } width="100%"
                height=(HEIGHT + 24.0) {
                title id={ (id) "-title" } { "Refused requests and actors by quota" }
                desc id={ (id) "-text" } { (self.description()) }
                @for tick in self.shares.ticks() {
                    line .grid x1="0" x2="100%" y1=(self.y(tick)) y2=(self.y(tick)) {}
                }
                line .now x1=(now) x2=(now) y1="0" y2=(HEIGHT) {}
                svg width="100%" height=(HEIGHT) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) }
                    preserveAspectRatio="none" {
                    path .requests-area d={ (self.line(requests)) (self.closing()) } {}
                    path .actors-line d=(self.line(actors)) {}
                    path .requests-line d=(self.line(requests)) {}
                }
                line .axis x1="0" x2="100%" y1=(HEIGHT) y2=(HEIGHT) {}
                @for tick in self.shares.ticks() {
                    text .label x="100%" y=(self.y(tick)) dy="11" text-anchor="end" { (number::short(tick)) "\u{a0}%" }
                }
                @for tick in self.quotas.ticks() {
                    @let place = self.quotas.place(tick);
                    text .label x=(self.x(tick)) y=(HEIGHT + 16.0) text-anchor=(anchor(place)) {
                        (number::short(tick as f64))
                    }
                }
                text .label.strong x=(now) y="-5" text-anchor=(anchor(self.quotas.place(self.rule.rpu))) { "now" }
                g .marker {
                    line x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
                    circle .actors-dot cx=(x) cy=(actors_y) r="4.5" {}
                    circle .requests-dot cx=(x) cy=(requests_y) r="5.5" {}
                }
            }
        }
    }

    fn description(&self) -> String {
        let Self { rule, .. } = self;
        let spoken = |point: &WhatIf| {
            format!(
                "A quota of {} would refuse {} of the requests and {} of the actors.",
                number::quota(point.rpu, rule.unit_s),
                number::percent(point.refused, rule.checked),
                number::percent(point.refused_actors, rule.actors)
            )
        };
        let ends = rule.what_if.first().into_iter().chain(rule.what_if.last());
        ends.map(spoken).collect::<Vec<_>>().join(" ")
    }

    fn line(&self, share: fn(&RuleSummary, &WhatIf) -> f64) -> String {
        let mut path = String::new();
        for (index, point) in self.rule.what_if.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let (x, y) = (WIDTH * self.quotas.place(point.rpu), self.y(share(self.rule, point)));
            // Writing to a `String` cannot fail.
            let _ = write!(path, "{command}{x:.1} {y:.1}");
        }
        path
    }

    /// From the end of a line along the axis to its beginning.
    fn closing(&self) -> String {
        let first = self.rule.what_if.first().map_or(0.0, |point| self.quotas.place(point.rpu));
        format!("V{HEIGHT}H{:.1}z", WIDTH * first)
    }

    fn x(&self, rpu: u64) -> String {
        format!("{:.2}%", self.quotas.place(rpu) * 100.0)
    }

    fn y(&self, share: f64) -> f64 {
        (HEIGHT * (1.0 - self.shares.place(share)) * 10.0).round() / 10.0
    }
}

fn anchor(place: f64) -> &'static str {
    match place {
        place if place < 0.03 => "start",
        place if place > 0.96 => "end",
        _ => "middle",
    }
}

fn requests(rule: &RuleSummary, point: &WhatIf) -> f64 {
    100.0 * number::share(point.refused, rule.checked)
}

fn actors(rule: &RuleSummary, point: &WhatIf) -> f64 {
    100.0 * number::share(point.refused_actors, rule.actors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> RuleSummary {
        let point = |rpu, refused, refused_actors| WhatIf { rpu, refused, refused_actors };
        let what_if = vec![point(1, 500, 10), point(10, 100, 5), point(100, 0, 0)];
        RuleSummary { rpu: 10, unit_s: 60.0, checked: 1000, actors: 10, what_if, ..RuleSummary::default() }
    }

    #[test]
    fn a_quota_stands_where_the_axes_say() {
        let rule = rule();
        let curve = Curve::of(&rule).unwrap();
        let Places { x, requests_y, actors_y } = curve.places(&rule.what_if[1]);
        // The axis of shares ends at 100 %.
        assert_eq!([&*x, &*requests_y, &*actors_y], ["50.00%", "144.0", "80.0"]);
        assert_eq!(curve.line(requests), "M0.0 80.0L500.0 144.0L1000.0 160.0");
        let words = curve.description().replace('\u{a0}', " ");
        assert!(words.ends_with("100 per minute would refuse 0 % of the requests and 0 % of the actors."));
    }

    #[test]
    fn one_quota_is_no_curve() {
        let mut rule = rule();
        rule.what_if.truncate(1);
        assert!(Curve::of(&rule).is_none());
    }
}
