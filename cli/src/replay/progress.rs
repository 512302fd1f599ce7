//! The progress of a replay, on a terminal only.

use diana_replay::number::{count, plural};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// A bar on standard error, or nothing if standard error is not a terminal.
#[derive(Debug)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// A bar for `total` bytes, or for an unknown number of bytes.
    #[must_use]
    pub fn new(total: Option<u64>) -> Bar {
        Bar(stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
            let form = match total {
                Some(_) => "{wide_bar} {bytes} of {total_bytes}, {msg}, {eta} left",
                None => "{spinner} {bytes}, {msg}",
            };
            // The template is constant; a mistake in it would show the default bar.
            bar.set_style(
                ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        }))
    }

    /// Shows how many bytes have been read, and how many requests have been decided.
    pub fn show(&self, bytes: u64, requests: u64) {
        let Some(bar) = &self.0 else { return };
        bar.set_position(bytes);
        let per_second = requests as f64 / bar.elapsed().as_secs_f64().max(0.001);
        bar.set_message(format!("{}, {}/s", plural(requests, "request"), count(per_second as u64)));
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}
