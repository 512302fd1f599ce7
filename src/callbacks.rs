//! The set of callbacks that this build of the module exports. A build removes the callbacks that
//! its host does not need (`gateway/src/filter.rs`) and changes the letter behind the mark to say
//! so.

use diana_config::Configuration;
use diana_filter::HostKind;

/// The bytes in front of the letter, by which a build finds it.
const MARK: [u8; 20] = *b"\0diana's callbacks: ";

#[repr(C)]
struct Kept {
    mark: [u8; MARK.len()],
    letter: u8,
}

/// The linker output exports all callbacks.
#[used]
static KEPT: Kept = Kept { mark: MARK, letter: b'a' };

/// The callbacks that a host makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callbacks {
    /// All callbacks, including those that do nothing: `diana-nginx.wasm`.
    All,
    /// The callbacks that do something: `diana-settle.wasm`.
    Settle,
    /// The same without the callback for response bodies: `diana.wasm`.
    Useful,
    /// The same without the callback for response headers besides: `diana-lean.wasm`.
    Lean,
    /// Those for configurations, timers and calls, and for the headers of requests:
    /// `diana-min.wasm`.
    Minimal,
}

/// The callbacks that this module exports.
impl Default for Callbacks {
    fn default() -> Callbacks {
        // SAFETY: the pointer is to a static byte. The read is volatile because a build changes the
        // byte after the compiler has run.
        match unsafe { std::ptr::read_volatile(&raw const KEPT.letter) } {
            b's' => Callbacks::Settle,
            b'e' => Callbacks::Useful,
            b'l' => Callbacks::Lean,
            b'm' => Callbacks::Minimal,
            _ => Callbacks::All,
        }
    }
}

impl Callbacks {
    /// Whether these callbacks suffice for a configuration. If not, the message names a file whose
    /// callbacks do.
    pub(crate) fn suffice(self, configuration: &Configuration) -> Result<(), String> {
        let Configuration { policy, response, remote, .. } = configuration;
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
        let has_canary = remote.as_ref().is_some_and(|remote| remote.canary.is_some());
        if self == Callbacks::Minimal && (has_canary || policy.needs_ends()) {
            return Err(
                "requests that wait or hold permits, costs of bodies, global rules or canary: without \
                 `proxy_on_delete`, as in `diana-min.wasm`, the filter does not see the ends of requests, \
                 load `diana-lean.wasm`"
                    .into(),
            );
        }
        Ok(())
    }

    /// Whether these callbacks suffice for a host. nginx calls all callbacks and crashes if one is
    /// missing.
    pub(crate) fn suffice_for(self, host: HostKind) -> Result<(), String> {
        match host.is_nginx() && self != Callbacks::All {
            true => Err("nginx crashes when a callback is missing, load `diana-nginx.wasm`".into()),
            false => Ok(()),
        }
    }
}
