//! The charts of the benchmarks and of the swarm as SVG, with one set of colours for light pages
//! and one for dark pages. plotters writes colours into each shape, so that they could not change.
#![forbid(unsafe_code)]

use std::fmt::Display;

/// A horizontal bar with whiskers.
pub struct Bar {
    /// The label at the bar's left.
    pub title: String,
    /// Whether the bar belongs to Diana, whose bars have a colour of their own.
    pub ours: bool,
    /// The bar's length.
    pub median: f64,
    /// The ends of the whiskers.
    pub range: (f64, f64),
}

/// Draws a row for each bar.
#[must_use]
pub fn bars(title: &str, bars: &[Bar]) -> String {
    const LEFT: f64 = 250.0;
    const TOP: f64 = 34.0;
    const ROW: f64 = 24.0;
    let bottom = TOP + ROW * bars.len() as f64;
    let greatest = bars.iter().map(|bar| bar.range.1.max(bar.median)).fold(1.0, f64::max);
    let step = step(greatest);
    let end = (greatest / step).ceil() * step;
    // A number stands at each bar's end.
    let x = |value: f64| LEFT + (WIDTH - LEFT - 60.0) * value.max(0.0) / end;
    let mut svg = Svg::new(title, bottom + 26.0);
    svg.text("head", (LEFT, 18.0), "start", title);
    for mark in 0..=(end / step).round() as u32 {
        let value = f64::from(mark) * step;
        svg.path("grid", &format!("M{:.1} {TOP}V{bottom}", x(value)));
        svg.text("axis", (x(value), bottom + 17.0), "middle", value);
    }
    for (index, Bar { title, ours, median, range: (low, high) }) in bars.iter().enumerate() {
        let middle = TOP + ROW * (index as f64 + 0.5);
        let series = if *ours { 3 } else { 0 };
        svg.text("", (LEFT - 8.0, middle + 4.0), "end", title);
        svg.bar(series, (LEFT, middle - 7.0), (x(*median) - LEFT, 14.0));
        let (low, high, top) = (x(*low), x(high.max(*median)), middle - 3.0);
        svg.path("whisker", &format!("M{low:.1} {middle}H{high:.1}M{low:.1} {top}v6M{high:.1} {top}v6"));
        svg.text("", (high + 8.0, middle + 4.0), "start", format!("{median:.1}"));
    }
    svg.end()
}

/// One of several panels below each other, with values from 0.
pub struct Panel {
    pub title: String,
    /// The highest value; higher ones are cut off.
    pub top: f64,
    /// The lines of the grid above 0, and what is written at a value.
    pub grid: u32,
    pub label: fn(f64) -> f64,
    /// A value to mark.
    pub mark: Option<f64>,
    /// Points of each series: place across, and value. The last series is drawn over the others.
    pub series: Vec<Vec<(f64, f64)>>,
}

/// Draws a line for each series over seconds. `shaded` is a time.
#[must_use]
pub fn lines(names: &[&str], panels: &[Panel], shaded: (f64, f64), end: f64) -> String {
    let x = |time: f64| LEFT + ACROSS * time / end;
    let mut svg = Svg::of(names, panels.len());
    for (index, panel) in panels.iter().enumerate() {
        let y = svg.panel(index, panel);
        svg.rect("shaded", (x(shaded.0), y(panel.top)), (x(shaded.1) - x(shaded.0), PANEL));
        for step in 0..=4 {
            let time = end * f64::from(step) / 4.0;
            let anchor = if step == 4 { "end" } else { "middle" };
            svg.text("axis", (x(time), y(0.0) + 16.0), anchor, format!("{time} s"));
        }
        for (number, points) in panel.series.iter().enumerate() {
            let point = |(time, value): &(f64, f64)| format!("{:.1} {:.1}", x(*time), y(*value));
            let points: Vec<String> = points.iter().map(point).collect();
            if !points.is_empty() {
                svg.path(&format!("s{number} line"), &format!("M{}", points.join("L")));
            }
        }
    }
    svg.end()
}

/// Draws a group of bars for each of these places, in which each series has a bar.
#[must_use]
pub fn groups(names: &[&str], panels: &[Panel], places: &[String]) -> String {
    let group = ACROSS / places.len() as f64;
    let mut svg = Svg::of(names, panels.len());
    for (index, panel) in panels.iter().enumerate() {
        let y = svg.panel(index, panel);
        for (number, points) in panel.series.iter().enumerate() {
            for (place, value) in points {
                let x = LEFT + group * place + 24.0 + 32.0 * number as f64;
                svg.bar(number, (x, y(*value)), (26.0, y(0.0) - y(*value)));
            }
        }
        for (place, name) in places.iter().enumerate() {
            svg.text("axis", (LEFT + group * (place as f64 + 0.5), y(0.0) + 16.0), "middle", name);
        }
    }
    svg.end()
}

