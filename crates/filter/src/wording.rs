//! Words that several log lines share.

use diana_document::Error;

/// At most this many mistakes are logged, because a server may send any number.
pub(super) const MAX_LOGGED: usize = 100;

/// The mistakes of a configuration as one line.
pub(super) fn mistakes(errors: &[Error]) -> String {
    let logged = (1..).zip(errors).map(|(number, error)| format!("({number}) {error}"));
    let logged: Vec<String> = logged.take(MAX_LOGGED).collect();
    format!("{}: {}", plural(errors.len(), "mistake"), logged.join(" "))
}

/// `1 rule`, `2 rules`.
pub(super) fn plural<N: PartialEq + From<u8> + std::fmt::Display>(count: N, word: &str) -> String {
    if count == N::from(1) { format!("1 {word}") } else { format!("{count} {word}s") }
}
