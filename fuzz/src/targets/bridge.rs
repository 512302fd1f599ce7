//! Calls through the native module's bridge to Redis, by the functions that Envoy calls.
//!
//! ```text
//!   a byte: whether the bridge logs in, whether Envoy forgets it while it answers
//!   a byte: how many commands, then each: a byte for its kind, and what the kind needs
//!   a byte: how many replies, then each: the same
//!   the rest: the sizes of pieces
//! ```

use super::input::Input;
use super::native_module::envoy::bridges::{Cluster, Outcome};
use super::native_module::envoy::{check, run as with_envoy};
use diana_global_redis::script;
use diana_resp::{command, next_command};

const LOGIN: &[u8] = b"*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n";

/// The most commands in a call.
const MAX_COMMANDS: usize = 16;

/// Only whole and permitted commands reach Redis, and only whole replies to each are an answer with
/// the status 200, however both are cut.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (logs_in, forgets) = (input.flag(), input.flag());
    let mut request = Vec::new();
    for _ in 0..input.below(MAX_COMMANDS + 2) {
        add_command(&mut request, &mut input);
    }
    let mut replies = Vec::new();
    for _ in 0..input.below(MAX_COMMANDS + 3) {
        add_reply(&mut replies, &mut input);
    }
    let sizes = if input.is_empty() { b"\x01" } else { input.0 };
    with_envoy(|| {
        let document = if logs_in { r#"{"password": "pw"}"# } else { "" };
        let cluster = Cluster::new("redis", document).expect("a configuration");
        let whole = play(&cluster, &request, &replies, None, forgets);
        let cut = play(&cluster, &request, &replies, Some(sizes), forgets);
        drop(cluster);
        check("a call");

        let Some(commands) = commands(&request) else {
            assert!(whole.sent.is_empty() && !whole.hangs_up);
            assert_eq!(whole.answer.as_ref().map(|answer| answer.0), Some(403));
            assert_eq!(cut, whole);
            return;
        };
        let login = if logs_in { LOGIN } else { b"" };
        assert_eq!(whole.sent, [login, &request].concat());
        assert_eq!(cut.sent, whole.sent);
        let Some(end) = end_of(&replies, commands + usize::from(logs_in)) else {
            // No whole replies, which the bridge names only if the server speaks HTTP.
            let status = replies.starts_with(b"H").then_some(502);
            assert_eq!([whole, cut].map(|outcome| outcome.answer.map(|(status, _)| status)), [status; 2]);
            return;
        };
        let answer = answer(&replies[..end], commands, logs_in);
        if end == replies.len() {
            assert_eq!(whole.hangs_up, answer.is_none());
            assert_eq!(whole.answer, answer);
            assert_eq!(cut, whole);
        } else {
            assert_eq!((whole.answer, whole.hangs_up), (None, true), "bytes are left over");
            // The bridge may have answered before they arrived.
            assert!(cut.hangs_up);
            assert!(cut.answer.is_none() || cut.answer == answer);
        }
    });
}

/// Plays a call in pieces of these sizes, or in one.
fn play(cluster: &Cluster, request: &[u8], replies: &[u8], sizes: Option<&[u8]>, forgets: bool) -> Outcome {
    let pieces = |bytes: &[u8]| {
        let mut sizes = sizes.unwrap_or_default().iter().cycle();
        let (mut rest, mut pieces) = (bytes, Vec::new());
        while !rest.is_empty() {
            let size = sizes.next().map_or(rest.len(), |size| usize::from(*size) * usize::from(*size) + 1);
            // The script in pieces of one byte would take a second.
            let size = size.max(bytes.len() / 500);
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            rest = tail;
            pieces.push(piece.to_vec());
        }
        pieces
    };
    let call = cluster.call();
    // The remaining bytes of the connection are of interest, so Envoy still knows the bridge.
    if forgets && sizes.is_none() {
        call.ends_with_answer();
    }
    call.headers(false);
    for piece in pieces(request) {
        // An event may have several chunks.
        let (front, back) = piece.split_at(piece.len() / 2);
        call.request(&[front, back], false);
    }
    call.trailers();
    if call.outcome().answer.is_none() {
        pieces(replies).iter().for_each(|piece| call.reply(&[piece], false));
    }
    call.outcome()
}

