//! Which callbacks the module has kept: a build removes those that its host can do without, see `gateway/src/filter.rs`.
//!
//! It does not know: how they are removed. Whoever does it changes the letter behind the mark.

use crate::response::ResponseOptions;
use crate::store::Rules;

/// What the letter stands behind.
const MARK: [u8; 20] = *b"\0diana's callbacks: ";

#[repr(C)]
struct Kept {
    mark: [u8; MARK.len()],
    letter: u8,
}

/// As it is linked, the module has them all.
#[used]
static KEPT: Kept = Kept { mark: MARK, letter: b'a' };

/// Which callbacks a host makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callbacks {
    /// All, those that do nothing included: `diana-nginx.wasm`.
    All,
    /// Those that do something: `diana.wasm`.
    Useful,
    /// The same without the response's: `diana-lean.wasm`.
    Lean,
}

/// What this module has kept.
impl Default for Callbacks {
    fn default() -> Callbacks {
        // SAFETY: it points to a byte that lives for ever. The compiler must not foresee what the build will write.
        match unsafe { std::ptr::read_volatile(&raw const KEPT.letter) } {
            b'e' => Callbacks::Useful,
            b'l' => Callbacks::Lean,
            _ => Callbacks::All,
        }
    }
}

impl Callbacks {
    /// Whether a configuration can do with them.
    pub(super) fn suffice(self, response: &ResponseOptions) -> Result<(), String> {
        match self == Callbacks::Lean && response.has_headers() {
            true => {
                Err("headers: `diana-lean.wasm` adds none to responses, write `headers: off` at the top \
                         of the configuration or load `diana.wasm`"
                    .into())
            }
            false => Ok(()),
        }
    }

    /// Whether a host can do with them. nginx, which its swap rules give away, calls all of them, and crashes
    /// when one is not there.
    pub(super) fn suffice_under(self, rules: Rules) -> Result<(), String> {
        match rules == Rules::Strict && self != Callbacks::All {
            true => Err("nginx crashes when a callback is missing, load `diana-nginx.wasm`".into()),
            false => Ok(()),
        }
    }
}
