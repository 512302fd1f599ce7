//! `inspect`: the path below which operators read and reset the counts of actors, and who may.

use super::claims::claim_path;
use super::matcher::network;
use diana_document::{Node, Value};
use diana_limiter::actor::address::{Network, Networks};
use diana_limiter::cells::table::Hasher;
use std::fmt;
use std::net::IpAddr;

/// Who may look at counts, and where.
///
/// ```
/// let document = br#"{
///     "limits": [],
///     "inspect": {"path": "/.diana", "token": "0123456789abcdef0123456789abcdef"}
/// }"#;
/// let configuration = diana_config::compile(document).expect("a valid document");
/// let inspect = configuration.inspect.expect("`inspect`");
/// assert_eq!(inspect.below(b"/.diana/actor?user=ann"), Some(&b"actor?user=ann"[..]));
/// assert_eq!(inspect.below(b"/.dianas/actor"), None);
/// assert!(inspect.allows("127.0.0.1".parse().expect("an address")));
/// assert!(!inspect.allows("192.0.2.7".parse().expect("an address")));
/// let token = inspect.token(b"Bearer 0123456789abcdef0123456789abcdef").expect("the token");
/// assert!(!token.only_reads);
/// assert!(inspect.token(b"Bearer 0123456789abcdef0123456789abcdee").is_none());
/// ```
pub struct InspectOptions {
    /// Begins with `/` and does not end with it.
    path: Box<str>,
    tokens: Vec<Token>,
    allow: Networks,
    /// Whether workers count which actors are refused and charged most.
    pub top: bool,
    /// The claim that names a customer whose actor is hidden.
    pub customer: Option<Box<str>>,
}

/// A token whose sender may ask questions.
pub struct Token {
    /// The name in the log; empty for the only token.
    pub name: Box<str>,
    /// Whether the token allows no changes.
    pub only_reads: bool,
    value: Box<str>,
}

/// The shortest token: 128 bits in hexadecimal digits.
const SHORTEST_TOKEN: usize = 32;
const LONGEST_TOKEN: usize = 4_096;
const MAX_NAME: usize = 64;
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

impl InspectOptions {
    /// What follows the path and a slash in a request's target. `None`: the request asks for
    /// something else.
    #[must_use]
    pub fn below<'t>(&self, target: &'t [u8]) -> Option<&'t [u8]> {
        target.strip_prefix(self.path.as_bytes())?.strip_prefix(b"/")
    }

    /// Whether clients with this address may ask.
    #[must_use]
    pub fn allows(&self, client: IpAddr) -> bool {
        self.allow.place(client).is_some()
    }

    /// The token in the value of `authorization`. The time of the comparison depends only on the
    /// lengths.
    #[must_use]
    pub fn token(&self, authorization: &[u8]) -> Option<&Token> {
        let (scheme, sent) = authorization.split_at_checked(BEARER.len())?;
        let is_sent = |token: &Token| {
            let differences = sent.iter().zip(token.value.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
            sent.len() == token.value.len() && std::hint::black_box(differences) == 0
        };
        // Compares all, so that the time does not show which one matches.
        let found =
            self.tokens.iter().fold(None, |found, token| if is_sent(token) { Some(token) } else { found });
        found.filter(|_| scheme.eq_ignore_ascii_case(BEARER))
    }

    /// A hash of the path, the networks, and who may change counts. The values of tokens are
    /// secrets and take no part.
    pub(super) fn canonical_hash(&self) -> u64 {
        let tokens = Hasher::of_all(self.tokens.iter().map(|token| (&token.name, token.only_reads)));
        let allow = Hasher::of_all(self.allow.iter().map(|network| network.to_string()));
        Hasher::of(&(&self.path, allow, tokens, (self.top, &self.customer)))
    }
}

/// RFC 6750 §2.1.
const BEARER: &[u8] = b"Bearer ";

