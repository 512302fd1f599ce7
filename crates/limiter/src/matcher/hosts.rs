//! `hosts`: the hosts to which a limit applies: a name, `*.example.org` for every name below it, or
//! a list. The comparison ignores the port, case, a trailing dot, and the spelling of an IPv6
//! address (`[::1]` is `[0:0::1]`).

use super::{ConditionKind, Matcher};
use crate::request::{Part, PartId, Parts, Request, syntax};
use diana_base::sort;
use diana_document::{Node, quoted};

/// The kind `hosts`.
pub(super) static KIND: ConditionKind = ConditionKind { key: "hosts", compile };

#[derive(Debug)]
struct Hosts {
    part: PartId,
    /// Sorted, without duplicates.
    allowed: Vec<Host>,
}

/// In the spelling of [`syntax::host_name`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Host {
    /// This name or address.
    Name(Box<str>),
    /// All names with this suffix, which starts with a dot.
    Subdomains(Box<str>),
}

impl Matcher for Hosts {
    fn canonical_form(&self, parts: &Parts) -> String {
        let mut canonical_form = parts.canonical_form(self.part);
        for host in &self.allowed {
            let (mark, host) = match host {
                Host::Name(name) => (" ", name),
                Host::Subdomains(end) => (" *", end),
            };
            canonical_form.extend([mark, host]);
        }
        canonical_form
    }

    fn matches(&self, request: &Request) -> bool {
        let mut names = request.lines(self.part).map(syntax::host_name);
        names.any(|name| self.allowed.iter().any(|allowed| allowed.is(&name)))
    }
}

impl Host {
    fn is(&self, name: &[u8]) -> bool {
        match self {
            Host::Name(allowed) => allowed.as_bytes() == name,
            Host::Subdomains(end) => name.len() > end.len() && name.ends_with(end.as_bytes()),
        }
    }
}

fn compile(node: Node, parts: &mut Parts) -> Option<Box<dyn Matcher>> {
    let nodes = node.one_or_many();
    if nodes.is_empty() {
        node.fail("no host is listed, leave `hosts` out to match them all");
    }
    let listed = nodes.len();
    let mut allowed: Vec<_> = nodes.iter().filter_map(read).collect();
    let complete = listed > 0 && allowed.len() == listed;
    sort::sort_by_key(&mut allowed, Clone::clone);
    allowed.dedup();
    complete.then(|| Box::new(Hosts { part: parts.intern(Part::Host), allowed }) as Box<dyn Matcher>)
}

fn read(node: &Node) -> Option<Host> {
    parse(node.text()?).map_err(|why| node.fail(why)).ok()
}

fn parse(text: &str) -> Result<Host, String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let unbracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&name);
    if let Ok(address) = unbracketed.parse() {
        return Ok(Host::Name(syntax::host_of_address(address).into()));
    }
    if name == "*" {
        return Err("`*` is every host, leave `hosts` out to match them all".into());
    }
    if name.contains('/') {
        return Err(format!("{} is not a host, leave out the scheme and the path (see `url`)", quoted(text)));
    }
    if name.contains(':') {
        return Err(format!(
            "{} has a port, leave it out: a limit is about all ports of a host",
            quoted(text)
        ));
    }
    if !name.is_ascii() {
        return Err(format!("{} is not how clients ask for it, write its `xn--` form", quoted(text)));
    }
    let (below, labels) = match name.strip_prefix("*.") {
        Some(labels) => (true, labels),
        None => (false, name.as_str()),
    };
    if labels.contains('*') {
        return Err(format!(
            "`*` stands for the first labels of a host, as in `*.example.org`, found {}",
            quoted(text)
        ));
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if !labels.split('.').all(is_label) {
        return Err(format!(
            "{} is not a host, expected one such as `example.com`, `*.example.org` or `[::1]`",
            quoted(text)
        ));
    }
    Ok(if below { Host::Subdomains(format!(".{labels}").into()) } else { Host::Name(labels.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::testing::{matching, mistakes};

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
        assert_eq!(mistakes(&KIND, "1"), ["expected text, found `1`, put it in quotes"]);
    }
}
