//! Which callbacks a host makes to the proxy-wasm filter, and which a configuration needs. Tools
//! use this, too.

use diana_config::Configuration;

/// The callbacks that a host makes: those that the loaded file exports, without those that an
/// operator removes.
///
/// ```
/// use diana_filter::Exports;
///
/// let document = br#"{"headers": "off", "limits": [
///     {"url": "/", "rules": [{"algo": "LB", "rpu": 5, "unit": "second", "queue": 2}]}
/// ]}"#;
/// let configuration = diana_config::compile(document).expect("a valid configuration");
/// assert!(Exports::Useful.suffice(&configuration).is_ok());
/// assert!(Exports::WithoutContexts.suffice(&configuration).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exports {
    /// All callbacks, including those that do nothing.
    All,
    /// The callbacks that do something.
    Useful,
    /// Those that do something, without the creation and the end of contexts: what is left by the
    /// `capability_restriction_config` of `docs/files.md`, which also removes bodies and responses.
    WithoutContexts,
}

impl Exports {
    /// The name of the file that exports these callbacks.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Exports::All => "diana-nginx.wasm",
            Exports::Useful | Exports::WithoutContexts => "diana.wasm",
        }
    }

    /// Whether these callbacks suffice for a configuration. If not, the message names the key that
    /// needs more.
    pub fn suffice(self, configuration: &Configuration) -> Result<(), String> {
        if self != Exports::WithoutContexts {
            return Ok(());
        }
        let Configuration { policy, response, .. } = configuration;
        let measures = policy.measures();
        let (lacks, or) = if response.has_headers() {
            (
                "headers: the filter adds none to responses",
                ", or write `headers: off` at the top of the configuration",
            )
        } else if measures.response_headers() || measures.response_body() {
            ("charge, refund, cost or adapt: the filter does not read responses", "")
        } else if policy.needs_ends() {
            let lacks = "requests that wait or hold permits, costs of bodies, or global rules: the filter does not \
                         see the ends of requests";
            (lacks, "")
        } else {
            return Ok(());
        };
        Err(format!(
            "{lacks}, because `capability_restriction_config` leaves out `proxy_on_context_create`: allow all \
             callbacks{or}"
        ))
    }
}
