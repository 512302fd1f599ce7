//! What a call adds to the commands of the script, and the replies to its commands.
//!
//! ```text
//!   POST /   *3⏎ $4⏎ AUTH⏎ $5⏎ diana⏎ $6⏎ secret⏎   *6⏎ $7⏎ EVALSHA⏎ $40⏎ 4e1243…⏎ …
//!                        ─►  +OK⏎  *14⏎ :4503…⏎ :0⏎ :0⏎ :9⏎ …
//!                    or  ─►  +OK⏎  -NOSCRIPT No matching script…⏎
//! ```

use diana_limiter::global::{CallError, MAX_REPLY_BYTES};
use diana_resp::{Reply, next_reply};
use std::fmt;

/// The credentials for Redis' `AUTH` command. Each call sends them, because it cannot tell whether
/// its connection is new.
///
/// ```
/// use diana_global_redis::Login;
///
/// let login = Login { user: Some("diana".into()), password: "secret".into() };
/// assert_eq!(format!("{login:?}"), "a login");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user of Redis' access control list; `None`: the default user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a login")
    }
}

/// Appends the command that logs in.
pub fn log_in(to: &mut Vec<u8>, login: &Login) {
    match &login.user {
        Some(user) => diana_resp::command(to, &["AUTH", user, &login.password]),
        None => diana_resp::command(to, &["AUTH", &login.password]),
    }
}

/// The replies to `commands` commands, preceded by the reply to a login if `has_login`. The whole
/// call fails if the replies are cut, if anything follows them, if one has another shape, if Redis
/// refuses the login, or if no Redis has answered.
pub fn replies(
    status: u32,
    mut body: &[u8],
    commands: usize,
    has_login: bool,
) -> Result<Vec<Result<Vec<u64>, CallError>>, CallError> {
    if is_http(status, body) {
        return Err(CallError::Http);
    }
    if status != 200 {
        return Err(CallError::status(status, body));
    }
    if body.len() > MAX_REPLY_BYTES {
        return Err(CallError::Garbage);
    }
    let error = |words: &[u8]| CallError::of(&String::from_utf8_lossy(words));
    if has_login {
        match next_reply(&mut body) {
            Some(Reply::Status) => {}
            Some(Reply::Error(words)) => return Err(error(words)),
            _ => return Err(CallError::Garbage),
        }
    }
    let mut replies = Vec::with_capacity(commands);
    for _ in 0..commands {
        replies.push(match next_reply(&mut body).ok_or(CallError::Garbage)? {
            Reply::Numbers(numbers) => Ok(numbers),
            Reply::Error(words) => Err(error(words)),
            Reply::Status => return Err(CallError::Garbage),
        });
    }
    if body.is_empty() { Ok(replies) } else { Err(CallError::Garbage) }
}

/// Whether a server that speaks HTTP has answered. A response begins with `HTTP/` if the gateway
/// has carried it as Redis' bytes. Otherwise its body is JSON or HTML, or it is a 403 without a
/// body, as HTTP fronts of Redis answer to commands that they do not allow. From 500 on, a proxy
/// before Redis may have written the body. Redis never answers with such a byte.
fn is_http(status: u32, body: &[u8]) -> bool {
    let is_page = status < 500 && (body.starts_with(b"{") || body.starts_with(b"<"));
    body.starts_with(b"HTTP/") || is_page || (status, body.len()) == (403, 0)
}
