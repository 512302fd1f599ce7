//! The set of callbacks that this build of the module exports. A build removes the callbacks that
//! its host does not need (`gateway/src/filter.rs`) and changes the letter behind the mark to say
//! so.

use diana_filter::Exports;

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

/// The callbacks that this module exports.
pub fn exported() -> Exports {
    // SAFETY: the pointer is to a static byte. The read is volatile because a build changes the
    // byte after the compiler has run.
    match unsafe { std::ptr::read_volatile(&raw const KEPT.letter) } {
        b'e' => Exports::Useful,
        _ => Exports::All,
    }
}
