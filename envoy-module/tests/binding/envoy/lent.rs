//! Memory that Envoy lends for one event. After the event, the memory cannot be read: a module that
//! keeps a pointer crashes.

use diana_envoy_module::abi::Bytes;
use std::collections::VecDeque;
use std::ptr::{NonNull, null_mut};

/// The size of one piece of memory. The bytes of an event take several pieces, but a chunk takes one,
/// and the largest is half a call with seventeen scripts.
const PIECE: usize = 1 << 20;

/// A piece is reused only after this many other events.
const POOL: usize = 64;

/// Pieces of memory: those of the running events, and those that nobody may read.
#[derive(Default)]
pub struct Lender {
    /// The pieces of each running event. The last event interrupts those before.
    events: Vec<Vec<Piece>>,
    unreadable: VecDeque<NonNull<u8>>,
}

struct Piece {
    start: NonNull<u8>,
    used: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Lender {}

impl Lender {
    /// An event begins.
    pub fn begin(&mut self) {
        self.events.push(Vec::new());
    }

    /// The last event ends.
    pub fn end(&mut self) {
        for Piece { start, .. } in self.events.pop().unwrap() {
            protect(start, libc::PROT_NONE);
            self.unreadable.push_back(start);
        }
    }

    /// A copy of these bytes, until the event ends.
    pub fn lend(&mut self, bytes: &[u8]) -> Bytes {
        assert!(bytes.len() <= PIECE);
        let unreadable = &mut self.unreadable;
        let pieces = self.events.last_mut().expect("Envoy lends memory during events only");
        if pieces.last().is_none_or(|piece| PIECE - piece.used < bytes.len()) {
            let known = if unreadable.len() < POOL { None } else { unreadable.pop_front() };
            let start = known.inspect(|start| protect(*start, libc::PROT_READ | libc::PROT_WRITE));
            pieces.push(Piece { start: start.unwrap_or_else(map), used: 0 });
        }
        let piece = pieces.last_mut().unwrap();
        // SAFETY: the piece has room for the bytes.
        let start = unsafe {
            let start = piece.start.add(piece.used).as_ptr();
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            start
        };
        piece.used += bytes.len();
        Bytes { start, size: bytes.len() }
    }
}

/// A new piece.
fn map() -> NonNull<u8> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: this is newly mapped memory, which is never unmapped.
    let start = unsafe { libc::mmap(null_mut(), PIECE, access, kind, -1, 0) };
    assert!(start != libc::MAP_FAILED, "no memory");
    NonNull::new(start.cast()).unwrap()
}

fn protect(start: NonNull<u8>, access: i32) {
    // SAFETY: this is the memory of a whole piece.
    let result = unsafe { libc::mprotect(start.as_ptr().cast(), PIECE, access) };
    assert_eq!(result, 0);
}
