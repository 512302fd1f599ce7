//! The script that Redis runs: `script.lua` without comments, with short names, and with numbers in
//! place of constants. The compiler shortens and packs the text, so that the filter holds only the
//! result, 9,000 bytes in place of 20,000.

/// The text for `EVAL`.
pub const SCRIPT: &str = match std::str::from_utf8(&BYTES) {
    Ok(text) => text,
    Err(_) => "",
};

/// The SHA-1 of [`SCRIPT`] in hexadecimal, for `EVALSHA`.
pub const SHA1: &str = "b13a066f4db3777877eee732f863f632996065ef";

/// [`SCRIPT`], unpacked.
pub(crate) fn unpacked() -> String {
    let (mut text, mut packed) = (String::with_capacity(LEN), PACKED_BYTES.iter());
    while let Some(byte) = packed.next() {
        let (mut count, mut distance) = (1, 0);
        if !byte.is_ascii() {
            count = SHORTEST.saturating_add(usize::from(*byte >> 4 & 7));
            distance = usize::from(*byte & 15) << 8 | packed.next().map_or(0, |low| usize::from(*low));
        }
        for _ in 0..count {
            let from = text.len().saturating_sub(distance);
            text.push(char::from(*text.as_bytes().get(from).unwrap_or(byte)));
        }
    }
    text
}

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
const BYTES: [u8; LEN] = match SHORTENED.0.first_chunk() {
    Some(bytes) => *bytes,
    None => [0; LEN],
};

/// The fewest and the most bytes that a repetition has.
const SHORTEST: usize = 3;
const LONGEST: usize = SHORTEST + 7;

const PACKED: ([u8; LEN], usize) = packed();
static PACKED_BYTES: [u8; PACKED.1] = match PACKED.0.first_chunk() {
    Some(bytes) => *bytes,
    None => [0; PACKED.1],
};

/// Packs [`SCRIPT`], which is ASCII: the two bytes `1LLLDDDD DDDDDDDD` repeat the `L` + 3 bytes
/// that begin `D` bytes earlier.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)] // checked by the compiler
const fn packed() -> ([u8; LEN], usize) {
    const SLOTS: usize = 4096;
    let (mut out, mut len, mut at, mut next) = ([0; LEN], 0, 0, 0);
    // Behind the last place of three bytes with this hash, and at each place behind the one before.
    let (mut last, mut before) = ([0; SLOTS], [0; LEN]);
    while at < LEN {
        let hash = match BYTES.split_at(at).1 {
            [first, second, third, ..] => *first as usize * 961 + *second as usize * 31 + *third as usize,
            _ => 0,
        } % SLOTS;
        let mut behind = last[hash];
        (last[hash], before[at]) = (at + 1, behind);
        let (mut longest, mut distance) = (0, 0);
        while at == next && behind > 0 && at + 1 - behind < SLOTS {
            let mut equal = 0;
            while equal < LONGEST && at + equal < LEN && BYTES[at + equal] == BYTES[behind - 1 + equal] {
                equal += 1;
            }
            if equal > longest {
                (longest, distance) = (equal, at + 1 - behind);
            }
            behind = before[behind - 1];
        }
        if at == next && longest < SHORTEST {
            (out[len], len, next) = (BYTES[at], len + 1, at + 1);
        } else if at == next {
            out[len] = (0x80 | (longest - SHORTEST) << 4 | distance >> 8) as u8;
            (out[len + 1], len, next) = (distance as u8, len + 2, at + longest);
        }
        at += 1;
    }
    (out, len)
}

/// The start and the end of a word in the source.
type Word = (usize, usize);

/// More slots than the source has different words.
const SLOTS: usize = 512;

/// Leaves out comments and spaces where possible, and replaces each of our names by one or two
/// characters, in order of first use, and each constant by its number, because every local that a
/// function uses costs Redis time in each call. A constant begins with a capital, and its
/// definition is `local A, B = 1, 2`. The source quotes with `'` and has no escapes.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)] // checked by the compiler
const fn shortened() -> ([u8; SOURCE.len()], usize) {
    let (mut out, mut len) = ([0; SOURCE.len()], 0);
    // The words so far, what replaces each, and the numbers of those that get short names.
    let (mut words, mut texts): ([Word; SLOTS], [Word; SLOTS]) = ([(0, 0); SLOTS], [(0, 0); SLOTS]);
    let (mut numbers, mut known) = ([0; SLOTS], 0);
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
        if is_same((start, at), b"local", 0, 5) && SOURCE[at + 1].is_ascii_uppercase() {
            let mut equals = at;
            while SOURCE[equals] != b'=' {
                equals += 1;
            }
            let (mut name, mut value) = (next_word(at), next_word(equals));
            while name.1 < equals {
                let slot = slot(&words, name);
                (words[slot], texts[slot], at) = (name, value, value.1);
                (name, value) = (next_word(name.1), next_word(value.1));
            }
            continue;
        }
        if is_word && is_apart && len > 0 && is_of_word(out[len - 1]) {
            out[len] = b' ';
            len += 1;
        }
        is_apart = false;
        let (mut text, mut number) = ((start, at), 0);
        if is_word && !byte.is_ascii_digit() {
            let slot = slot(&words, text);
            if words[slot].1 == 0 {
                words[slot] = text;
                if is_kept(text) {
                    texts[slot] = text;
                } else {
                    (numbers[slot], known) = (known, known + 1);
                }
            }
            (text, number) = (texts[slot], numbers[slot]);
        }
        let mut from = text.0;
        while from < text.1 {
            out[len] = SOURCE[from];
            (from, len) = (from + 1, len + 1);
        }
        if text.1 > 0 {
            continue;
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

/// The first word at or behind `at`.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
const fn next_word(mut at: usize) -> Word {
    while !is_of_word(SOURCE[at]) {
        at += 1;
    }
    let start = at;
    while is_of_word(SOURCE[at]) {
        at += 1;
    }
    (start, at)
}

/// The slot of a word in a hash table, because the compiler limits the steps of a constant.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
const fn slot(words: &[Word; SLOTS], word: Word) -> usize {
    let (mut slot, mut at) = (0, word.0);
    while at < word.1 {
        slot = (slot * 31 + SOURCE[at] as usize) % SLOTS;
        at += 1;
    }
    while words[slot].1 > 0 && !is_same(word, SOURCE, words[slot].0, words[slot].1) {
        slot = (slot + 1) % SLOTS;
    }
    slot
}

const fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether the word at `one` in the source is `other`.
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
        assert!(SCRIPT.len() <= 21_100, "{} bytes", SCRIPT.len());
        assert!(PACKED_BYTES.len() <= 9_250, "{} bytes", PACKED_BYTES.len());
        assert_eq!(unpacked(), SCRIPT);
        assert!(
            SCRIPT.starts_with("local a=redis.call('TIME')a=a[1]*1000000+a[2]local max,min,"),
            "{SCRIPT}"
        );
        // `local GRANTED` and its use.
        assert!(!SCRIPT.contains("GRANTED") && SCRIPT.contains("==9007199254740991"), "{SCRIPT}");
        assert!(SCRIPT.contains("('%.0f '):rep(#"), "{SCRIPT}");
        assert!(!SCRIPT.contains("--") && !SCRIPT.contains("  "), "{SCRIPT}");
    }
}
