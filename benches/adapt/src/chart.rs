//! Draws lines over time as SVG, with one set of colours for light pages and one for dark pages.

use std::fmt::Write;

/// One panel: a line for each controller.
pub struct Panel {
    /// The title.
    pub title: String,
    /// The highest value; higher ones are cut off.
    pub top: f64,
    /// A value to mark.
    pub mark: f64,
    /// Points of each line: seconds and value. The last line is drawn over the others.
    pub lines: Vec<Vec<(f64, f64)>>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 12.0;
const HEAD: f64 = 44.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 44.0;

const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600 }
.axis { fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 }
.slow { fill: #d0d7de; opacity: 0.45 }
.mark { stroke: #57606a; stroke-width: 1; stroke-dasharray: 4 3 }
.line { fill: none; stroke-width: 1.6 }
.l0 { stroke: #9aa4af } .l1 { stroke: #bf8700 } .l2 { stroke: #cf222e } .l3 { stroke: #2f6fde }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .axis { fill: #9198a1 }
  .grid { stroke: #3d444d }
  .slow { fill: #3d444d }
  .mark { stroke: #9198a1 }
  .l0 { stroke: #6e7681 } .l1 { stroke: #d29922 } .l2 { stroke: #ff7b72 } .l3 { stroke: #5b9bff }
}
";

/// Returns the chart as SVG. `names` are the names of the lines, `slow` is the time to shade.
pub fn svg(names: &[&str], panels: &[Panel], slow: (f64, f64), end: f64) -> String {
    let height = HEAD + panels.len() as f64 * (PANEL + GAP);
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * time / end;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"Limits over time\">\n<style>{STYLE}</style>\n"
    );
    let mut put = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    for (index, name) in names.iter().enumerate() {
        let left = LEFT + 170.0 * index as f64;
        put(format!("<path class=\"line l{index}\" d=\"M{left} 14h22\"/>"));
        put(format!("<text x=\"{}\" y=\"18\">{name}</text>", left + 28.0));
    }
    for (index, panel) in panels.iter().enumerate() {
        let top = HEAD + index as f64 * (PANEL + GAP);
        let bottom = top + PANEL;
        let y = |value: f64| bottom - PANEL * value.min(panel.top) / panel.top;
        put(format!("<text class=\"head\" x=\"{LEFT}\" y=\"{}\">{}</text>", top - 6.0, panel.title));
        let (from, to) = (x(slow.0), x(slow.1));
        put(format!(
            "<rect class=\"slow\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{PANEL}\"/>",
            to - from
        ));
        for quarter in 0..=4 {
            let value = panel.top * f64::from(quarter) / 4.0;
            put(format!("<path class=\"grid\" d=\"M{LEFT} {0:.1}H{1}\"/>", y(value), WIDTH - RIGHT));
            let (right, base) = (LEFT - 6.0, y(value) + 4.0);
            put(format!(
                "<text class=\"axis\" x=\"{right}\" y=\"{base:.1}\" text-anchor=\"end\">{value}</text>"
            ));
        }
        for step in 0..=4 {
            let time = end * f64::from(step) / 4.0;
            let anchor = if step == 4 { "end" } else { "middle" };
            put(format!(
                "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{time} s</text>",
                x(time),
                bottom + 16.0
            ));
        }
        put(format!("<path class=\"mark\" d=\"M{LEFT} {0:.1}H{1}\"/>", y(panel.mark), WIDTH - RIGHT));
        for (number, line) in panel.lines.iter().enumerate() {
            let mut path = String::new();
            for (at, (time, value)) in line.iter().enumerate() {
                let letter = if at == 0 { 'M' } else { 'L' };
                // A write to a string cannot fail.
                let _ = write!(path, "{letter}{:.1} {:.1}", x(*time), y(*value));
            }
            put(format!("<path class=\"line l{number}\" d=\"{path}\"/>"));
        }
    }
    put("</svg>".into());
    out
}
