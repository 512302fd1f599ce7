//! The bridge between one HTTP call and a connection to Redis, without I/O: Envoy's upstream
//! extension passes events in and carries out the actions returned. A connection whose replies may
//! not have ended must not be used again, so the bridge hangs up on it.
//!
//! ```text
//!   Request ── whole and permitted: send ──► Reply ── all replies, nothing left over: answer ──► Done
//!      │                                       └─ the server cannot be the store: refuse ─────────▲
//!      ├─ too long, not permitted: answer ────────────────────────────────────────────────────────┤
//!      └─ bytes of nobody ──► hang up ──► Done ◄── hang up ── cut, left over, malformed ── Reply ─┘
//! ```
//!
//! If the server speaks HTTP, the bridge answers so, and the filter logs that no Redis is there.

use diana_base::format;
use diana_config::fill_in;
use diana_document::{Errors, Node, Value, parse};
use diana_global_redis::{Login, log_in, script};
use diana_limiter::global::{CallError, MAX_REPLY_BYTES};
use diana_resp::{Reply, Scanner, next_command, next_reply};
use sha1::{Digest, Sha1};
use std::sync::Arc;
use std::{env, fs};

/// The longest request in bytes: the script's text, and 256 queries with some kilobytes each.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// The most commands in a request. The filter sends at most five.
const MAX_COMMANDS: usize = 16;

/// The most parts of a command.
const MAX_PARTS: usize = 1 << 16;

/// The SHA-1 of the scripts of the last two releases with a bridge. The module is upgraded first,
/// so filters of these releases call Redis through this bridge.
const EARLIER: [&str; 1] = ["46c71e29f2ece4ea17b352f23f58d5078b184127"]; // 0.2.0

/// What the configuration of a cluster says about its Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Who calls Redis, if the calls do not say so themselves.
    pub login: Option<Arc<Login>>,
}

impl Options {
    /// Reads a bridge's configuration: empty, or an object with `user` and `password`, or with
    /// `password_file` in place of `password`. The password may be a variable, `{env: NAME}`. The
    /// file is read once, without the line break at its end. Errors never show the password.
    pub fn read(document: &[u8]) -> Result<Options, String> {
        if document.trim_ascii().is_empty() {
            return Ok(Options::default());
        }
        let mut value = parse(document).map_err(|error| error.to_string())?;
        fill_in(&mut value, |name| env::var(name).ok()).map_err(|error| error.to_string())?;
        let errors = Errors::default();
        let login = login(&Node::root(&value, &errors));
        match (login, &errors.into_vec()[..]) {
            (Some(login), []) => Ok(Options { login: login.map(Arc::new) }),
            (_, [first, ..]) => Err(first.to_string()),
            (None, []) => Err("it is not understood".into()),
        }
    }
}

/// The login in a bridge's configuration. Reports each mistake at its place and then returns
/// `None`.
fn login(node: &Node) -> Option<Option<Login>> {
    let mut fields = node.fields()?;
    let (user, password, file) = (fields.take("user"), fields.take("password"), fields.take("password_file"));
    fields.finish();
    let read = match (&password, &file) {
        (Some(_), Some(file)) => {
            file.fail("`password` is given already: leave one of them out");
            return None;
        }
        (Some(password), None) => match password.value() {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        },
        (None, Some(file)) => {
            let path = file.text()?;
            match fs::read_to_string(path) {
                Ok(text) => Some(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(error) => {
                    file.fail(format!("the file cannot be read: {error}"));
                    return None;
                }
            }
        }
        (None, None) => {
            if let Some(user) = user {
                user.fail("it needs a `password` or a `password_file`");
                return None;
            }
            return Some(None);
        }
    };
    let Some(read) = read.filter(|text| !text.is_empty()) else {
        // The error omits the value found, because mistakes are logged.
        let node = password.as_ref().or(file.as_ref()).unwrap_or(node);
        node.fail("expected the password of a user of Redis, as text that is not empty");
        return None;
    };
    let user = match user {
        Some(node) => Some(node.text()?.to_owned()),
        None => None,
    };
    Some(Some(Login { user, password: read }))
}

/// What Envoy shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Action {
    /// Nothing yet.
    Wait,
    /// Send these bytes to Redis.
    Send(Vec<u8>),
    /// Answer the call with a status and a body.
    Answer(u32, Vec<u8>),
    /// Close the connection to a server that cannot be the store, for this reason, and answer the
    /// call with this body.
    Refuse(CallError, Vec<u8>),
    /// Close the connection to Redis, and answer nothing.
    HangUp,
}