fn add_command(to: &mut Vec<u8>, input: &mut Input) {
    match input.below(14) {
        0 => command(to, &["EVALSHA", script::SHA1, "1", "diana:{0}:probe", "8"]),
        1 => command(to, &["eval", script::SCRIPT, "0"]),
        2 => command(to, &["AUTH", "user", "pw"]),
        3 => command(to, &["Auth", "pw"]),
        4 => command(to, &["PING"]),
        5 => command(to, &["HELLO", "2"]),
        6 => command(to, &["SELECT", "1"]),
        7 => command(to, &["FLUSHALL"]),
        8 => command(to, &["EVAL", "return 1", "0"]),
        9 => command(to, &["HELLO", "3"]),
        10 => command(to, &["EVALSHA"]),
        11 => command(to, &[]),
        12 => to.truncate(to.len() - input.below(8).min(to.len())),
        _ => {
            let count = input.below(12);
            to.extend_from_slice(input.bytes(count));
        }
    }
}

fn add_reply(to: &mut Vec<u8>, input: &mut Input) {
    match input.below(11) {
        0 => to.extend_from_slice(b"+OK\r\n"),
        1 => to.extend_from_slice(b"-ERR no\r\n"),
        2 => to.extend_from_slice(b"*3\r\n:8\r\n:0\r\n:18446744073709551615\r\n"),
        3 => to.extend_from_slice(b"$-1\r\n"),
        4 => to.extend_from_slice(b"*-1\r\n"),
        5 => to.extend_from_slice(b"$5\r\n\r\n+x\r\r\n"),
        6 => to.extend_from_slice(b"*2\r\n*1\r\n:1\r\n*0\r\n"),
        7 => to.extend_from_slice(b"*1\r\n"),
        8 => to.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        9 => to.truncate(to.len() - input.below(8).min(to.len())),
        _ => {
            let count = input.below(12);
            to.extend_from_slice(input.bytes(count));
        }
    }
}

/// How many commands there are, if all are whole and permitted.
fn commands(mut request: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !request.is_empty() {
        let parts = next_command(&mut request, usize::MAX)?;
        let name = parts[0].to_ascii_uppercase();
        let permitted = match &name[..] {
            b"EVALSHA" => parts.get(1) == Some(&script::SHA1.as_bytes()),
            b"EVAL" => parts.get(1) == Some(&script::SCRIPT.as_bytes()),
            b"AUTH" => (2..=3).contains(&parts.len()),
            b"HELLO" => parts.get(1).is_none_or(|version| *version == b"2"),
            b"PING" => parts.len() == 1,
            _ => false,
        };
        count += 1;
        if !permitted || count > MAX_COMMANDS {
            return None;
        }
    }
    (count > 0).then_some(count)
}

/// Where so many replies end, if they are whole.
fn end_of(replies: &[u8], count: usize) -> Option<usize> {
    let mut rest = replies;
    for _ in 0..count {
        rest = without_value(rest)?;
    }
    Some(replies.len() - rest.len())
}

/// What follows the first value.
fn without_value(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| b"\r\n".contains(byte))?;
    let (line, rest) = bytes.split_at(end);
    let mut rest = rest.strip_prefix(b"\r\n")?;
    let (mark, text) = line.split_first()?;
    let number = || {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let number = str::from_utf8(digits).ok()?.parse::<u64>().ok();
        number.filter(|number| digits[0] != b'+' && *number <= 512 << 20)
    };
    let is_none = text.starts_with(b"-");
    match mark {
        b'+' | b'-' | b':' => Some(rest),
        b'$' | b'*' if is_none => (number()? == 1).then_some(rest),
        b'$' => rest.split_at_checked(number()? as usize)?.1.strip_prefix(b"\r\n"),
        b'*' => {
            for _ in 0..number()? {
                rest = without_value(rest)?;
            }
            Some(rest)
        }
        _ => None,
    }
}

/// The answer for these replies; `None` if the reply to the login is none.
fn answer(replies: &[u8], commands: usize, logs_in: bool) -> Option<(u32, Vec<u8>)> {
    let body = match (logs_in, replies.first()) {
        (false, _) => replies.to_vec(),
        (true, Some(b'+')) => without_value(replies)?.to_vec(),
        (true, Some(b'-')) => {
            let refusal = &replies[..replies.len() - without_value(replies)?.len()];
            refusal.repeat(commands)
        }
        _ => return None,
    };
    Some((200, body))
}
