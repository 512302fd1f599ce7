//! The two kinds of host, which allow a filter different things.

use diana_config::Configuration;
use diana_document::quoted;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::policy::Policy;
use diana_limiter::request::joined::separator;

/// A kind of host. No host call names the host, but the two kinds compare and swap shared data by
/// different rules, from which the filter infers the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// A host that holds requests, and does all else that a filter asks for.
    Full,
    /// A host that cannot hold requests, and whose header map must not be read whole.
    Restricted,
}

impl HostKind {
    /// The kind of host whose shared data has these rules.
    #[must_use]
    pub fn of(rules: CasSemantics) -> HostKind {
        match rules {
            CasSemantics::Lenient => HostKind::Full,
            CasSemantics::Strict => HostKind::Restricted,
        }
    }

    /// Whether the filter may hold requests and set the timer. A restricted host crashes if a timer
    /// resumes a request or a stream sets the timer.
    #[must_use]
    pub fn holds_requests(self) -> bool {
        self == HostKind::Full
    }

    /// Whether one call may read all request headers. A restricted host crashes at about 100 lines.
    #[must_use]
    pub fn reads_all_headers(self) -> bool {
        self == HostKind::Full
    }

    /// Whether the host may evict keys of the shared data, also the seed.
    pub(crate) fn evicts_keys(self) -> bool {
        self == HostKind::Restricted
    }

    /// Whether the client may get another response in place of a refusal that the filter has sent.
    pub(crate) fn replaces_refusals(self) -> bool {
        self == HostKind::Restricted
    }

    /// Whether plugins are in force side by side for good, as the directives of a restricted host
    /// are: a reload starts new workers with empty shared data. Its values must not grow either.
    pub(crate) fn has_documents_side_by_side(self) -> bool {
        self == HostKind::Restricted
    }

    /// Whether the host's clock counts milliseconds, which the host converts to nanoseconds as a
    /// `double`, so that a reading is up to 128 ns off.
    pub(crate) fn counts_ms(self) -> bool {
        self == HostKind::Restricted
    }

    /// Whether the host has gauges, histograms, and room for any number of counters. A restricted
    /// host ends the VM when a gauge is incremented or the memory for metrics is full.
    pub(crate) fn has_all_metrics(self) -> bool {
        self == HostKind::Full
    }

    /// The settings of a configuration that a host of this kind does not support, as messages;
    /// empty if it supports all of them. `name`: the host's name in the messages.
    #[must_use]
    pub fn refusals(self, configuration: &Configuration, name: &str) -> Vec<String> {
        if self == HostKind::Full {
            return Vec::new();
        }
        let Configuration { policy, response, store, remote, inspect, soft_limits, .. } = configuration;
        let mut refusals: Vec<String> = unreadable(policy, name).chain(never_found(policy, name)).collect();
        if store.is_some() {
            refusals.push("store: this host cannot hold requests while a store is asked".into());
        }
        if remote.is_some() {
            refusals.push("remote: this host's timer cannot be set to the times of polls".into());
        }
        if inspect.as_ref().is_some_and(|inspect| inspect.top) {
            refusals
                .push("inspect.top: this host has no timer that could add the counts of all workers".into());
        }
        if !soft_limits.thresholds().is_empty() {
            refusals.push(format!("over: the filter does not mark requests in {name}"));
        }
        if policy.body_parts().next().is_some() {
            let key = if response.reads_calls() { "response.json_rpc" } else { "request_json" };
            refusals.push(format!("{key}: the filter does not read the bodies of requests in {name}"));
        }
        if policy.measures().any() {
            refusals.push(format!(
                "charge, refund, cost or adapt: the filter does not measure responses and bodies in {name}"
            ));
        }
        refusals
    }
}

/// Headers for which a restricted host has no variable, or a variable that another header may fill
/// as well.
fn unreadable(policy: &Policy, host: &str) -> impl Iterator<Item = String> {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    policy.headers().filter(move |name| !is_plain(name)).map(move |name| {
        format!(
            "the header `{name}` cannot be read in {host}, which has variables only for names of letters, digits and `-`: \
             rename the header"
        )
    })
}

/// Values that contain a separator. A request with such a value lacks the actor, because the value
/// may be two lines.
fn never_found(policy: &Policy, host: &str) -> impl Iterator<Item = String> {
    let has_separator = |(name, value): &(&str, &[u8])| {
        let separator = separator(name);
        value.windows(separator.len()).any(|window| window == separator)
    };
    policy.header_values().filter(has_separator).map(move |(name, value)| {
        let value = quoted(&String::from_utf8_lossy(value));
        format!("the value {value} of the header `{name}` is never found in {host}, which joins lines with the same separator")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> Vec<String> {
        HostKind::Restricted.refusals(&diana_config::compile(json.as_bytes()).unwrap(), "the host")
    }

    #[test]
    fn a_header_without_a_variable_of_its_own_is_refused() {
        let limit = |headers: &str| format!(r#"{{"url": "/", "headers": {headers}, "exclusive": true}}"#);
        assert_eq!(refused(&limit(r#"{"X-Plan-2": "a"}"#)), [""; 0]);
        for name in ["x_plan", "x.plan", "x!", "x-plan_2"] {
            let found = refused(&limit(&format!(r#"{{"{name}": "a"}}"#)));
            assert!(found.len() == 1 && found[0].starts_with(&format!("the header `{name}` ")), "{found:?}");
        }
        let actor = r#"{"limits": [], "actors": {"a": {"header": "x_a"}}, "deny": [{"a": "1"}], "ip": {"trusted_hops": 1, "header": "x_b"}}"#;
        assert_eq!(refused(actor).len(), 2);
    }

    #[test]
    fn a_value_that_is_never_found_is_refused() {
        let rule = |value: &str| {
            format!(
                r#"{{"limits": [{{"url": "/", "rules": [
                    {{"actor": "user", "rpu": 9, "unit": "day", "overrides": {{"{value}": {{"rpu": 1}}}}}}]}}],
                    "deny": [{{"device": "{value}"}}, {{"session": "{value}"}}], "allow": [{{"user": "{value}"}}],
                    "actors": {{"session": {{"cookie": "s"}}}}}}"#
            )
        };
        assert_eq!(refused(&rule("Doe,Ann")), [""; 0]);
        let found = refused(&rule("Doe, Ann"));
        assert_eq!(found.len(), 3, "{found:?}");
        let of = |header: &str| {
            let words = format!("the value `Doe, Ann` of the header `{header}` is never found in the host");
            found.iter().filter(|why| why.starts_with(&words)).count()
        };
        assert_eq!((of("x-user-id"), of("x-device-id")), (2, 1), "{found:?}");
    }

    #[test]
    fn a_store_and_a_server_of_documents_are_refused() {
        let found = refused(
            r#"{"limits": [], "remote": {"cluster": "c", "path": "/"},
                "store": {"redis": {"cluster": "c", "secret": "0123456789abcdef"}}}"#,
        );
        assert!(found[0].starts_with("store: ") && found[1].starts_with("remote: "), "{found:?}");
        assert_eq!(found.len(), 2);
    }
}