impl fmt::Debug for InspectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InspectOptions { path, allow, top, customer, tokens: _ } = self;
        let mut shown = f.debug_struct("InspectOptions");
        shown.field("path", path).field("allow", allow).field("top", top).field("customer", customer);
        shown.finish_non_exhaustive()
    }
}

/// Compiles `inspect`. Reports each mistake at its place and then returns `None`.
pub(super) fn compile(node: Node) -> Option<InspectOptions> {
    let Value::Object(_) = node.value() else {
        return node.expected("`{path: /.diana, token: …}`");
    };
    let mut fields = node.fields()?;
    let path = fields.require("path").and_then(|node| path(&node));
    let tokens = match (fields.take("token"), fields.take("tokens")) {
        (Some(_), Some(tokens)) => {
            tokens.fail("`token` is given already: move it here under a name, or leave this out");
            None
        }
        (None, Some(tokens)) => self::tokens(&tokens),
        (Some(token), None) => self::token("", &token, false).map(|token| vec![token]),
        (None, None) => fields.require("token").and(None),
    };
    let allow = match fields.take("allow") {
        Some(node) => networks(&node),
        None => LOOPBACK.iter().map(|loopback| Network::parse(loopback).ok()).collect(),
    };
    let top = fields.take("top").map_or(Some((false, None)), |node| top(&node));
    fields.finish();
    let (top, customer) = top?;
    Some(InspectOptions { path: path?, tokens: tokens?, allow: Networks::new(allow?), top, customer })
}

/// Whether actors are ranked, and the claim that names customers.
fn top(node: &Node) -> Option<(bool, Option<Box<str>>)> {
    let Value::Object(_) = node.value() else {
        return Some((node.flag()?, None));
    };
    let mut fields = node.fields()?;
    let claim = fields.require("claim").and_then(|node| Some(claim_path(node.text()?, &node)?.into()));
    fields.finish();
    Some((true, Some(claim?)))
}

fn path(node: &Node) -> Option<Box<str>> {
    let text = node.text()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let is_path = text.starts_with('/') && text.len() > 1 && text.len() <= 256 && text.bytes().all(is_plain);
    match is_path && !text.ends_with('/') {
        true => Some(text.into()),
        false => node.expected("a path such as `/.diana`, of letters, digits and `/-._~`"),
    }
}

/// Reads `{NAME: TOKEN}` or `{NAME: {token: TOKEN, read: true}}`.
fn tokens(node: &Node) -> Option<Vec<Token>> {
    let entries = node.entries()?;
    if entries.is_empty() {
        node.fail("without a token nobody may ask: leave out `inspect`");
    }
    let mut tokens: Vec<Option<Token>> = Vec::new();
    for (name, node) in entries {
        let token = named(name, &node);
        let is_same = |other: &Token| token.as_ref().is_some_and(|token| token.value == other.value);
        if tokens.iter().flatten().any(is_same) {
            node.fail("another name has the same token");
        }
        tokens.push(token);
    }
    tokens.into_iter().collect()
}

fn named(name: &str, node: &Node) -> Option<Token> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(is_plain) {
        node.fail("expected a name of 1 to 64 of `A-Z a-z 0-9 _ -`");
        return None;
    }
    let Value::Object(_) = node.value() else { return token(name, node, false) };
    let mut fields = node.fields()?;
    let only_reads = fields.take("read").map_or(Some(false), |node| node.flag());
    let value = fields.require("token");
    fields.finish();
    token(name, &value?, only_reads?)
}

fn token(name: &str, node: &Node, only_reads: bool) -> Option<Token> {
    let text = node.text()?;
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_visible && (SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&text.len()) {
        true => Some(Token { name: name.into(), value: text.into(), only_reads }),
        // The text is a secret, so the message does not repeat it.
        false => {
            node.fail("expected at least 32 visible ASCII characters, as from `openssl rand -hex 32`");
            None
        }
    }
}

fn networks(node: &Node) -> Option<Vec<Network>> {
    let networks = node.list()?;
    if networks.is_empty() {
        node.fail("with an empty list nobody may ask: leave out `inspect`");
    }
    networks.iter().map(network).collect()
}
