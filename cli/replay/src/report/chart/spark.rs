//! Sparklines: a curve the size of a word, without an axis.

use maud::{Markup, html};
use std::fmt::Write;

/// The height of a curve in its own units.
const UNITS: f64 = 30.0;

/// Bars for these numbers on an axis of `length` intervals, and what they show in words.
pub fn draw(numbers: &[u64], length: usize, words: &str) -> Markup {
    let length = length.max(numbers.len()).max(1);
    let most = numbers.iter().copied().max().unwrap_or_default().max(1) as f64;
    let mut path = String::new();
    for (index, number) in numbers.iter().enumerate().filter(|(_, number)| **number > 0) {
        // A single refusal must be visible, so the square root lifts small numbers.
        let height = UNITS * (*number as f64 / most).sqrt();
        // Writing to a `String` cannot fail.
        let _ = write!(path, "M{index} {UNITS}v-{height:.1}h1v{height:.1}z");
    }
    html! {
        svg .spark role="img" aria-label=(words) viewBox={ "0 0 " (length) " " (UNITS) }
            preserveAspectRatio="none" {
            title { (words) }
            path .base d={ "M0 " (UNITS) "H" (length) } {}
            path .refused d=(path) {}
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_number_above_nothing_has_a_bar_on_the_axis_of_the_log() {
        let drawn = super::draw(&[0, 4, 0, 1], 6, "a few").into_string();
        assert!(drawn.contains("M1 30v-30.0h1v30.0zM3 30v-15.0h1v15.0z"), "{drawn}");
        assert!(drawn.contains("viewBox=\"0 0 6 30\"") && drawn.contains("<title>a few</title>"));
    }
}
