//! Which callbacks the files of the proxy-wasm filter export, and which callbacks a configuration
//! needs. Tools use this, too.

use super::HostKind;
use diana_config::Configuration;

/// The callbacks that a file of the filter exports.
///
/// ```
/// use diana_filter::Callbacks;
///
/// let document = br#"{"headers": "off", "limits": [
///     {"url": "/", "rules": [{"algo": "LB", "rpu": 5, "unit": "second", "queue": 2}]}
/// ]}"#;
/// let configuration = diana_config::compile(document).expect("a valid configuration");
/// let mut files = Callbacks::OF_ENVOY.into_iter();
/// let fitting = files.find(|callbacks| callbacks.suffice(&configuration).is_ok());
/// assert_eq!(fitting.map(Callbacks::file), Some("diana-lean.wasm"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callbacks {
    /// All callbacks, including those that do nothing.
    All,
    /// The callbacks that do something.
    Settle,
    /// The same without the callback for response bodies.
    Useful,
    /// The same without the callback for response headers besides.
    Lean,
    /// Those for configurations, timers and calls, and for the headers of requests.
    Minimal,
}

impl Callbacks {
    /// The callbacks of the files for Envoy, the fewest first. Each file has all callbacks of the
    /// files before it.
    pub const OF_ENVOY: [Callbacks; 4] =
        [Callbacks::Minimal, Callbacks::Lean, Callbacks::Useful, Callbacks::Settle];

    /// The name of the file that exports these callbacks.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Callbacks::All => "diana-nginx.wasm",
            Callbacks::Settle => "diana-settle.wasm",
            Callbacks::Useful => "diana.wasm",
            Callbacks::Lean => "diana-lean.wasm",
            Callbacks::Minimal => "diana-min.wasm",
        }
    }

    /// Whether these callbacks suffice for a configuration. If not, the message names a file whose
    /// callbacks do.
    pub fn suffice(self, configuration: &Configuration) -> Result<(), String> {
        let Configuration { policy, response, .. } = configuration;
        let measures = policy.measures();
        let file = match self {
            Callbacks::All | Callbacks::Settle => return Ok(()),
            Callbacks::Useful => "this file",
            Callbacks::Lean => "`diana-lean.wasm`",
            Callbacks::Minimal => "`diana-min.wasm`",
        };
        let has_response = self == Callbacks::Useful;
        if !has_response && response.has_headers() {
            return Err(format!(
                "headers: {file} adds none to responses, write `headers: off` at the top of the \
                 configuration or load `diana.wasm`"
            ));
        }
        if measures.response_body() {
            return Err(
                "cost: this file does not read the bodies of responses, load `diana-settle.wasm`".into()
            );
        }
        if !has_response && measures.response_headers() {
            return Err(format!(
                "charge, refund, cost or adapt: {file} does not read responses, load `diana.wasm`"
            ));
        }
        if self == Callbacks::Minimal && policy.needs_ends() {
            return Err("requests that wait or hold permits, costs of bodies, or global rules: without \
                 `proxy_on_delete`, as in `diana-min.wasm`, the filter does not see the ends of requests, \
                 load `diana-lean.wasm`"
                .into());
        }
        Ok(())
    }

    /// Whether these callbacks suffice for a host. nginx calls all callbacks and crashes if one is
    /// missing.
    pub fn suffice_for(self, host: HostKind) -> Result<(), String> {
        match host.is_nginx() && self != Callbacks::All {
            true => Err("nginx crashes when a callback is missing, load `diana-nginx.wasm`".into()),
            false => Ok(()),
        }
    }
}
