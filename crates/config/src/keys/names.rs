//! Names of keys for the parser. The compiler evaluates these lists, so that the filter does not
//! contain the rest of the table.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "checked by the compiler")]

use super::document::{ACTOR, DENY_MEMBERS, DOCUMENT};
use super::kinds::{ACTOR_KINDS, ALGORITHM_KEYS, CONDITION_KINDS};
use super::limit::{CONDITIONS, LIMIT};
use super::rule::{ALGORITHM, RULE};
use super::shape::Key;
use super::store::{REDIS, REMOTE, STORE};

/// The names of keys, without those in a second list.
macro_rules! names {
    ($keys:expr) => {
        names!($keys, &[])
    };
    ($keys:expr, $except:expr) => {{
        const NAMES: [&str; count($keys, $except)] = pick($keys, $except);
        &NAMES
    }};
}

/// The keys at the top. `headers` and `ip` are keys of a limit as well, with another meaning.
pub(crate) const TOP_KEYS: &[&str] = names!(DOCUMENT.groups, &["headers", "ip"]);
/// The keys of a limit. Those left out are keys of the document as well.
pub(crate) const LIMIT_KEYS: &[&str] = names!(LIMIT.groups, &["headers", "ip", "response", "case_sensitive"]);
/// The keys of a rule, including those of all algorithms. `mode` is a key of the document as well.
pub(crate) const RULE_KEYS: &[&str] = names!(RULE.groups, &["mode"]);
/// The kinds of store.
pub(crate) const STORE_KEYS: &[&str] = names!(STORE.groups);
/// The keys of `redis`.
pub(crate) const REDIS_KEYS: &[&str] = names!(REDIS.groups);
/// The keys of `remote`, without those that other objects have as well.
pub(crate) const REMOTE_KEYS: &[&str] = names!(REMOTE.groups, &["cluster", "timeout", "headers", "body"]);
/// The keys of the long form of `deny`.
pub(crate) const DENY_KEYS: &[&str] = names!(DENY_MEMBERS.groups);

/// A kind without an entry in the table does not compile, nor does an entry without a kind.
const _: () = {
    assert!(is_same(names!(&[CONDITIONS]), &CONDITION_KINDS), "a condition lacks an entry");
    assert!(is_same(names!(ACTOR.groups), &ACTOR_KINDS), "a source lacks an entry");
    assert!(is_same(names!(&[ALGORITHM]), &ALGORITHM_KEYS), "a key of an algorithm lacks an entry");
};

/// How many of the keys have other names than these.
const fn count(groups: &[&[Key]], except: &[&str]) -> usize {
    let (mut count, mut group) = (0, 0);
    while group < groups.len() {
        let mut at = 0;
        while at < groups[group].len() {
            count += !has(except, groups[group][at].name) as usize;
            at += 1;
        }
        group += 1;
    }
    count
}

/// The names of the keys, except these.
const fn pick<const N: usize>(groups: &[&[Key]], except: &[&str]) -> [&'static str; N] {
    let (mut names, mut count, mut group) = ([""; N], 0, 0);
    while group < groups.len() {
        let mut at = 0;
        while at < groups[group].len() {
            let name = groups[group][at].name;
            if !has(except, name) {
                names[count] = name;
                count += 1;
            }
            at += 1;
        }
        group += 1;
    }
    names
}

/// Whether both lists have the same names, in any order.
const fn is_same(one: &[&str], other: &[&str]) -> bool {
    has_all(one, other) && has_all(other, one)
}

const fn has_all(list: &[&str], names: &[&str]) -> bool {
    let mut at = 0;
    while at < names.len() {
        if !has(list, names[at]) {
            return false;
        }
        at += 1;
    }
    true
}

const fn has(list: &[&str], name: &str) -> bool {
    let mut at = 0;
    while at < list.len() {
        if is_equal(list[at].as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

/// `==` of bytes is no constant function yet.
const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_several_meanings_has_no_hint() {
        let hints = [TOP_KEYS, LIMIT_KEYS, RULE_KEYS, STORE_KEYS, REMOTE_KEYS].concat();
        for key in ["headers", "ip", "cluster", "timeout", "body"] {
            assert!(!hints.contains(&key), "{key}");
        }
        let of = |key: &&str| hints.iter().filter(|hint| *hint == key).count();
        let several: Vec<&str> = hints.iter().copied().filter(|key| of(key) > 1).collect();
        // The hint in a limit names both places, and an override's the rule.
        assert_eq!(several, ["enforce", "enforce"]);
    }
}
