//! The most requests that each rule of the soak may have admitted after a time, as the
//! documentation states.

use std::collections::HashMap;
use std::time::Duration;

/// Requests that passed, by path and user.
pub type Passed = HashMap<(String, String), u64>;

/// The bounds after a time.
pub struct Bounds {
    seconds: f64,
}

impl Bounds {
    /// Since the first request.
    pub fn new(elapsed: Duration) -> Self {
        Self { seconds: elapsed.as_secs_f64() }
    }

    /// Checks that no count exceeds its bound.
    pub fn check(&self, passed: &Passed) {
        let mut of_path = HashMap::<&str, u64>::new();
        for ((path, user), count) in passed {
            *of_path.entry(path).or_default() += count;
            if let Some(most) = self.of_user(path, user) {
                assert!(*count <= most, "{path}: {count} of {user} passed, {most} may in {} s", self.seconds);
            }
        }
        for (path, count) in of_path {
            let most = match path {
                "/lb" => self.bucket(1, 50),
                "/both" => self.bucket(300, 100),
                _ => continue,
            };
            assert!(count <= most, "{path}: {count} passed, {most} may in {} s", self.seconds);
        }
    }

    fn of_user(&self, path: &str, user: &str) -> Option<u64> {
        Some(match path {
            "/tb" | "/both" if user == "steady-0" => self.bucket(1, 1),
            "/sl" if user == "steady-0" => self.seconds.floor() as u64 + 1,
            "/tb" => self.bucket(200, 20),
            // `rpu` in each unit of the clock, including the partial first and last units.
            "/w" => 200 * (self.seconds.ceil() as u64 + 1),
            // `rpu` in any span of nine tenths of 2 s.
            "/sw" => 200 * (self.seconds / 1.8).ceil() as u64,
            "/sl" => 20 * (self.seconds.floor() as u64 + 1),
            "/both" => self.bucket(40, 40),
            _ => return None,
        })
    }

    fn bucket(&self, burst: u64, per_second: u64) -> u64 {
        burst + (self.seconds * per_second as f64) as u64
    }
}
