//! The script that Redis runs: `script.lua` without comments and with short names. The compiler
//! shortens the text, so that the filter holds only the result.

/// The text for `EVAL`.
pub const SCRIPT: &str = match std::str::from_utf8(&BYTES) {
    Ok(text) => text,
    Err(_) => "",
};

/// The SHA-1 of [`SCRIPT`] in hexadecimal, for `EVALSHA`.
pub const SHA1: &str = "55a234d235e48cbff5fbf3ddf6a6048bec1af9c6";

/// The source, with comments and full names.
const SOURCE: &[u8] = include_bytes!("script.lua");

/// The words of Lua and Redis. All other words of the source are our names of values and fields.
const KEPT: [&[u8]; 40] = [
    b"KEYS",
    b"ARGV",
    b"and",
    b"break",
    b"call",
    b"ceil",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"floor",
    b"for",
    b"format",
    b"function",
    b"gmatch",
    b"huge",
    b"if",
    b"in",
    b"ipairs",
    b"local",
    b"match",
    b"math",
    b"max",
    b"min",
    b"nil",
    b"not",
    b"or",
    b"pairs",
    b"pcall",
    b"redis",
    b"rep",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"type",
    b"unpack",
    b"until",
    b"while",
];

#[allow(long_running_const_eval)]
const SHORTENED: ([u8; SOURCE.len()], usize) = shortened();
const LEN: usize = SHORTENED.1;
/// Exactly as long as the text, because the filter contains all of it.
#[allow(clippy::large_const_arrays)] // a static cannot be sliced by the compiler
const BYTES: [u8; LEN] = match SHORTENED.0.split_at(LEN).0.first_chunk() {
    Some(bytes) => *bytes,
    None => [0; LEN],
};

/// The start and the end of a word in the source.
type Word = (usize, usize);

/// Leaves out comments and spaces where possible, and replaces each of our names by one or two
/// characters, in order of first use. The source quotes with `'` and has no escapes.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)] // checked by the compiler
const fn shortened() -> ([u8; SOURCE.len()], usize) {
    let (mut out, mut len) = ([0; SOURCE.len()], 0);
    let (mut names, mut known): ([Word; 256], usize) = ([(0, 0); 256], 0);
    let (mut at, mut is_apart) = (0, false);
    while at < SOURCE.len() {
        let (start, byte) = (at, SOURCE[at]);
        at += 1;
        if byte.is_ascii_whitespace() {
            is_apart = true;
            continue;
        }
        if byte == b'-' && at < SOURCE.len() && SOURCE[at] == b'-' {
            while at < SOURCE.len() && SOURCE[at] != b'\n' {
                at += 1;
            }
            continue;
        }
        if byte == b'\'' {
            // Text in quotes stays unchanged.
            while SOURCE[at] != b'\'' {
                at += 1;
            }
            at += 1;
        }
        let is_word = is_of_word(byte);
        while is_word && at < SOURCE.len() && is_of_word(SOURCE[at]) {
            at += 1;
        }
        if is_word && is_apart && len > 0 && is_of_word(out[len - 1]) {
            out[len] = b' ';
            len += 1;
        }
        is_apart = false;
        if !is_word || byte.is_ascii_digit() || is_kept((start, at)) {
            let mut from = start;
            while from < at {
                out[len] = SOURCE[from];
                (from, len) = (from + 1, len + 1);
            }
            continue;
        }
        let mut number = 0;
        while number < known && !is_same((start, at), SOURCE, names[number].0, names[number].1) {
            number += 1;
        }
        if number == known {
            names[known] = (start, at);
            known += 1;
        }
        const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        if number >= LETTERS.len() {
            // No word of Lua ends in a digit.
            out[len] = LETTERS[(number - 52) / 10];
            out[len + 1] = b'0' + ((number - 52) % 10) as u8;
            len += 2;
        } else {
            out[len] = LETTERS[number];
            len += 1;
        }
    }
    (out, len)
}

const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether the word at `one` in the source is `other`. Most words differ in their lengths or first
/// letters, and the compiler limits the steps of a constant.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
const fn is_same(one: Word, other: &[u8], start: usize, end: usize) -> bool {
    if one.1 - one.0 != end - start || SOURCE[one.0] != other[start] {
        return false;
    }
    let mut at = 1;
    while start + at < end && SOURCE[one.0 + at] == other[start + at] {
        at += 1;
    }
    start + at == end
}

#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
const fn is_kept(word: Word) -> bool {
    let mut at = 0;
    while at < KEPT.len() {
        if is_same(word, KEPT[at], 0, KEPT[at].len()) {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha1::{Digest, Sha1};

    #[test]
    fn the_sha1_is_that_of_the_sent_script() {
        let sum: String = Sha1::digest(SCRIPT).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(SHA1, sum, "script.lua has changed: `SHA1` in script.rs is {sum}");
    }

    #[test]
    fn the_sent_script_is_minified() {
        assert!(SCRIPT.len() <= 21_000, "{} bytes", SCRIPT.len());
        assert!(
            SCRIPT.starts_with("local a=redis.call('TIME')a=a[1]*1000000+a[2]local b,c,d,e="),
            "{SCRIPT}"
        );
        assert!(SCRIPT.contains("('%.0f '):rep(#"), "{SCRIPT}");
        assert!(!SCRIPT.contains("--") && !SCRIPT.contains("  "), "{SCRIPT}");
    }
}
