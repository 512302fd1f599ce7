//! RESP2, the wire protocol of Redis, without I/O. Source:
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>.
//!
//! ```text
//!   parts ─ command ─► *2⏎ $4⏎ AUTH⏎ $6⏎ secret⏎ ─ next_command ─► parts
//!   pieces of a connection ─ Scanner ─► where the replies end
//!   all replies ─ next_reply ─► Reply
//! ```
//!
//! The filter writes commands and reads replies. The native module's bridge to Redis reads commands
//! and finds the end of their replies.
//!
//! ```
//! use diana_resp::{Reply, Scanner, command, next_reply};
//!
//! let mut call = Vec::new();
//! command(&mut call, &["AUTH", "diana", "secret"]);
//! assert_eq!(call, b"*3\r\n$4\r\nAUTH\r\n$5\r\ndiana\r\n$6\r\nsecret\r\n");
//!
//! let mut scanner = Scanner::new(2);
//! assert_eq!(scanner.push(b"+OK\r\n*1\r\n:4"), Ok(None));
//! assert_eq!(scanner.push(b"2\r\nleft over"), Ok(Some(3)), "the second reply ends here");
//!
//! let mut replies = &b"+OK\r\n*1\r\n:42\r\n"[..];
//! assert_eq!(next_reply(&mut replies), Some(Reply::Status));
//! assert_eq!(next_reply(&mut replies), Some(Reply::Numbers(vec![42])));
//! assert!(replies.is_empty());
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used))]

mod scanner;

pub use scanner::{Malformed, Scanner};

/// Appends a command: a list of parts of any bytes.
pub fn command(to: &mut Vec<u8>, parts: &[&str]) {
    begin(to, parts.len());
    parts.iter().for_each(|text| part(to, text));
}

/// Begins a command of so many [`part`]s.
pub fn begin(to: &mut Vec<u8>, parts: usize) {
    head(to, b'*', parts);
}

/// Appends a part of a command.
pub fn part(to: &mut Vec<u8>, text: &str) {
    head(to, b'$', text.len());
    to.extend_from_slice(text.as_bytes());
    to.extend_from_slice(b"\r\n");
}

fn head(to: &mut Vec<u8>, mark: u8, number: usize) {
    to.push(mark);
    to.extend_from_slice(number.to_string().as_bytes());
    to.extend_from_slice(b"\r\n");
}

/// Takes the next command off `commands`: 1 to `max_parts` parts. `None` if it is incomplete or
/// malformed. Redis' inline commands, as people type them, count as malformed.
///
/// ```
/// let mut call = &b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n*1\r\n"[..];
/// assert_eq!(diana_resp::next_command(&mut call, 9), Some(vec![&b"ECHO"[..], b"\r\n"]));
/// assert_eq!(diana_resp::next_command(&mut call, 9), None);
/// ```
pub fn next_command<'b>(commands: &mut &'b [u8], max_parts: usize) -> Option<Vec<&'b [u8]>> {
    let mut rest = *commands;
    let parts = length(line(&mut rest, b'*')?)?;
    if parts == 0 || parts > max_parts {
        return None;
    }
    // Each part takes six bytes at least, so a wrong number does not allocate much.
    let mut read = Vec::with_capacity(parts.min(rest.len() / 6));
    for _ in 0..parts {
        let size = length(line(&mut rest, b'$')?)?;
        let (text, tail) = rest.split_at_checked(size)?;
        rest = tail.strip_prefix(b"\r\n")?;
        read.push(text);
    }
    *commands = rest;
    Some(read)
}

/// A reply that Diana expects. Replies of other shapes are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'b> {
    /// A simple string, such as `OK`.
    Status,
    /// An error message.
    Error(&'b [u8]),
    /// A list of whole numbers, none of them negative.
    Numbers(Vec<u64>),
}

/// Takes the next reply off `replies`. `None` if it is cut, malformed, or of another shape.
pub fn next_reply<'b>(replies: &mut &'b [u8]) -> Option<Reply<'b>> {
    let mut rest = *replies;
    let reply = match rest.first()? {
        b'+' => line(&mut rest, b'+').map(|_| Reply::Status)?,
        b'-' => Reply::Error(line(&mut rest, b'-')?),
        _ => {
            let count = length(line(&mut rest, b'*')?)?;
            // Each number takes four bytes at least.
            let mut numbers = Vec::with_capacity(count.min(rest.len() / 4));
            for _ in 0..count {
                numbers.push(number(line(&mut rest, b':')?)?);
            }
            Reply::Numbers(numbers)
        }
    };
    *replies = rest;
    Some(reply)
}

