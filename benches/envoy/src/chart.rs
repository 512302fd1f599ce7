//! Draws horizontal bars with whiskers as SVG, with one set of colours for light pages and one for
//! dark pages.

use crate::statistics::Summary;
use std::fmt::Write;

/// One bar.
pub struct Bar {
    /// The label at the bar's left.
    pub title: String,
    /// Whether the bar belongs to Diana. Diana's bars have a colour of their own.
    pub ours: bool,
    /// The bar's length, and the ends of the bar's whiskers.
    pub value: Summary,
}

const WIDTH: f64 = 760.0;
/// The left end of the bars.
const LEFT: f64 = 250.0;
/// Room for a number at a bar's end.
const RIGHT: f64 = 60.0;
const TOP: f64 = 34.0;
const ROW: f64 = 24.0;
const THICK: f64 = 14.0;

const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600 }
.axis { fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.ours { fill: #2f6fde }
.others { fill: #9aa4af }
.whisker { stroke: #24292f; stroke-width: 1.2; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .axis { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .ours { fill: #5b9bff }
  .others { fill: #6e7681 }
  .whisker { stroke: #e6edf3 }
}
";

/// Returns the chart as SVG.
pub fn svg(title: &str, bars: &[Bar]) -> String {
    let height = TOP + ROW * bars.len() as f64 + 26.0;
    let greatest = bars.iter().map(|bar| bar.value.high.max(bar.value.median)).fold(1.0, f64::max);
    let step = step(greatest);
    let end = (greatest / step).ceil() * step;
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value.max(0.0) / end;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{0}\">\n<style>{STYLE}</style>\n\
         <text class=\"head\" x=\"{LEFT}\" y=\"18\">{0}</text>\n",
        escaped(title),
    );
    let bottom = TOP + ROW * bars.len() as f64;
    let mut put = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    for tick in 0..=(end / step).round() as u32 {
        let value = f64::from(tick) * step;
        let x = x(value);
        put(format!("<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>"));
        put(format!(
            "<text class=\"axis\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
            bottom + 17.0
        ));
    }
    for (index, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW * (index as f64 + 0.5);
        let Summary { median, low, high } = bar.value;
        let (x_low, x_high, base) = (x(low), x(high), middle + 4.0);
        put(format!(
            "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            escaped(&bar.title)
        ));
        put(format!(
            "<rect class=\"{}\" x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"{THICK}\"/>",
            if bar.ours { "ours" } else { "others" },
            middle - THICK / 2.0,
            x(median) - LEFT,
        ));
        let mut ends = String::new();
        for end in [x_low, x_high] {
            // A write to a string cannot fail.
            let _ = write!(ends, "M{end:.1} {}v6", middle - 3.0);
        }
        put(format!("<path class=\"whisker\" d=\"M{x_low:.1} {middle}H{x_high:.1}{ends}\"/>"));
        put(format!("<text x=\"{:.1}\" y=\"{base}\">{median:.1}</text>", x(high.max(median)) + 8.0));
    }
    put("</svg>".into());
    out
}

/// The distance between two marks of the axis: 1, 2 or 5 times a power of ten. The axis has at
/// most ten marks.
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
        let bar =
            Bar { title: "a < b".into(), ours: true, value: Summary { median: 1.0, low: 0.5, high: 2.0 } };
        let svg = svg("x & y", &[bar]);
        assert!(svg.contains("a &lt; b") && svg.contains("x &amp; y") && svg.ends_with("</svg>\n"));
    }
}
