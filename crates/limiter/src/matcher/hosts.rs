//! `hosts`: the hosts to which a limit applies: a name, `*.example.org` for every name below it, a
//! list, or `{not: …}`: all others. The comparison ignores the port, case, a trailing dot, and the
//! spelling of an IPv6 address (`[::1]` is `[0:0::1]`).

use super::condition::{holds_by_all, holds_by_one};
use super::{ConditionError, Matcher};
use crate::request::{Part, PartId, Parts, Request, syntax};
use diana_base::sort;
use std::fmt;
use std::str::FromStr;

/// The condition `hosts`.
///
/// ```
/// use diana_limiter::matcher::{Hosts, Matcher};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let mut parts = Parts::default();
/// let tenants = Hosts::new(vec!["*.example.org".parse()?], &mut parts)?;
/// let request = Values::default().with(Part::Host, "A.example.org:8443");
/// assert!(tenants.matches(&Request::new(&request, &parts)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Hosts {
    part: PartId,
    /// Sorted, without duplicates.
    listed: Vec<HostPattern>,
    /// Whether the limit applies to all other hosts.
    is_negated: bool,
}

/// A host of the condition `hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// In the spelling of [`syntax::host_name`].
    name: Box<str>,
    /// Whether the name is the end of all names that are meant. It then starts with a dot.
    is_end: bool,
}

/// Why a text is no [`HostPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// `*` is every host.
    Everything,
    /// The text has a scheme or a path.
    Path,
    /// The text has a port.
    Port,
    /// Clients ask for the `xn--` form of the name.
    NotAscii,
    /// `*` stands for something else than the first labels.
    Wildcard,
    /// The text is no host's name.
    Name,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("expected a host such as `example.com`, `*.example.org` or `[::1]`")
    }
}

impl std::error::Error for HostError {}

impl FromStr for HostPattern {
    type Err = HostError;

    #[inline]
    fn from_str(text: &str) -> Result<HostPattern, HostError> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let unbracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&name);
        if let Ok(address) = unbracketed.parse() {
            return Ok(HostPattern { name: syntax::host_of_address(address).into(), is_end: false });
        }
        let (is_end, labels) = match name.strip_prefix("*.") {
            Some(labels) => (true, labels),
            None => (false, &*name),
        };
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match () {
            () if name == "*" => Err(HostError::Everything),
            () if name.contains('/') => Err(HostError::Path),
            () if name.contains(':') => Err(HostError::Port),
            () if !name.is_ascii() => Err(HostError::NotAscii),
            () if labels.contains('*') => Err(HostError::Wildcard),
            () if !labels.split('.').all(is_label) => Err(HostError::Name),
            () if is_end => Ok(HostPattern { name: [".", labels].concat().into(), is_end }),
            () => Ok(HostPattern { name: labels.into(), is_end }),
        }
    }
}

impl Hosts {
    /// The condition that the host is one of these.
    pub fn new(mut hosts: Vec<HostPattern>, parts: &mut Parts) -> Result<Hosts, ConditionError> {
        if hosts.is_empty() {
            return Err(ConditionError::Nothing);
        }
        sort::sort_by_key(&mut hosts, |host| (host.is_end, host.name.clone()));
        hosts.dedup();
        Ok(Hosts { part: parts.intern(Part::Host), listed: hosts, is_negated: false })
    }

    /// The condition that the host is none of these, or that there is no host.
    #[must_use]
    pub fn negated(self) -> Hosts {
        Hosts { is_negated: true, ..self }
    }

    /// Whether the condition holds for a host. A backend may take for a listed host what is no
    /// host's name, so the exclusion of such a text is unclear: `None`.
    fn verdict(&self, authority: &[u8]) -> Option<bool> {
        let name = syntax::host_name(authority);
        if self.listed.iter().any(|listed| listed.is(&name)) {
            return Some(!self.is_negated);
        }
        let is_host = |name: &str| !name.ends_with('.') && name.parse::<HostPattern>().is_ok();
        (!self.is_negated || str::from_utf8(&name).is_ok_and(is_host)).then_some(self.is_negated)
    }
}

impl Matcher for Hosts {
    fn canonical_form(&self, parts: &Parts) -> String {
        let mut canonical_form = parts.canonical_form(self.part);
        canonical_form.push_str(if self.is_negated { " not" } else { "" });
        for host in &self.listed {
            canonical_form.extend([if host.is_end { " *" } else { " " }, &*host.name]);
        }
        canonical_form
    }

    fn matches(&self, request: &Request) -> bool {
        let hosts = request.lines(self.part);
        self.is_negated && hosts.clone().next().is_none() || holds_by_one(hosts, &|host| self.verdict(host))
    }

    fn is_certain(&self, request: &Request) -> bool {
        holds_by_all(request.lines(self.part), &|host| self.verdict(host))
    }
}

impl HostPattern {
    fn is(&self, name: &[u8]) -> bool {
        match self.is_end {
            false => self.name.as_bytes() == name,
            true => name.len() > self.name.len() && name.ends_with(self.name.as_bytes()),
        }
    }
}
