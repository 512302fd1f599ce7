//! The contract of [`Store`] as a check, for the tests of each store.

use diana_limiter::cells::store::{Fault, Loaded, Store, Swap, Version};

/// What a store does against the contract.
pub type Breach = &'static str;

/// Checks the contract over the keys `contract/one` and `contract/two` of a store, which must be
/// absent. Fails with the first breach; a store that fails breaks the contract, too.
pub fn check(store: &impl Store) -> Result<(), Breach> {
    let checks = Checks { store };
    let (one, two) = (b"contract/one", b"contract/two");
    checks.is_absent(one)?;
    checks.swaps(one, b"", None, Swap::Done)?;
    let empty = checks.holds(one, b"")?;
    checks.swaps(one, b"again", None, Swap::Conflict)?;
    checks.swaps(one, b"first", Some(empty), Swap::Done)?;
    let first = checks.holds(one, b"first")?;
    checks.swaps(one, b"second", Some(empty), Swap::Conflict)?;
    checks.holds(one, b"first")?;
    checks.swaps(one, b"a longer value than before", Some(first), Swap::Done)?;
    let longer = checks.holds(one, b"a longer value than before")?;
    checks.swaps(one, b"x", Some(longer), Swap::Done)?;
    let short = checks.holds(one, b"x")?;
    if [empty, first, longer].contains(&short) || empty == first || first == longer || empty == longer {
        return Err("two values of a key have one version");
    }
    checks.is_absent(two)?;
    checks.swaps(two, b"other", None, Swap::Done)?;
    checks.holds(one, b"x")?;
    checks.holds(two, b"other").map(|_| ())
}

struct Checks<'a, S> {
    store: &'a S,
}

impl<S: Store> Checks<'_, S> {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Breach> {
        self.store.load(key).map_err(|Fault(_)| "a load fails")
    }

    fn is_absent(&self, key: &[u8]) -> Result<(), Breach> {
        if self.load(key)?.is_some() { Err("an absent key has a value") } else { Ok(()) }
    }

    /// The version under which the key has this value.
    fn holds(&self, key: &[u8], value: &[u8]) -> Result<Version, Breach> {
        match self.load(key)? {
            None => Err("a written key is absent"),
            Some(loaded) if loaded.bytes == value => Ok(loaded.version),
            Some(_) => Err("a key has another value than the last written one"),
        }
    }

    fn swaps(&self, key: &[u8], value: &[u8], expected: Option<Version>, to: Swap) -> Result<(), Breach> {
        match (self.store.swap(key, value, expected), to) {
            (Ok(Swap::Done), Swap::Done) | (Ok(Swap::Conflict), Swap::Conflict) => Ok(()),
            (Ok(Swap::Done), Swap::Conflict) => Err("a swap that expects another version is done"),
            (Ok(Swap::Conflict), Swap::Done) => Err("a swap that expects the present version is lost"),
            (Err(Fault(_)), _) => Err("a swap fails"),
        }
    }
}
