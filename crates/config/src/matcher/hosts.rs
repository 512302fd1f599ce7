//! The reader of `hosts`: a name, `*.example.org` for every name below it, a list, or
//! `{not: …}`.

use super::{ConditionKind, listed};
use crate::actor::Scope;
use diana_document::{Node, quoted};
use diana_limiter::matcher::{HostError, HostPattern, Hosts, Matcher};

/// The kind `hosts`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "hosts", read };

fn read(node: Node, scope: &mut Scope) -> Option<Box<dyn Matcher>> {
    let (nodes, is_negated) = listed(&node, &[])?;
    if nodes.is_empty() {
        node.fail("no host is listed, leave `hosts` out to match them all");
    }
    let hosts: Vec<HostPattern> = nodes.iter().filter_map(host).collect();
    let is_complete = hosts.len() == nodes.len();
    let condition = Hosts::new(hosts, scope.parts).ok().filter(|_| is_complete)?;
    Some(Box::new(if is_negated { condition.negated() } else { condition }))
}

fn host(node: &Node) -> Option<HostPattern> {
    let text = node.text()?;
    let why = match text.parse() {
        Ok(host) => return Some(host),
        Err(HostError::Everything) => "`*` is every host, leave `hosts` out to match them all".into(),
        Err(HostError::Path) => {
            format!("{} is not a host, leave out the scheme and the path (see `url`)", quoted(text))
        }
        Err(HostError::Port) => {
            format!("{} has a port, leave it out: a limit is about all ports of a host", quoted(text))
        }
        Err(HostError::NotAscii) => {
            format!("{} is not how clients ask for it, write its `xn--` form", quoted(text))
        }
        Err(HostError::Wildcard) => format!(
            "`*` stands for the first labels of a host, as in `*.example.org`, found {}",
            quoted(text)
        ),
        Err(HostError::Name) => format!(
            "{} is not a host, expected one such as `example.com`, `*.example.org` or `[::1]`",
            quoted(text)
        ),
    };
    node.fail(why);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{compiled, matching, mistakes};
    use diana_limiter::request::{Part, Request, Values};

    fn check(json: &str, matched: &[&'static str], others: &[&'static str]) {
        let request = |host: &&'static str| (*host, vec![(Part::Host, *host)]);
        let requests: Vec<_> = matched.iter().chain(others).map(request).collect();
        assert_eq!(matching(&KIND, json, &requests), matched, "{json}");
    }

    #[test]
    fn case_port_and_the_last_dot_make_no_difference() {
        check(
            r#""API.example.com.""#,
            &[
                "api.example.com",
                "Api.Example.COM:8443",
                "api.example.com.",
                "api.example.com.:80",
                "api.example.com:",
            ],
            &[
                "example.com",
                "x.api.example.com",
                "api.example.comx",
                "api.example.com..",
                "",
                "api.example.com:x",
            ],
        );
        check(r#"["127.0.0.1", "localhost"]"#, &["127.0.0.1:80", "localhost"], &["127.0.0.11", "[::1]"]);
    }

    #[test]
    fn a_star_is_any_depth_but_not_the_bare_domain() {
        check(
            r#"["*.example.org"]"#,
            &["a.example.org", "a.b.EXAMPLE.org:80", "a.example.org."],
            &["example.org", ".example.org", "aexample.org", "a.example.org.evil.com"],
        );
    }

    #[test]
    fn an_address_is_compared_as_an_address() {
        check(r#""[::1]""#, &["[::1]:80", "[::1]", "[0:0::1]"], &["[::2]:80", "::1", "[::1", "[::1]x"]);
        check(r#""2001:DB8::a""#, &["[2001:db8:0::A]:443"], &["[2001:db8::b]"]);
    }

    #[test]
    fn a_request_without_a_host_is_none_of_them() {
        assert!(matching(&KIND, r#""example.com""#, &[("no host", vec![])]).is_empty());
    }

    /// Whether `hosts` holds and is certain for requests with these lines of the host.
    fn holds_and_certain(json: &str, lines: &[&str]) -> (bool, bool) {
        let (matcher, parts) = compiled(&KIND, json);
        let values = lines.iter().fold(Values::default(), |values, line| values.with(Part::Host, *line));
        let request = Request::new(&values, &parts);
        (matcher.matches(&request), matcher.is_certain(&request))
    }

    /// What a client leaves out, repeats or mangles is limited, and freed of nothing.
    #[test]
    fn all_hosts_but_these() {
        let json = r#"{"not": ["intern.example", "*.intern.example", "[::1]"]}"#;
        for host in ["intern.example", "INTERN.example.:443", "a.b.intern.example", "[0::1]:80"] {
            assert_eq!(holds_and_certain(json, &[host]), (false, false), "{host}");
        }
        for host in ["example.com", "xintern.example", "intern.example.com:80", "[::2]", "192.0.2.7"] {
            assert_eq!(holds_and_certain(json, &[host]), (true, true), "{host}");
        }
        let mangled =
            ["", ":80", "intern.example..", "x@intern.example", "intern.example:80:80", "a b", "[::1]x"];
        for host in mangled {
            assert_eq!(holds_and_certain(json, &[host]), (true, false), "{host}");
        }
        assert_eq!(holds_and_certain(json, &[]), (true, false));
        assert_eq!(holds_and_certain(json, &["intern.example", "example.com"]), (true, false));
        assert_eq!(holds_and_certain(r#""example.com""#, &["intern.example", "example.com"]), (true, false));
    }

    #[test]
    fn a_mistake_says_what_to_write() {
        let form = "is not a host, expected one such as `example.com`, `*.example.org` or `[::1]`";
        for (text, why) in [
            ("*", "`*` is every host, leave `hosts` out to match them all"),
            (
                "https://example.com/",
                "`https://example.com/` is not a host, leave out the scheme and the path (see `url`)",
            ),
            (
                "example.com:80",
                "`example.com:80` has a port, leave it out: a limit is about all ports of a host",
            ),
            ("käse.de", "`käse.de` is not how clients ask for it, write its `xn--` form"),
            ("a.*.com", "`*` stands for the first labels of a host, as in `*.example.org`, found `a.*.com`"),
            ("*a.com", "`*` stands for the first labels of a host, as in `*.example.org`, found `*a.com`"),
            ("", &format!("`` {form}")),
            ("a..b", &format!("`a..b` {form}")),
            ("*.a..b", &format!("`*.a..b` {form}")),
            ("a b", &format!("`a b` {form}")),
        ] {
            assert_eq!(mistakes(&KIND, &format!("[\"ok.com\", {text:?}]")), [format!("[1]: {why}")]);
        }
        assert_eq!(mistakes(&KIND, "[]"), ["no host is listed, leave `hosts` out to match them all"]);
        assert_eq!(
            mistakes(&KIND, r#"{"not": "*", "or": "a"}"#),
            ["unknown key `or`, expected not", "not: `*` is every host, leave `hosts` out to match them all"]
        );
        assert_eq!(mistakes(&KIND, "1"), ["expected text, found `1`, put it in quotes"]);
    }
}