/// One call.
#[derive(Debug)]
pub struct Bridge {
    login: Option<Arc<Login>>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// The request arrives.
    Request(Vec<u8>),
    /// The request is too long.
    TooLong,
    /// The replies arrive: to the bridge's login, if there is one, and to the call's `commands`.
    Reply { commands: usize, scanner: Scanner, reply: Vec<u8> },
    /// The call has ended for the bridge.
    Done,
}

impl Bridge {
    /// A bridge to a Redis with these options.
    #[must_use]
    pub fn new(options: &Options) -> Bridge {
        Bridge { login: options.login.clone(), step: Step::Request(Vec::new()) }
    }

    /// Takes a piece of the request's body. `ends` is set at the request's end.
    pub fn on_request(&mut self, piece: &[u8], ends: bool) -> Action {
        if let Step::Request(request) = &mut self.step {
            if request.len().saturating_add(piece.len()) > MAX_REQUEST_BYTES {
                self.step = Step::TooLong;
            } else {
                request.extend_from_slice(piece);
            }
        }
        if !ends {
            return Action::Wait;
        }
        match std::mem::replace(&mut self.step, Step::Done) {
            Step::Request(request) => self.send(request),
            Step::TooLong => answer(413, "the call is too long"),
            step => {
                self.step = step;
                Action::Wait
            }
        }
    }

    /// Sends a whole request to Redis, if all of its commands are Diana's.
    fn send(&mut self, request: Vec<u8>) -> Action {
        let commands = match permitted(&request) {
            Ok(commands) => commands,
            Err(why) => return answer(403, why),
        };
        let (bytes, replies) = match &self.login {
            None => (request, commands),
            Some(login) => {
                let mut bytes = Vec::with_capacity(request.len().saturating_add(128));
                log_in(&mut bytes, login);
                bytes.extend_from_slice(&request);
                (bytes, commands.saturating_add(1))
            }
        };
        let scanner = Scanner::new(u32::try_from(replies).unwrap_or(u32::MAX));
        self.step = Step::Reply { commands, scanner, reply: Vec::new() };
        Action::Send(bytes)
    }

    /// Takes a piece of what Redis sends. `ends` is set if Redis sends nothing more.
    pub fn on_reply(&mut self, piece: &[u8], ends: bool) -> Action {
        let step = std::mem::replace(&mut self.step, Step::Done);
        match step {
            // Nothing is due, so these bytes would be the next call's reply.
            Step::Done if !piece.is_empty() => Action::HangUp,
            Step::Done => Action::Wait,
            Step::Request(_) | Step::TooLong => Action::HangUp,
            Step::Reply { commands, mut scanner, mut reply } => {
                if reply.len().saturating_add(piece.len()) > MAX_REPLY_BYTES {
                    return Action::HangUp;
                }
                reply.extend_from_slice(piece);
                match scanner.push(piece) {
                    Ok(Some(taken)) if taken == piece.len() && !ends => self.answer(commands, reply),
                    Ok(None) if !ends => {
                        self.step = Step::Reply { commands, scanner, reply };
                        Action::Wait
                    }
                    // No reply of Redis begins with `H`. The answer may return the connection to
                    // the pool, where no call on it can succeed.
                    Err(_) if reply.starts_with(b"H") => answer(502, "HTTP/ in place of Redis"),
                    _ => Action::HangUp,
                }
            }
        }
    }

    /// Ends the call without an answer, after a bug.
    pub fn hang_up(&mut self) -> Action {
        self.step = Step::Done;
        Action::HangUp
    }

    /// Answers with the replies to the call's own commands. If Redis refuses the bridge's login,
    /// its words are the reply to each of them.
    fn answer(&self, commands: usize, reply: Vec<u8>) -> Action {
        let unfit = unfit(&reply);
        let body = match &self.login {
            None => reply,
            Some(_) => {
                let mut rest = &reply[..];
                match next_reply(&mut rest) {
                    Some(Reply::Status) => rest.to_vec(),
                    Some(Reply::Error(words)) => [b"-", words, b"\r\n"].concat().repeat(commands),
                    _ => return Action::HangUp,
                }
            }
        };
        match unfit {
            Some(why) => Action::Refuse(why, body),
            None => Action::Answer(200, body),
        }
    }
}

