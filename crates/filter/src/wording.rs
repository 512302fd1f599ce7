//! Words that several log lines share.

use diana_document::{Error, MAX_ERRORS};

/// At most this many mistakes are logged, because a server may send any number.
pub(super) const MAX_LOGGED: usize = 100;

/// The mistakes of a configuration as one line.
pub(super) fn mistakes(errors: &[Error]) -> String {
    let logged = (1..).zip(errors).map(|(number, error)| format!("({number}) {error}"));
    let logged: Vec<String> = logged.take(MAX_LOGGED).collect();
    let more = if errors.len() > MAX_ERRORS { "more than " } else { "" };
    format!("{more}{}: {}", plural(errors.len().min(MAX_ERRORS), "mistake"), logged.join(" "))
}

/// `1 rule`, `2 rules`.
pub(super) fn plural<N: PartialEq + From<u8> + std::fmt::Display>(count: N, word: &str) -> String {
    if count == N::from(1) { format!("1 {word}") } else { format!("{count} {word}s") }
}
