//! Which callbacks the files of the proxy-wasm filter export, and which callbacks a configuration
//! needs. Tools use this, too.

use diana_config::Configuration;

/// The callbacks that a file of the filter exports.
///
/// ```
/// use diana_filter::Exports;
///
/// let document = br#"{"headers": "off", "limits": [
///     {"url": "/", "rules": [{"algo": "LB", "rpu": 5, "unit": "second", "queue": 2}]}
/// ]}"#;
/// let configuration = diana_config::compile(document).expect("a valid configuration");
/// let mut files = Exports::OF_ENVOY.into_iter();
/// let fitting = files.find(|callbacks| callbacks.suffice(&configuration).is_ok());
/// assert_eq!(fitting.map(Exports::file), Some("diana.wasm"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exports {
    /// All callbacks, including those that do nothing.
    All,
    /// The callbacks that do something.
    Useful,
    /// Those for configurations, timers and calls, and for the headers of requests.
    Minimal,
}

impl Exports {
    /// The callbacks of the files for Envoy, the fewest first.
    pub const OF_ENVOY: [Exports; 2] = [Exports::Minimal, Exports::Useful];

    /// The name of the file that exports these callbacks.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Exports::All => "diana-nginx.wasm",
            Exports::Useful => "diana.wasm",
            Exports::Minimal => "diana-min.wasm",
        }
    }

    /// Whether these callbacks suffice for a configuration. If not, the message names the key that
    /// needs more, and the file to load.
    pub fn suffice(self, configuration: &Configuration) -> Result<(), String> {
        if self != Exports::Minimal {
            return Ok(());
        }
        let Configuration { policy, response, .. } = configuration;
        let measures = policy.measures();
        if response.has_headers() {
            return Err(
                "headers: `diana-min.wasm` adds none to responses, write `headers: off` at the top of \
                        the configuration or load `diana.wasm`"
                    .into(),
            );
        }
        if measures.response_headers() || measures.response_body() {
            return Err("charge, refund, cost or adapt: `diana-min.wasm` does not read responses, load \
                        `diana.wasm`"
                .into());
        }
        if policy.needs_ends() {
            return Err("requests that wait or hold permits, costs of bodies, or global rules: without \
                        `proxy_on_delete`, as in `diana-min.wasm`, the filter does not see the ends of \
                        requests, load `diana.wasm`"
                .into());
        }
        Ok(())
    }
}
