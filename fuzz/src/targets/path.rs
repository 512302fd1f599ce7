//! Request targets in all their readings.

use diana_limiter::request::path::{Path, Readings, segment};

/// The combinations of the four differences between backends.
const MOST_READINGS: usize = 16;

/// Longer than any target that a gateway accepts. Quadratic work on it would take a minute.
const LONGEST: usize = 1024 * 1024;
/// One in so many input lengths is also read at the longest length.
const LONG_ONE_IN: usize = 128;

/// Any bytes have readings, all of them normal. If the time grew with the square of the length, a
/// long target would take seconds, which the fuzzer does not allow.
pub fn run(bytes: &[u8]) {
    if !bytes.is_empty() && bytes.len().is_multiple_of(LONG_ONE_IN) {
        let long = bytes.repeat(LONGEST / bytes.len());
        assert!(Readings::of(&long).iter().count() <= MOST_READINGS);
    }
    let readings = Readings::of(bytes);
    let all: Vec<&Path> = readings.iter().collect();
    assert!(all.len() <= MOST_READINGS);
    assert!((1..all.len()).all(|at| !all[..at].contains(&all[at])), "a reading twice");
    all.into_iter().for_each(|path| normal(path, bytes.len()));

    if let Some(once) = segment(bytes) {
        assert_eq!(segment(&once).as_ref(), Some(&once), "a segment in its normal form is another");
    }
}

fn normal(path: &Path, sent: usize) {
    let bytes = path.as_bytes();
    // At most, each byte becomes an escape, and a missing slash is added in front.
    assert!(bytes.len() <= 3 * sent + 1);
    assert!(bytes.starts_with(b"/") && (bytes == b"/" || !bytes.ends_with(b"/")));
    assert!(path.segments().all(|segment| !matches!(segment, b"." | b"..")));
    assert_eq!(bytes.iter().filter(|byte| **byte == b'/').count(), path.segments().count().max(1));
    assert!(bytes.iter().all(u8::is_ascii_graphic));

    assert_eq!(strict(bytes), bytes, "a path in its normal form is read as another");
    assert_eq!(strict(&escaped(bytes)), bytes, "its escapes make another path of it");
    assert_eq!(strict(&lowered(bytes)), bytes, "the case of its escapes makes another path of it");
    assert_eq!(strict(&[bytes, b"/./?/../x"].concat()), bytes);
}

fn strict(target: &[u8]) -> Vec<u8> {
    Readings::of(target).iter().next().map(|path| path.as_bytes().to_vec()).unwrap()
}

/// The same path with escapes in lower case; each `%` begins an escape.
fn lowered(path: &[u8]) -> Vec<u8> {
    let mut out = path.to_vec();
    for at in (0..path.len()).filter(|at| path[*at] == b'%') {
        out[at + 1..at + 3].make_ascii_lowercase();
    }
    out
}

/// The same target with letters, digits and dots as escapes, except inside an escape.
pub fn escaped(target: &[u8]) -> Vec<u8> {
    let (mut rest, mut out) = (target, Vec::new());
    while let [first, behind @ ..] = rest {
        let is_escape = *first == b'%' && behind.len() >= 2 && behind[..2].iter().all(u8::is_ascii_hexdigit);
        let length = if is_escape { 3 } else { 1 };
        if first.is_ascii_alphanumeric() || *first == b'.' {
            out.extend(format!("%{first:02x}").bytes());
        } else {
            out.extend(&rest[..length]);
        }
        rest = &rest[length..];
    }
    out
}
