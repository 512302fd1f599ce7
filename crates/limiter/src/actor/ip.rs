//! The actor is the client's address or network: `{ip: {v4_prefix: 24}}`, or `ip` for short.
//!
//! [`ClientIp`] finds the address.

use super::address::Network;
use super::client_ip::Prefixes;
use super::{Actor, ActorKind, FastPathPart, Scope};
use crate::request::{Parts, Request};
use diana_document::{Node, Value, quoted};

pub use super::client_ip::ClientIp;

/// The kind `ip`.
pub(super) static KIND: ActorKind = ActorKind { key: "ip", compile, bare: Some(by_client) };

/// Counts by client address, or by network.
#[derive(Debug)]
struct Ip(ClientIp);

impl Actor for Ip {
    /// How the policy finds the address is left out, so gateways behind different proxies count one
    /// client together.
    fn canonical_form(&self, _: &Parts) -> String {
        let Prefixes { v4, v6 } = self.0.prefixes;
        format!("ip {v4} {v6}")
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let client = self.0.client(request);
        client.inspect(|address| self.0.prefixes.write(*address, key)).is_some()
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(self.0.raw(request))
    }

    fn is_address(&self) -> bool {
        true
    }

    /// An address stands for the network that counts it. A network must have the prefix by which
    /// the actor counts.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        let (network, is_exact) = Network::read(value)?;
        let counted = self.0.prefixes.of(network.first());
        if !network.is_single() && network.prefix() != counted {
            return Err(format!("{} is not a /{counted}, by which this actor counts", quoted(value)));
        }
        if !is_exact {
            return Err(network.meant_by(value));
        }
        let mut key = Vec::new();
        self.0.prefixes.write(network.first(), &mut key);
        Ok(key)
    }
}

fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    if *node.value() == Value::Bool(true) {
        return Some(by_client(scope));
    }
    let mut fields = node.fields()?;
    let mut options = scope.ip.clone();
    options.prefixes.take(&mut fields);
    fields.belong(&["trusted_hops", "header"], "to `ip` at the top");
    fields.finish();
    Some(Box::new(Ip(options)))
}

/// The actor that the policy's own options describe.
pub(super) fn by_client(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Ip(scope.ip.clone()))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use crate::request::{Part, Values};

    #[test]
    fn options_of_the_policy_are_not_options_of_the_actor() {
        assert_eq!(
            testing::mistakes(r#"{"ip": {"trusted_hops": 1}}"#),
            ["ip: unknown key `trusted_hops`, it belongs to `ip` at the top"]
        );
    }

    fn key(definition: &str, address: &str) -> Option<Vec<u8>> {
        testing::value(definition, Values::default().with(Part::Address, address))
    }

    #[test]
    fn addresses_of_one_network_are_one_actor() {
        let v6_64 = [&[6, 64][..], &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 1], &[0; 8]].concat();
        for definition in [r#""ip""#, r#"{"ip": {}}"#, r#"{"ip": true}"#] {
            assert_eq!(key(definition, "192.0.2.7:80"), Some(vec![4, 32, 192, 0, 2, 7]));
            assert_eq!(key(definition, "::ffff:192.0.2.7"), Some(vec![4, 32, 192, 0, 2, 7]));
            assert_eq!(key(definition, "[2001:db8:0:1::7]:80"), Some(v6_64.clone()));
            assert_eq!(key(definition, "2001:db8:0:1:ffff::"), Some(v6_64.clone()));
            assert_eq!(key(definition, "nobody"), None);
        }
        let net = r#"{"ip": {"v4_prefix": 24, "v6_prefix": 48}}"#;
        assert_eq!(key(net, "192.0.2.7"), Some(vec![4, 24, 192, 0, 2, 0]));
        assert_ne!(key(net, "192.0.2.0"), key(r#""ip""#, "192.0.2.0"), "a network is not its first address");
        assert_eq!(key(net, "2001:db8:0:1::7"), key(net, "2001:db8:0:2::7"));
        assert_ne!(key(net, "2001:db8:1:1::7"), key(net, "2001:db8:0:1::7"));
    }

    #[test]
    fn a_configured_address_is_the_actor_of_its_requests() {
        for (definition, configured, address) in [
            (r#""ip""#, "192.0.2.7", "192.0.2.7:80"),
            (r#""ip""#, "192.0.2.7/32", "192.0.2.7"),
            (r#""ip""#, "::ffff:192.0.2.7", "192.0.2.7"),
            (r#""ip""#, "2001:db8::/64", "2001:db8::7"),
            (r#""ip""#, "2001:db8::9", "2001:db8::7"),
            (r#"{"ip": {"v4_prefix": 24}}"#, "192.0.2.0/24", "192.0.2.7"),
        ] {
            let parsed = testing::parse(definition, configured);
            assert_eq!(parsed.ok(), key(definition, address), "{definition} {configured}");
        }
        for (configured, why) in [
            ("192.0.2.0/24", "`192.0.2.0/24` is not a /32, by which this actor counts"),
            ("2001:db8::/48", "`2001:db8::/48` is not a /64, by which this actor counts"),
            ("10.0.0.1/8", "`10.0.0.1/8` is not a /32, by which this actor counts"),
            (
                "2001:db8::1/64",
                "`2001:db8::1/64` has bits set beyond its prefix, did you mean `2001:db8::/64`?",
            ),
        ] {
            assert_eq!(testing::parse(r#""ip""#, configured).unwrap_err(), why);
        }
    }
}