const WIDTH: f64 = 760.0;
/// The left end of panels, and their width.
const LEFT: f64 = 56.0;
const ACROSS: f64 = WIDTH - LEFT - 12.0;
/// The height of the names, of a panel, and of a panel with its title and its axis.
const HEAD: f64 = 48.0;
const PANEL: f64 = 150.0;
const PITCH: f64 = 202.0;

const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600 }
.axis { fill: #57606a }
.grid { stroke: #d0d7de }
.shaded { fill: #d0d7de; opacity: 0.45 }
.mark { stroke: #57606a; stroke-dasharray: 4 3 }
.whisker { stroke: #24292f; stroke-width: 1.2; fill: none }
.s0 { color: #9aa4af } .s1 { color: #bf8700 } .s2 { color: #cf222e } .s3 { color: #2f6fde }
.bar { fill: currentColor }
.line { stroke: currentColor; stroke-width: 1.6; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .axis { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .shaded { fill: #3d444d }
  .mark { stroke: #9198a1 }
  .whisker { stroke: #e6edf3 }
  .s0 { color: #6e7681 } .s1 { color: #d29922 } .s2 { color: #ff7b72 } .s3 { color: #5b9bff }
}
";

struct Svg(String);

impl Svg {
    fn new(label: &str, height: f64) -> Self {
        let label = escaped(label);
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\" aria-label=\"{label}\">\n<style>{STYLE}</style>\n"
        ))
    }

    /// A chart with the names of its series above so many panels.
    fn of(names: &[&str], panels: usize) -> Self {
        let mut svg = Self::new(&names.join(", "), HEAD + PITCH * panels as f64);
        for (index, name) in names.iter().enumerate() {
            let left = LEFT + 170.0 * index as f64;
            svg.bar(index, (left, 8.0), (12.0, 12.0));
            svg.text("", (left + 18.0, 18.0), "start", name);
        }
        svg
    }

    /// Draws what a panel has besides its series, and returns the height of a value.
    fn panel(&mut self, index: usize, panel: &Panel) -> impl Fn(f64) -> f64 + use<> {
        let (bottom, top) = (HEAD + PITCH * index as f64 + PANEL, panel.top);
        let y = move |value: f64| bottom - PANEL * value.min(top) / top;
        self.text("head", (LEFT, y(top) - 8.0), "start", &panel.title);
        let right = LEFT + ACROSS;
        for line in 0..=panel.grid {
            let value = top * f64::from(line) / f64::from(panel.grid);
            self.path("grid", &format!("M{LEFT} {:.1}H{right}", y(value)));
            self.text("axis", (LEFT - 6.0, y(value) + 4.0), "end", (panel.label)(value));
        }
        if let Some(value) = panel.mark {
            self.path("mark", &format!("M{LEFT} {:.1}H{right}", y(value)));
        }
        y
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: impl Display) {
        let text = escaped(&text.to_string());
        self.0 += &format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n"
        );
    }

    fn path(&mut self, class: &str, d: &str) {
        self.0 += &format!("<path class=\"{class}\" d=\"{d}\"/>\n");
    }

    fn bar(&mut self, series: usize, at: (f64, f64), size: (f64, f64)) {
        self.rect(&format!("s{series} bar"), at, size);
    }

    fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.0 += &format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>\n"
        );
    }

    fn end(self) -> String {
        self.0 + "</svg>\n"
    }
}

/// The distance between two marks of an axis with at most ten: 1, 2 or 5 times a power of ten.
fn step(greatest: f64) -> f64 {
    let rough = greatest / 10.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= rough).unwrap_or(10.0 * power)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_at_most_ten_steps() {
        assert_eq!([step(0.9), step(9.0), step(12.0), step(47.0)], [0.1, 1.0, 2.0, 5.0]);
    }

    #[test]
    fn text_is_escaped() {
        let svg = bars("x & y", &[Bar { title: "a < b".into(), ours: true, median: 1.0, range: (0.5, 2.0) }]);
        assert!(svg.contains("a &lt; b") && svg.contains("x &amp; y") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_panel_cuts_off_at_its_top() {
        let series = vec![vec![(0.0, 1.0), (10.0, 9.0)], Vec::new(), vec![(0.0, 2.0), (1.0, 3.0)]];
        let panel =
            Panel { title: "limit".into(), top: 4.0, grid: 4, label: |value| value, mark: Some(2.0), series };
        let svg = lines(&["one", "two", "three"], &[panel], (2.0, 4.0), 10.0);
        assert!(svg.contains("<path class=\"s0 line\" d=\"M56.0 160.5L748.0 48.0\"/>"), "{svg}");
        assert!(svg.contains("s2 line") && !svg.contains("s1 line"), "{svg}");
    }
}
