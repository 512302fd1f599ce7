//! The blocks of a configuration of nginx, and what they inherit.

use anyhow::{Context, Result, bail};
use diana_cli::source::nginx::{Directive, directives};

/// What may be ignored: it concerns no decision, or an assertion that is listed as different.
const IGNORED: [&str; 15] = [
    "access_log",
    "client_body_in_file_only",
    "client_body_temp_path",
    "daemon",
    "error_log",
    "events",
    "fastcgi_temp_path",
    "limit_conn_log_level",
    "log_format",
    "pid",
    "proxy_temp_path",
    "root",
    "scgi_temp_path",
    "server_name",
    "uwsgi_temp_path",
];

/// What the translation reads.
const READ: [&str; 16] = [
    "add_header",
    "alias",
    "http",
    "http2",
    "limit_conn",
    "limit_conn_dry_run",
    "limit_conn_status",
    "limit_conn_zone",
    "limit_req",
    "limit_req_dry_run",
    "limit_req_status",
    "limit_req_zone",
    "listen",
    "location",
    "proxy_pass",
    "server",
];

/// The directives in their order, each with its block.
pub struct Blocks(Vec<Directive>);

/// A location, or what a server does with all other paths.
pub struct Location {
    pub block: usize,
    pub prefix: String,
    /// The name of its route in Envoy.
    pub route: String,
}

impl Blocks {
    /// Reads a configuration. A directive that the translation does not know is an error: without
    /// it the tests would have another meaning.
    pub fn read(text: &str) -> Result<Self> {
        let directives = directives(text)?;
        for directive in &directives {
            let words = directive.texts();
            let name = words.first().copied().unwrap_or_default();
            if !READ.contains(&name) && !IGNORED.contains(&name) {
                bail!("nothing is known about `{}`", words.join(" "));
            }
        }
        Ok(Self(directives))
    }

    /// The block `http`.
    pub fn http(&self) -> Result<usize> {
        self.inside(None, "http").first().copied().context("no block `http`")
    }

    /// The directives of this name in a block, by their places.
    pub fn inside(&self, block: Option<usize>, name: &str) -> Vec<usize> {
        let all = self.0.iter().enumerate();
        let of_block = all.filter(|(_, directive)| directive.parent == block);
        of_block.filter(|(_, directive)| directive.texts().first() == Some(&name)).map(|(at, _)| at).collect()
    }

    /// The arguments of a directive.
    pub fn arguments(&self, at: usize) -> Vec<&str> {
        self.0.get(at).map(|directive| directive.texts().split_off(1)).unwrap_or_default()
    }

    /// The arguments of the directives of this name in a block, or without any, in the next outer
    /// block that has some.
    pub fn inherited(&self, block: usize, name: &str) -> Vec<Vec<&str>> {
        let mut block = Some(block);
        while let Some(at) = block {
            let found = self.inside(Some(at), name);
            if !found.is_empty() {
                return found.into_iter().map(|at| self.arguments(at)).collect();
            }
            block = self.0.get(at).and_then(|directive| directive.parent);
        }
        Vec::new()
    }

    /// The last argument of a directive that a block has once, or inherits.
    pub fn value(&self, block: usize, name: &str) -> Option<&str> {
        self.inherited(block, name).first().and_then(|words| words.last().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_inherits_from_the_next_outer_one() {
        let text = "http { limit_req_status 501; server { limit_req zone=a; limit_req zone=b; \
                    location / { } location /c { limit_req zone=c; } } }";
        let blocks = Blocks::read(text).unwrap();
        let server = blocks.inside(Some(blocks.http().unwrap()), "server")[0];
        let [all, one] = blocks.inside(Some(server), "location")[..] else { panic!("two locations") };
        assert_eq!(blocks.inherited(all, "limit_req"), [["zone=a"], ["zone=b"]]);
        assert_eq!(blocks.inherited(one, "limit_req"), [["zone=c"]]);
        assert_eq!(blocks.value(one, "limit_req_status"), Some("501"));
        let error = Blocks::read("http { perl_set $x y; }").err().unwrap();
        assert_eq!(error.to_string(), "nothing is known about `perl_set $x y`");
    }
}
