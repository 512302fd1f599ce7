//! The reader of `ip`: a network, a list, or `{not: …}`.

use super::{ConditionKind, listed};
use crate::actor::Scope;
use diana_document::Node;
use diana_limiter::actor::address::Network;
use diana_limiter::matcher::{ClientNetworks, ConditionError, Matcher};

/// The kind `ip`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "ip", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    let (nodes, is_negated) = listed(&node, &["trusted_hops", "header", "v4_prefix", "v6_prefix"])?;
    if nodes.is_empty() {
        node.fail("no network is listed, leave `ip` out to match every client");
    }
    let networks: Vec<Network> = nodes.iter().filter_map(network).collect();
    let is_complete = networks.len() == nodes.len();
    let condition = ClientNetworks::new(networks, scope.ip.clone());
    if let Err(ConditionError::Anything) = condition {
        node.fail("these are all addresses, leave `ip` out to match every client");
    }
    let condition = condition.ok().filter(|_| is_complete)?;
    Some(Box::new(if is_negated { condition.negated() } else { condition }))
}

/// Reads an address or a network.
pub(crate) fn network(node: &Node) -> Option<Network> {
    Network::parse(node.text()?).map_err(|why| node.fail(why)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, mistakes};
    use diana_limiter::request::{Part, Request, Values};

    /// Whether the condition holds and is certain for a client.
    fn check(json: &str, address: Option<&str>) -> (bool, bool) {
        let (matcher, parts) = compiled(&KIND, json);
        let values = Values::default();
        let values = address.into_iter().fold(values, |values, text| values.with(Part::Address, text));
        let request = Request::new(&values, &parts);
        (matcher.matches(&request), matcher.is_certain(&request))
    }

    #[test]
    fn a_client_is_in_a_network_by_its_whole_address() {
        let networks = r#"["10.0.0.0/8", "192.168.7.9", "2001:db8::7", "::ffff:172.16.0.0/108"]"#;
        let others = format!(r#"{{"not": {networks}}}"#);
        for (address, is_in) in [
            ("10.1.2.3:80", true),
            ("::ffff:10.1.2.3", true),
            ("[::ffff:a01:203]:80", true),
            ("192.168.7.9", true),
            ("192.168.7.8", false),
            ("172.16.0.1", true),
            ("[2001:db8::7]:443", true),
            ("2001:DB8:0::0007", true),
            ("2001:db8::8", false),
            ("11.0.0.0", false),
            ("::10.1.2.3", false),
        ] {
            assert_eq!(check(networks, Some(address)), (is_in, is_in), "{address}");
            assert_eq!(check(&others, Some(address)), (!is_in, !is_in), "{address}");
        }
        for unknown in [None, Some(""), Some("pipe"), Some("010.0.0.1")] {
            assert_eq!(check(networks, unknown), (true, false), "{unknown:?}");
            assert_eq!(check(&others, unknown), (true, false), "{unknown:?}");
        }
    }

    #[test]
    fn the_same_addresses_mean_the_same() {
        let form = |json: &str| {
            let (matcher, parts) = compiled(&KIND, json);
            matcher.canonical_form(&parts)
        };
        let all = r#"["10.0.0.0/8"]"#;
        for same in
            [r#""10.0.0.0/8""#, r#""::ffff:10.0.0.0/104""#, r#"["10.128.0.0/9", "10.0.0.0/9", "10.1.2.3"]"#]
        {
            assert_eq!(form(all), form(same), "{same}");
        }
        assert_ne!(form(all), form(r#"{"not": "10.0.0.0/8"}"#));
        assert_ne!(form(all), form(r#""10.0.0.0/9""#));
    }

    #[test]
    fn a_mistake_says_what_to_write() {
        for (json, why) in [
            ("[]", "no network is listed, leave `ip` out to match every client"),
            (r#"{"not": []}"#, "no network is listed, leave `ip` out to match every client"),
            (
                r#"["::/0", "0.0.0.0/1", "128.0.0.0/1"]"#,
                "these are all addresses, leave `ip` out to match every client",
            ),
            (
                r#"["::1", "10.0.0.1/8"]"#,
                "[1]: `10.0.0.1/8` has bits set beyond its prefix, did you mean `10.0.0.0/8`?",
            ),
            ("7", "expected text, found `7`, put it in quotes"),
        ] {
            assert_eq!(mistakes(&KIND, json), [why], "{json}");
        }
        assert_eq!(
            mistakes(&KIND, r#"{"trusted_hops": 1}"#),
            [
                "`not` is missing",
                "unknown key `trusted_hops`, it belongs to `ip` at the top, beside `limits`",
            ]
        );
    }
}
