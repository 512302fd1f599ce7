//! The quantiles of the actors' peaks beside the quota: a mark for each, in rows of a table.

use super::scale::Wide;
use maud::{Markup, html};

/// The axis of a rule's peaks.
pub struct Peaks {
    axis: Wide,
    rpu: u64,
    /// The most requests that the rule admits within a unit: a full token bucket, and its refill.
    most: u64,
}

/// Where a peak is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Within,
    /// Above the quota, within what a burst permits.
    Burst,
    Above,
}

impl Peaks {
    /// An axis that shows the quota, the burst and the highest peak.
    pub fn new(rpu: u64, burst: Option<u64>, highest: u64) -> Self {
        let most = rpu.saturating_add(burst.unwrap_or(0));
        // The lines are never at the end, so that they are visible.
        let axis = Wide::new(1, highest.max(most).saturating_add(rpu.div_ceil(10)));
        Self { axis, rpu, most }
    }

    /// Whether equal distances are equal ratios.
    pub fn is_logarithmic(&self) -> bool {
        self.axis.is_logarithmic()
    }

    /// A row: a dot within the quota, a ring within the burst, a diamond above. The table has the
    /// same in [`words`](Self::words).
    pub fn draw(&self, peak: u64) -> Markup {
        let x = |number| format!("{:.2}%", 2.0 + 96.0 * self.axis.place(number));
        html! {
            svg .peak aria-hidden="true" width="100%" height="22" {
                line .grid x1="2%" x2="98%" y1="11" y2="11" {}
                line .now x1=(x(self.rpu)) x2=(x(self.rpu)) y1="0" y2="22" {}
                @if self.most > self.rpu {
                    line .most x1=(x(self.most)) x2=(x(self.most)) y1="0" y2="22" {}
                }
                @match self.place(peak) {
                    Place::Within => circle cx=(x(peak)) cy="11" r="4.5" {},
                    Place::Burst => circle .ring cx=(x(peak)) cy="11" r="4.5" {},
                    Place::Above => {
                        line .above x1=(x(self.most)) x2=(x(peak)) y1="11" y2="11" {}
                        svg .diamond x=(x(peak)) y="11" width="1" height="1" overflow="visible" {
                            path d="M-6 0L0-6L6 0L0 6z" {}
                        }
                    }
                }
            }
        }
    }

    /// What the mark of a peak means.
    pub fn words(&self, peak: u64) -> &'static str {
        match self.place(peak) {
            Place::Within => "within the quota",
            Place::Burst => "above the quota, within the burst",
            Place::Above if self.most > self.rpu => "above the quota and the burst",
            Place::Above => "above the quota",
        }
    }

    fn place(&self, peak: u64) -> Place {
        match peak {
            peak if peak <= self.rpu => Place::Within,
            peak if peak <= self.most => Place::Burst,
            _ => Place::Above,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_above_the_quota_has_another_shape() {
        let peaks = Peaks::new(100, None, 250);
        let drawn = |peak| peaks.draw(peak).into_string();
        assert!(drawn(101).contains("diamond") && !drawn(101).contains("circle"));
        assert!(drawn(100).contains("circle") && !drawn(100).contains("diamond"));
        assert!(!drawn(100).contains("most"));
        assert_eq!([100, 101].map(|peak| peaks.words(peak)), ["within the quota", "above the quota"]);
    }

    #[test]
    fn a_burst_may_admit_a_peak_above_the_quota() {
        let peaks = Peaks::new(100, Some(40), 250);
        let drawn = |peak| peaks.draw(peak).into_string();
        assert!(
            drawn(140).contains("ring") && drawn(141).contains("diamond") && !drawn(100).contains("ring")
        );
        assert!(drawn(100).contains("most"));
        assert_eq!(
            [100, 101, 140, 141].map(|peak| peaks.words(peak)),
            [
                "within the quota",
                "above the quota, within the burst",
                "above the quota, within the burst",
                "above the quota and the burst"
            ]
        );
    }
}