/// Takes a line with this mark off `from`, and returns what stands between the mark and `\r\n`.
fn line<'b>(from: &mut &'b [u8], mark: u8) -> Option<&'b [u8]> {
    let text = from.strip_prefix(&[mark])?;
    let end = text.iter().position(|byte| *byte == b'\r')?;
    let (text, tail) = text.split_at_checked(end)?;
    *from = tail.strip_prefix(b"\r\n")?;
    Some(text)
}

/// Reads decimal digits without a sign.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.first() == Some(&b'+') {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn length(digits: &[u8]) -> Option<usize> {
    number(digits).and_then(|length| usize::try_from(length).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn commands_are_read_as_written(commands in vec(vec(".{0,9}", 1..5), 1..4)) {
            let mut written = Vec::new();
            for parts in &commands {
                command(&mut written, &parts.iter().map(String::as_str).collect::<Vec<_>>());
            }
            let mut rest = &written[..];
            for parts in &commands {
                let parts: Vec<_> = parts.iter().map(|text| text.as_bytes()).collect();
                prop_assert_eq!(next_command(&mut rest, 5), Some(parts));
            }
            prop_assert!(rest.is_empty());
            // No part of a command is a command.
            let mut cut = &written[..written.len() - 1];
            for _ in 1..commands.len() {
                next_command(&mut cut, 5);
            }
            prop_assert_eq!(next_command(&mut cut, 5), None);
        }

        #[test]
        fn any_bytes_are_read(bytes in "[-*$:+0-9a\r\n]{0,40}") {
            let mut rest = bytes.as_bytes();
            while next_command(&mut rest, 9).is_some() {}
            let mut rest = bytes.as_bytes();
            while next_reply(&mut rest).is_some() {}
        }
    }

    #[test]
    fn only_well_formed_commands_are_read() {
        for wrong in [
            "",
            "PING\r\n",
            "*1\r\n",
            "*0\r\n",
            "*-1\r\n",
            "*1\r\n+PING\r\n",
            "*1\r\n$-1\r\n",
            "*1\n$4\nPING\n",
            "*+1\r\n$4\r\nPING\r\n",
            "*1\r\n$3\r\nPING\r\n",
            "*1\r\n$5\r\nPING\r\n",
            "*10\r\n",
            "*99999999999999999999\r\n",
            "*1\r\n$18446744073709551615\r\nx\r\n",
            "* 1\r\n$1\r\nx\r\n",
        ] {
            let mut rest = wrong.as_bytes();
            assert_eq!(next_command(&mut rest, 9), None, "{wrong:?}");
            assert_eq!(rest, wrong.as_bytes(), "nothing is taken");
        }
    }

    #[test]
    fn only_replies_of_the_expected_shapes_are_read() {
        let reads = |text: &str| next_reply(&mut text.as_bytes()).map(|reply| format!("{reply:?}"));
        assert_eq!(
            reads("*2\r\n:0\r\n:18446744073709551615\r\n").unwrap(),
            "Numbers([0, 18446744073709551615])"
        );
        assert_eq!(next_reply(&mut &b"-ERR no\r\n"[..]), Some(Reply::Error(b"ERR no")));
        for wrong in [
            "",
            "+OK",
            "+OK\n",
            "+OK\r",
            "*1\r\n",
            "*1\r\n:1",
            "*1\r\n:-1\r\n",
            "*1\r\n+1\r\n",
            "*1\r\n$1\r\n1\r\n",
            "*1\r\n*0\r\n",
            "*-1\r\n",
            "$-1\r\n",
            ":1\r\n",
            "$2\r\nOK\r\n",
            "*1\r\n:1.0\r\n",
            "*1\r\n:\r\n",
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "*1\r\n:18446744073709551616\r\n",
        ] {
            assert_eq!(reads(wrong), None, "{wrong:?}");
        }
    }
}
