//! The reader of `{ip: {v4_prefix: 24}}`, or `ip` for short.

use super::client_ip::prefixes;
use super::{ActorKind, Scope};
use diana_document::{Node, Value};
use diana_limiter::actor::Actor;
use diana_limiter::actor::ip::Ip;

/// The kind `ip`.
pub(super) static KIND: ActorKind = ActorKind { key: "ip", read, bare: Some(bare) };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    if *node.value() == Value::Bool(true) {
        return Some(bare(scope));
    }
    let mut fields = node.fields()?;
    let (v4, v6) = prefixes(&mut fields, scope.ip.prefixes());
    fields.belong(&["trusted_hops", "header"], "to `ip` at the top");
    fields.finish();
    Some(Box::new(Ip::new(scope.ip.by_prefix(v4, v6).ok()?)))
}

fn bare(scope: &mut Scope) -> Box<dyn Actor> {
    Box::new(Ip::new(scope.ip.clone()))
}

#[cfg(test)]
mod tests {
    use crate::actor::testing;
    use diana_limiter::request::{Part, Values};

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
