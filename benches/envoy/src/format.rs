//! Formats numbers for tables and for JSON.

use crate::statistics::Summary;
use serde_json::{Value, json};

/// Returns a summary of quartiles as JSON.
pub fn summary(summary: Summary) -> Value {
    let three = |number: f64| (number * 1e3).round() / 1e3;
    let Summary { median, low, high } = summary;
    json!({"median": three(median), "lower_quartile": three(low), "upper_quartile": three(high)})
}

/// Formats a summary as `4.6 (4.4–5.1)`.
pub fn range(summary: Summary, digits: usize) -> String {
    let Summary { median, low, high } = summary;
    format!("{median:.digits$} ({low:.digits$}–{high:.digits$})")
}

/// Formats a number as `100,000`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_groups() {
        assert_eq!(["7", "100", "100,000", "1,000,000"], [7, 100, 100_000, 1_000_000].map(thousands)[..]);
    }
}