/// The first reply that says that this server cannot be the store. Another server may have its
/// address by now, which a call reaches only by a new connection.
fn unfit(mut replies: &[u8]) -> Option<CallError> {
    std::iter::from_fn(|| next_reply(&mut replies)).find_map(|reply| match reply {
        Reply::Error(words) => Some(CallError::of(&String::from_utf8_lossy(words)))
            .filter(|why| matches!(why, CallError::Unfit(_))),
        _ => None,
    })
}

fn answer(status: u32, why: &str) -> Action {
    Action::Answer(status, why.into())
}

/// The number of commands in a request: only Diana's script, and what a connection needs before it.
fn permitted(mut request: &[u8]) -> Result<usize, &'static str> {
    let mut commands = 0_usize;
    while !request.is_empty() {
        let Some(parts) = next_command(&mut request, MAX_PARTS) else {
            return Err("the call is no list of commands of Redis");
        };
        if !is_permitted(&parts) {
            return Err("unknown command: do the filter and `libdiana.so` have the same version?");
        }
        commands = commands.saturating_add(1);
    }
    match commands {
        0 => Err("the call has no command"),
        1..=MAX_COMMANDS => Ok(commands),
        _ => Err("the call has too many commands"),
    }
}

fn is_permitted(parts: &[&[u8]]) -> bool {
    let is = |part: &[u8], name: &str| part.eq_ignore_ascii_case(name.as_bytes());
    match parts {
        [name, sha1, ..] if is(name, "EVALSHA") => is(sha1, script::SHA1) || is_earlier(sha1),
        [name, text, ..] if is(name, "EVAL") => {
            *text == script::SCRIPT.as_bytes() || is_earlier(hex(&Sha1::digest(text)).as_bytes())
        }
        [name, _] | [name, _, _] if is(name, "AUTH") => true,
        // Version 3 has replies that the scanner does not know.
        [name] if is(name, "HELLO") || is(name, "PING") => true,
        [name, version, ..] if is(name, "HELLO") => *version == b"2",
        _ => false,
    }
}

