//! Finds the end of replies that arrive in pieces, without keeping the pieces.
//!
//! ```text
//!            ┌─ mark: + - : ─► Line ─ \r\n ────────────► a value has ended ─┐
//!   Start ──►├─ $ ─► Line ─ length \r\n ─► Bulk ─ all bytes, \r\n ──────────┤
//!     ▲      └─ * ─► Line ─ count \r\n ─► so many more values are due ──────┤
//!     └───────────────────────── while values are due ◄─────────────────────┘
//! ```

/// The bytes are not RESP2, or a number in them is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Scans the replies to a number of commands. It looks at each byte once and takes a fixed amount
/// of memory, however the replies are nested and cut.
///
/// ```
/// use diana_resp::{Malformed, Scanner};
///
/// let nested = b"*2\r\n*1\r\n$3\r\na\r\n\r\n*-1\r\n";
/// let mut scanner = Scanner::new(1);
/// for byte in &nested[..nested.len() - 1] {
///     assert_eq!(scanner.push(&[*byte]), Ok(None));
/// }
/// assert_eq!(scanner.push(b"\n"), Ok(Some(1)));
/// assert_eq!(Scanner::new(1).push(b"HTTP/1.1"), Err(Malformed));
/// ```
#[derive(Clone, Debug)]
pub struct Scanner {
    /// The values that have not ended.
    due: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A value begins.
    Start,
    /// Within the line of a value with this mark. `number` is what has been read of a length.
    Line { mark: u8, number: Option<u64>, is_negative: bool },
    /// The line ends with the next byte, `\n`.
    LineEnd { mark: u8, number: Option<u64>, is_negative: bool },
    /// This many bytes of a bulk string follow, without `\r\n`.
    Bulk(u64),
    /// The bulk string ends with these two bytes.
    BulkEnd { has_return: bool },
}

/// The largest length of a reply's part: what Redis permits, 512 MiB.
const MOST: u64 = 512 << 20;

impl Scanner {
    /// Expects this many replies, one for each command.
    #[must_use]
    pub fn new(replies: u32) -> Scanner {
        Scanner { due: replies.into(), state: State::Start }
    }

