//! The quantiles of the actors' peaks beside the quota: a dot for each, in rows of a table.

use super::scale::Wide;
use maud::{Markup, html};

/// The axis of a rule's peaks.
pub struct Peaks {
    axis: Wide,
    rpu: u64,
}

impl Peaks {
    /// An axis that shows the quota and the highest peak.
    pub fn new(rpu: u64, highest: u64) -> Self {
        // The quota is never at the end, so that its line is visible.
        Self { axis: Wide::new(1, highest.max(rpu).saturating_add(rpu.div_ceil(10))), rpu }
    }

    /// Whether equal distances are equal ratios.
    pub fn is_logarithmic(&self) -> bool {
        self.axis.is_logarithmic()
    }

    /// A row: a round dot up to the quota, a diamond above. The table has the same in words.
    pub fn draw(&self, peak: u64) -> Markup {
        let x = |number| format!("{:.2}%", 2.0 + 96.0 * self.axis.place(number));
        html! {
            svg .peak aria-hidden="true" width="100%" height="22" {
                line .grid x1="2%" x2="98%" y1="11" y2="11" {}
                line .now x1=(x(self.rpu)) x2=(x(self.rpu)) y1="0" y2="22" {}
                @if peak > self.rpu {
                    line .above x1=(x(self.rpu)) x2=(x(peak)) y1="11" y2="11" {}
                    svg .diamond x=(x(peak)) y="11" width="1" height="1" overflow="visible" {
                        path d="M-6 0L0-6L6 0L0 6z" {}
                    }
                } @else {
                    circle cx=(x(peak)) cy="11" r="4.5" {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_above_the_quota_has_another_shape() {
        let peaks = Peaks::new(100, 250);
        let drawn = |peak| peaks.draw(peak).into_string();
        assert!(drawn(101).contains("diamond") && !drawn(101).contains("circle"));
        assert!(drawn(100).contains("circle") && !drawn(100).contains("diamond"));
    }
}
