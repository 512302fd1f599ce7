//! `inspect`: the path below which operators read and reset the counts of actors, and who may.

use super::claims::claim_path;
use diana_document::{Node, Value};
use diana_limiter::actor::address::Network;
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
/// assert!(inspect.knows(b"Bearer 0123456789abcdef0123456789abcdef"));
/// assert!(!inspect.knows(b"Bearer 0123456789abcdef0123456789abcdee"));
/// ```
pub struct InspectOptions {
    /// Begins with `/` and does not end with it.
    path: Box<str>,
    token: Box<str>,
    allow: Vec<Network>,
    /// Whether workers count which actors are refused and charged most.
    pub top: bool,
    /// The claim that names a customer whose actor is hidden.
    pub customer: Option<Box<str>>,
}

/// The shortest token: 128 bits in hexadecimal digits.
const SHORTEST_TOKEN: usize = 32;
const LONGEST_TOKEN: usize = 4_096;
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
        let holds = |network: &Network| {
            let first = network.first();
            first.is_ipv4() == client.is_ipv4() && Network::of(client, network.prefix()).first() == first
        };
        self.allow.iter().any(holds)
    }

    /// Whether the value of `authorization` has the token. The time of the comparison depends on
    /// the lengths alone.
    #[must_use]
    pub fn knows(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked(BEARER.len()) else {
            return false;
        };
        let differences = token.iter().zip(self.token.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        scheme.eq_ignore_ascii_case(BEARER)
            && token.len() == self.token.len()
            && std::hint::black_box(differences) == 0
    }

    /// A hash of the path and the networks. The token is a secret and takes no part.
    pub(super) fn canonical_hash(&self) -> u64 {
        let hash = Hasher::of(&(&self.path, Hasher::of_all(self.allow.iter().map(ToString::to_string))));
        let hash = if self.top { Hasher::of(&(hash, "top")) } else { hash };
        self.customer.as_ref().map_or(hash, |claim| Hasher::of(&(hash, claim)))
    }
}

/// RFC 6750 §2.1.
const BEARER: &[u8] = b"Bearer ";

impl fmt::Debug for InspectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InspectOptions { path, allow, top, customer, token: _ } = self;
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
    let token = fields.require("token").and_then(|node| token(&node));
    let allow = match fields.take("allow") {
        Some(node) => networks(&node),
        None => LOOPBACK.iter().map(|loopback| Network::parse(loopback).ok()).collect(),
    };
    let top = fields.take("top").map_or(Some((false, None)), |node| top(&node));
    fields.finish();
    let (top, customer) = top?;
    Some(InspectOptions { path: path?, token: token?, allow: allow?, top, customer })
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

fn token(node: &Node) -> Option<Box<str>> {
    let text = node.text()?;
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_visible && (SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&text.len()) {
        true => Some(text.into()),
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
    let network = |node: Node| match Network::parse(node.text()?) {
        Ok(network) => Some(network),
        Err(why) => {
            node.fail(why);
            None
        }
    };
    networks.into_iter().map(network).collect()
}
