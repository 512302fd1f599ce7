//! Calls as Redis reads them, and replies as Redis writes them.

use diana_limiter::global::Call;

pub const NO_SCRIPT: &[u8] = b"-NOSCRIPT No matching script. Please use EVAL.\r\n";

/// A command of a call.
pub struct Command {
    /// `EVAL` or `EVALSHA`.
    pub name: String,
    /// The script's text, or its hash.
    pub script: String,
    pub keys: Vec<String>,
    /// The number that the reply must repeat.
    pub number: u64,
    /// One for each query.
    pub arguments: Vec<String>,
}

/// The commands in the body of a call.
pub fn commands(mut body: &[u8]) -> Vec<Command> {
    let mut commands = Vec::new();
    while let Some(parts) = diana_resp::next_command(&mut body, 9_999) {
        let mut parts = parts.into_iter().map(|part| String::from_utf8(part.to_vec()).unwrap());
        let mut next = || parts.next().unwrap();
        let (name, script, keys) = (next(), next(), next().parse().unwrap());
        let keys = (0..keys).map(|_| next()).collect();
        let number = next().parse().unwrap();
        commands.push(Command { name, script, keys, number, arguments: parts.collect() });
    }
    assert!(body.is_empty() && !commands.is_empty());
    commands
}

/// The commands of a call, each in a line, with `/` between its parts.
pub fn text(call: &Call) -> String {
    let line = |command: Command| {
        let Command { name, script, keys, number, arguments } = command;
        let start = vec![name, script, keys.len().to_string()];
        [start, keys, vec![number.to_string()], arguments].concat().join("/")
    };
    commands(&call.message.body).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The reply to one command.
pub fn list(numbers: &[u64]) -> Vec<u8> {
    let lines: Vec<String> = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*{}\r\n{}", numbers.len(), lines.concat()).into_bytes()
}
