//! How many requests a document newly refuses in a comparison, and whether these are too many.

/// How the new document does in a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanaryStats {
    /// The number of requests that the other document admits.
    pub seen: u64,
    /// How many of these requests the new document refuses, less the requests of the same actor
    /// that it alone admits.
    pub refused: u64,
}

impl CanaryStats {
    /// Whether more than `percent` of the requests were refused.
    #[must_use]
    pub fn exceeds(self, percent: u32) -> bool {
        self.excess(percent) > 0
    }

    /// Whether the excess over `percent` is more than three standard deviations of a binomial
    /// distribution with that share. The watch checks many times, so by chance alone some check
    /// would exceed the share.
    ///
    /// ```
    /// use diana_remote_config::CanaryStats;
    ///
    /// let stats = CanaryStats { seen: 100, refused: 11 };
    /// assert!(stats.exceeds(5));
    /// assert!(!stats.exceeds_clearly(5), "may be chance");
    /// assert!(CanaryStats { seen: 100, refused: 12 }.exceeds_clearly(5));
    /// ```
    #[must_use]
    pub fn exceeds_clearly(self, percent: u32) -> bool {
        let (excess, percent) = (self.excess(percent), i128::from(percent));
        let variance =
            i128::from(self.seen).saturating_mul(percent).saturating_mul(100i128.saturating_sub(percent));
        excess > 0 && excess.saturating_mul(excess) > variance.saturating_mul(9)
    }

    /// The excess over `percent`, in hundredths of requests.
    fn excess(self, percent: u32) -> i128 {
        let most = i128::from(self.seen).saturating_mul(percent.into());
        i128::from(self.refused).saturating_mul(100).saturating_sub(most)
    }
}
