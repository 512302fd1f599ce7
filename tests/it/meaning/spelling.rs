//! JSON values in different spellings of the same meaning.

use crate::harness::Random;

pub fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// `1000`, `1000.0` and `1e3` are the same number.
pub fn number(random: &mut Random, number: u64) -> String {
    match random.below(3) {
        0 => format!("{number}.0"),
        1 => format!("{}e1", number as f64 / 10.0),
        _ => number.to_string(),
    }
}

/// `2000` and `"2k"` are the same size.
pub fn size(random: &mut Random, units: u64) -> String {
    match units {
        1.. if units.is_multiple_of(1_000) && random.below(2) == 0 => quoted(&format!("{}k", units / 1_000)),
        _ => number(random, units),
    }
}

/// The items in any order, possibly with a duplicate; a single item may stand without a list.
pub fn list(random: &mut Random, mut items: Vec<String>) -> String {
    if random.below(3) == 0 {
        items.push(items[random.below(items.len())].clone());
    }
    match items.as_slice() {
        [only] if random.below(2) == 0 => only.clone(),
        _ => format!("[{}]", shuffled(random, items).join(", ")),
    }
}

pub fn object(random: &mut Random, keys: Vec<(String, String)>) -> String {
    let keys = keys.into_iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    format!("{{{}}}", shuffled(random, keys).join(", "))
}

pub fn shuffled<T>(random: &mut Random, mut items: Vec<T>) -> Vec<T> {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
    items
}
