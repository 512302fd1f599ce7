//! Names of the kinds of algorithm, condition and actor, evaluated by the compiler.
#![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "checked by the compiler")]

use crate::algorithm::KINDS;
use crate::{actor, matcher};

/// The names of the algorithms, short and long.
pub(super) const ALGORITHMS: &[&str] = &{
    let (mut words, mut at) = ([""; KINDS.len() * 2], 0);
    while at < KINDS.len() {
        (words[2 * at], words[2 * at + 1]) = (KINDS[at].short, KINDS[at].name);
        at += 1;
    }
    words
};

/// The names of the algorithms whose quota has no unit.
pub(super) const WITHOUT_UNIT: &[&str] = &{
    let (mut words, mut count, mut at) = ([""; without_unit()], 0, 0);
    while at < KINDS.len() {
        if !KINDS[at].per_unit {
            (words[count], words[count + 1]) = (KINDS[at].short, KINDS[at].name);
            count += 2;
        }
        at += 1;
    }
    words
};

const fn without_unit() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < KINDS.len() {
        count += 2 * !KINDS[at].per_unit as usize;
        at += 1;
    }
    count
}

/// The keys of all conditions.
pub(super) const CONDITION_KINDS: [&str; matcher::KINDS.len()] = {
    let (mut names, mut at) = ([""; matcher::KINDS.len()], 0);
    while at < matcher::KINDS.len() {
        names[at] = matcher::KINDS[at].key;
        at += 1;
    }
    names
};

/// The sources of an actor's value.
pub(super) const ACTOR_KINDS: [&str; actor::KINDS.len()] = {
    let (mut names, mut at) = ([""; actor::KINDS.len()], 0);
    while at < actor::KINDS.len() {
        names[at] = actor::KINDS[at].key;
        at += 1;
    }
    names
};

/// The keys of all algorithms. Several algorithms may have a key.
pub(super) const ALGORITHM_KEYS: [&str; algorithm_keys()] = {
    let (mut names, mut all, mut at) = ([""; algorithm_keys()], 0, 0);
    while at < KINDS.len() {
        let (keys, mut of_kind) = (KINDS[at].keys, 0);
        while of_kind < keys.len() {
            names[all] = keys[of_kind];
            (all, of_kind) = (all + 1, of_kind + 1);
        }
        at += 1;
    }
    names
};

const fn algorithm_keys() -> usize {
    let (mut all, mut at) = (0, 0);
    while at < KINDS.len() {
        all += KINDS[at].keys.len();
        at += 1;
    }
    all
}
