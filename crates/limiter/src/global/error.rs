//! Why a call to a global store failed.

/// Why a call to a global store failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The global store does not have the script. The next call carries its text.
    NoScript,
    /// The host could not make the call.
    NotMade,
    /// No result came in time.
    TimedOut,
    /// An HTTP or gRPC status that is not a success; 0 if the connection ended before a response
    /// came.
    Status(u32),
    /// The global store's error message: printable ASCII, cut at [`CallError::LONGEST`] bytes.
    Refused(String),
    /// A stray reply: it lacks the number of the call, so the proxy answered another call.
    Stray,
    /// The reply is malformed.
    Garbage,
}

impl CallError {
    /// The longest error message of a global store that is kept, in bytes.
    pub const LONGEST: usize = 128;

    /// The error for a global store's error message.
    #[must_use]
    pub fn of(words: &str) -> CallError {
        const NO_SCRIPT: &[u8] = b"NOSCRIPT";
        // Proxies put words of their own before `NOSCRIPT`.
        match words.as_bytes().windows(NO_SCRIPT.len()).any(|part| part == NO_SCRIPT) {
            true => CallError::NoScript,
            false => CallError::Refused(
                words.chars().filter(|letter| matches!(letter, ' '..='~')).take(CallError::LONGEST).collect(),
            ),
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallError::NoScript => f.write_str("it does not keep the script"),
            CallError::NotMade => f.write_str("the gateway knows no such cluster, or no host in it"),
            CallError::TimedOut => {
                f.write_str("neither the server in this cluster nor the store behind it answered in time")
            }
            CallError::Status(0) => f.write_str("the server in this cluster hung up"),
            CallError::Status(status) => {
                write!(f, "status {status}, from the server in this cluster or from the gateway in its place")
            }
            CallError::Refused(words) => f.write_str(words),
            CallError::Stray => f.write_str("a reply to another call"),
            CallError::Garbage => f.write_str("an answer that makes no sense"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_printable_and_short() {
        assert_eq!(CallError::of("ERR a\n\u{1b}[31mé\u{7f}~"), CallError::Refused("ERR a[31m~".into()));
        assert_eq!(CallError::of(&"é".repeat(9_999)), CallError::Refused(String::new()));
        assert_eq!(CallError::of(&"x".repeat(129)), CallError::Refused("x".repeat(128)));
        assert_eq!(CallError::of("NOSCRIPT No matching script."), CallError::NoScript);
        assert_eq!(CallError::of("ERR NOSCRIPT No matching script."), CallError::NoScript);
    }
}