/// Whether this is the SHA-1 of a script of [`EARLIER`].
fn is_earlier(sha1: &[u8]) -> bool {
    EARLIER.iter().any(|known| sha1.eq_ignore_ascii_case(known.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    bytes.iter().for_each(|byte| format::hex(&mut text, *byte));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_resp::command;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn evalsha() -> Vec<u8> {
        let mut request = Vec::new();
        command(&mut request, &["EVALSHA", script::SHA1, "1", "diana:{0}:probe", "8"]);
        request
    }

    fn with_login() -> Options {
        Options { login: Some(Arc::new(Login { user: Some("diana".into()), password: "pw".into() })) }
    }

    /// A bridge that has sent its request.
    fn sent(options: &Options) -> (Bridge, Vec<u8>) {
        let mut bridge = Bridge::new(options);
        let Action::Send(bytes) = bridge.on_request(&evalsha(), true) else { panic!("not sent") };
        (bridge, bytes)
    }

    const REPLY: &[u8] = b"*1\r\n:8\r\n";

    proptest! {
        /// However a call and its replies are cut, each is passed on once and whole.
        #[test]
        fn pieces_make_a_whole(sizes in vec(1_usize..30, 1..9), has_login: bool) {
            let options = if has_login { with_login() } else { Options::default() };
            let mut bridge = Bridge::new(&options);
            let request = evalsha();
            let (mut rest, mut sizes) = (&request[..], sizes.iter().cycle());
            let sent = loop {
                let (piece, tail) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                rest = tail;
                match bridge.on_request(piece, rest.is_empty()) {
                    Action::Wait => prop_assert!(!rest.is_empty()),
                    action => break action,
                }
            };
            let login: &[u8] = if has_login { b"*3\r\n$4\r\nAUTH\r\n$5\r\ndiana\r\n$2\r\npw\r\n" } else { b"" };
            prop_assert_eq!(sent, Action::Send([login, &request].concat()));
            let replies = [if has_login { &b"+OK\r\n"[..] } else { b"" }, REPLY].concat();
            let mut rest = &replies[..];
            let answer = loop {
                let (piece, tail) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                rest = tail;
                match bridge.on_reply(piece, false) {
                    Action::Wait => prop_assert!(!rest.is_empty()),
                    action => break action,
                }
            };
            prop_assert_eq!(answer, Action::Answer(200, REPLY.to_vec()));
        }

        #[test]
        fn any_bytes_are_taken(pieces in vec((any::<bool>(), vec(any::<u8>(), 0..30), any::<bool>()), 0..9)) {
            let mut bridge = Bridge::new(&with_login());
            for (is_request, piece, ends) in pieces {
                let action = match is_request {
                    true => bridge.on_request(&piece, ends),
                    false => bridge.on_reply(&piece, ends),
                };
                prop_assert!(matches!(action, Action::Wait | Action::HangUp | Action::Answer(400.., _)), "{action:?}");
            }
        }
    }

    #[test]
    fn an_uncertain_end_hangs_up() {
        let more = [REPLY, b"+OK\r\n"].concat();
        for (piece, ends) in
            [(&more[..], false), (REPLY, true), (b"*1\r\n", true), (b"", true), (b"=15\r\n", false)]
        {
            let (mut bridge, _) = sent(&Options::default());
            assert_eq!(bridge.on_reply(piece, ends), Action::HangUp, "{piece:?}");
            assert_eq!(bridge.on_reply(b"", true), Action::Wait, "once");
        }
        let mut early = Bridge::new(&Options::default());
        assert_eq!(early.on_reply(REPLY, false), Action::HangUp, "of an earlier call");
        assert_eq!(early.on_request(&evalsha(), true), Action::Wait);
        let (mut answered, _) = sent(&Options::default());
        assert_eq!(answered.on_reply(REPLY, false), Action::Answer(200, REPLY.to_vec()));
        assert_eq!(answered.on_reply(b"\n", false), Action::HangUp, "after the answer");
        let (mut long, _) = sent(&Options::default());
        assert_eq!(long.on_reply(b"$2000000\r\n", false), Action::Wait);
        assert_eq!(long.on_reply(&vec![0; MAX_REPLY_BYTES], false), Action::HangUp);
    }

    /// The filter recognises the answer by its first bytes.
    #[test]
    fn a_server_that_speaks_http_is_named() {
        for piece in [&b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"[..], b"H"] {
            let (mut bridge, _) = sent(&with_login());
            let Action::Answer(502, body) = bridge.on_reply(piece, false) else { panic!("no answer") };
            assert!(body.starts_with(b"HTTP/"));
            assert_eq!(bridge.on_reply(b"more", false), Action::HangUp, "what follows is nobody's");
        }
    }

    #[test]
    fn a_call_that_was_hung_up_sends_nothing() {
        let mut bridge = Bridge::new(&Options::default());
        assert_eq!(bridge.on_request(&evalsha(), false), Action::Wait);
        assert_eq!(bridge.hang_up(), Action::HangUp);
        assert_eq!(bridge.on_request(b"", true), Action::Wait);
    }

    #[test]
    fn a_refused_login_is_the_reply() {
        let (mut bridge, _) = sent(&with_login());
        let replies = b"-WRONGPASS invalid\r\n-NOAUTH Authentication required.\r\n";
        let why = CallError::Unfit("WRONGPASS invalid".into());
        let expected = Action::Refuse(why, b"-WRONGPASS invalid\r\n".to_vec());
        assert_eq!(bridge.on_reply(replies, false), expected);
    }

    #[test]
    fn a_server_that_cannot_be_the_store_loses_its_connection() {
        let two = [evalsha(), evalsha()].concat();
        for (replies, why) in [
            ("-READONLY You can't write\r\n*1\r\n:9\r\n", Some("READONLY You can't write")),
            ("*1\r\n:8\r\n-LOADING Redis is loading\r\n", Some("LOADING Redis is loading")),
            ("-OOM command not allowed\r\n-BUSY Redis is busy\r\n", None),
            ("-NOSCRIPT No matching script.\r\n*1\r\n:9\r\n", None),
        ] {
            let mut bridge = Bridge::new(&Options::default());
            assert!(matches!(bridge.on_request(&two, true), Action::Send(_)));
            let body = replies.as_bytes().to_vec();
            let expected = match why {
                Some(why) => Action::Refuse(CallError::Unfit(why.into()), body),
                None => Action::Answer(200, body),
            };
            assert_eq!(bridge.on_reply(replies.as_bytes(), false), expected);
            assert_eq!(bridge.on_reply(b"", true), Action::Wait, "Redis closes");
        }
    }

    #[test]
    fn only_commands_of_diana_pass() {
        let ask = |commands: &[&[&str]]| {
            let mut request = Vec::new();
            commands.iter().for_each(|parts| command(&mut request, parts));
            Bridge::new(&Options::default()).on_request(&request, true)
        };
        let passes = |commands: &[&[&str]]| matches!(ask(commands), Action::Send(_));
        assert!(passes(&[&["auth", "pw"], &["hello", "2"], &["PING"]]));
        assert!(passes(&[
            &["AUTH", "u", "pw"],
            &["EVAL", script::SCRIPT, "0"],
            &["evalsha", script::SHA1, "0"]
        ]));
        for refused in [
            &["FLUSHALL"][..],
            &["GET", "x"],
            &["EVAL", "return 1", "0"],
            &["EVALSHA", &"0".repeat(40), "0"],
            &["HELLO", "3"],
            &["SCRIPT", "LOAD", script::SCRIPT],
            &["EVAL"],
            &["AUTH"],
            &["SUBSCRIBE", "x"],
            // It would stay in force on the connection, and later calls would count elsewhere.
            &["SELECT", "3"],
            &["EVALSHA_RO", script::SHA1, "0"],
        ] {
            assert!(matches!(ask(&[refused]), Action::Answer(403, _)), "{refused:?}");
            assert!(matches!(ask(&[&["PING"], refused]), Action::Answer(403, _)), "behind another");
        }
        assert!(matches!(ask(&[]), Action::Answer(403, _)));
        assert!(matches!(ask(&[&["PING"][..]; 17]), Action::Answer(403, _)));
        let mut cut = evalsha();
        cut.pop();
        for wrong in [&cut[..], b"PING\r\n", &[&evalsha()[..], b"\n"].concat()] {
            let action = Bridge::new(&Options::default()).on_request(wrong, true);
            assert!(matches!(action, Action::Answer(403, _)));
        }
    }

    /// Filters that are upgraded after the module send these.
    #[test]
    fn the_script_of_the_release_before_passes() {
        let text: &str = include_str!("../tests/script-0.2.0.lua");
        for command_of_0_2_0 in [["EVAL", text, "0"], ["EVALSHA", EARLIER[0], "0"]] {
            let mut request = Vec::new();
            command(&mut request, &command_of_0_2_0);
            let action = Bridge::new(&Options::default()).on_request(&request, true);
            assert_eq!(action, Action::Send(request));
        }
    }

    #[test]
    fn a_long_call_is_refused_at_its_end() {
        let mut bridge = Bridge::new(&Options::default());
        for _ in 0..=MAX_REQUEST_BYTES / 65_536 {
            assert_eq!(bridge.on_request(&[b'x'; 65_536], false), Action::Wait);
        }
        assert!(matches!(bridge.on_request(b"", true), Action::Answer(413, _)));
    }

    #[test]
    fn options_name_a_login() {
        let read = |text: &str| Options::read(text.as_bytes());
        assert_eq!(read("").unwrap(), Options::default());
        assert_eq!(read("{}").unwrap(), Options::default());
        assert_eq!(read(r#"{"user": "diana", "password": "pw"}"#).unwrap(), with_login());
        let file = std::env::temp_dir().join(format!("diana-password-{}", std::process::id()));
        fs::write(&file, "pw\n").unwrap();
        let from_file = format!(r#"{{"user": "diana", "password_file": "{}"}}"#, file.display());
        assert_eq!(read(&from_file).unwrap(), with_login());
        fs::remove_file(&file).unwrap();
        assert!(read(&from_file).unwrap_err().contains("password_file: the file cannot be read"));
        for (wrong, why) in [
            (r#"{"user": "x"}"#, "user: it needs a `password`"),
            (r#"{"password": 12345}"#, "password: expected the password"),
            (r#"{"password": ""}"#, "password: expected the password"),
            (r#"{"pasword": "x"}"#, "unknown key `pasword`"),
            (r#"{"password": "x", "password_file": "y"}"#, "password_file: `password` is given already"),
            ("[", ""),
            ("[]", "expected"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why) && !error.contains("12345"), "{wrong}: {error}");
        }
    }
}