    /// Scans the next bytes of the connection. `Some` is how many of these bytes belong to the
    /// replies, if all replies end within them. What follows is nobody's.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut rest = bytes;
        while self.due > 0 {
            if let State::Bulk(wanted) = self.state {
                let taken = usize::try_from(wanted).unwrap_or(usize::MAX).min(rest.len());
                rest = rest.split_at_checked(taken).map(|(_, tail)| tail).unwrap_or_default();
                let wanted = wanted.saturating_sub(taken as u64);
                self.state =
                    if wanted == 0 { State::BulkEnd { has_return: false } } else { State::Bulk(wanted) };
            }
            let Some((byte, tail)) = rest.split_first() else { return Ok(None) };
            rest = tail;
            self.state = self.next(*byte)?;
        }
        Ok(Some(bytes.len().saturating_sub(rest.len())))
    }

    /// The state after a byte that is not within a bulk string.
    fn next(&mut self, byte: u8) -> Result<State, Malformed> {
        Ok(match (self.state, byte) {
            (State::Start, mark @ (b'+' | b'-' | b':' | b'$' | b'*')) => {
                State::Line { mark, number: None, is_negative: false }
            }
            (State::Line { mark, number, is_negative }, b'\r') => {
                State::LineEnd { mark, number, is_negative }
            }
            (State::Line { mark: mark @ (b'$' | b'*'), number: None, is_negative: false }, b'-') => {
                State::Line { mark, number: None, is_negative: true }
            }
            (State::Line { mark: mark @ (b'$' | b'*'), number, is_negative }, digit @ b'0'..=b'9') => {
                let digit = u64::from(digit.saturating_sub(b'0'));
                let number = number.unwrap_or(0).saturating_mul(10).saturating_add(digit);
                if number > MOST {
                    return Err(Malformed);
                }
                State::Line { mark, number: Some(number), is_negative }
            }
            (line @ State::Line { mark: b'+' | b'-' | b':', .. }, other) if other != b'\n' => line,
            (State::LineEnd { mark, number, is_negative }, b'\n') => match (mark, number, is_negative) {
                (b'$', Some(size), false) => State::Bulk(size),
                (b'*', Some(count), false) => {
                    self.due = self.due.saturating_sub(1).saturating_add(count);
                    State::Start
                }
                // Redis writes -1 for a value that is not there.
                (b'$' | b'*', Some(1), true) | (b'+' | b'-' | b':', ..) => self.value_ends(),
                _ => return Err(Malformed),
            },
            (State::BulkEnd { has_return: false }, b'\r') => State::BulkEnd { has_return: true },
            (State::BulkEnd { has_return: true }, b'\n') => self.value_ends(),
            _ => return Err(Malformed),
        })
    }

    fn value_ends(&mut self) -> State {
        self.due = self.due.saturating_sub(1);
        State::Start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A value, as Redis writes it.
    fn value() -> impl Strategy<Value = Vec<u8>> {
        let line = ("[-+:]", "[ -~]{0,9}").prop_map(|(mark, text)| format!("{mark}{text}\r\n").into_bytes());
        let bulk = vec(any::<u8>(), 0..20)
            .prop_map(|bytes| [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat());
        let none = prop::sample::select(vec![b"$-1\r\n".to_vec(), b"*-1\r\n".to_vec()]);
        prop_oneof![line, bulk, none].prop_recursive(3, 24, 4, |value| {
            vec(value, 0..4)
                .prop_map(|all| [format!("*{}\r\n", all.len()).into_bytes(), all.concat()].concat())
        })
    }

    proptest! {
        /// The end is found at the same place, however the bytes are cut and whatever follows.
        #[test]
        fn the_end_is_found(
            replies in vec(value(), 1..4),
            left_over in vec(any::<u8>(), 0..4),
            cuts in vec(1_usize..9, 1..9),
        ) {
            let end = replies.concat().len();
            let stream = [replies.concat(), left_over].concat();
            let mut scanner = Scanner::new(u32::try_from(replies.len()).unwrap());
            let (mut at, mut cuts) = (0, cuts.iter().cycle());
            let found = loop {
                let size = (*cuts.next().unwrap()).min(stream.len() - at);
                match scanner.push(&stream[at..at + size]) {
                    Ok(Some(taken)) => break at + taken,
                    Ok(None) => at += size,
                    Err(Malformed) => panic!("{stream:?}"),
                }
            };
            prop_assert_eq!(found, end);
        }

        #[test]
        fn any_bytes_are_scanned(bytes in vec(any::<u8>(), 0..60), text in "[-*$:+0-9a\r\n]{0,40}") {
            _ = Scanner::new(3).push(&bytes);
            _ = Scanner::new(3).push(text.as_bytes());
        }
    }

    #[test]
    fn what_is_no_reply_is_malformed() {
        for wrong in [
            "HTTP/1.1 200 OK\r\n",
            "\r\n",
            "%1\r\n",
            "$\r\n",
            "$x\r\n",
            "$-2\r\n",
            "*-\r\n",
            "$1\r\nxx\r\n",
            "+O\nK\r\n",
            "+OK\rx",
            "$536870913\r\n",
            "*99999999999999999999\r\n",
            "$1-\r\n",
            "$--1\r\n",
            "$3\r\nabc\n",
        ] {
            assert_eq!(Scanner::new(1).push(wrong.as_bytes()), Err(Malformed), "{wrong:?}");
        }
    }

    #[test]
    fn no_command_has_no_reply() {
        assert_eq!(Scanner::new(0).push(b"+OK\r\n"), Ok(Some(0)));
    }
}
