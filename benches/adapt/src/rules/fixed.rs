//! A limit that never changes.

use super::rule::{Rule, Seen};

/// A limit that never changes.
pub struct Fixed(pub f64);

impl Rule for Fixed {
    fn limit(&self) -> f64 {
        self.0
    }

    fn step(&mut self, _: &Seen) {}
}
