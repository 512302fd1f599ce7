//! The store over the shared data of either host, and the store in memory.

use diana_limiter::cells::store::{CasSemantics, Fault, Memory, SharedData, SharedDataStore, Store, Swap};
use diana_testing::contract;
use diana_testing::shared_data::Simulated;
use std::cell::Cell;

/// The keys where the first worker records the host's rules.
const RULES_KEYS: [&[u8]; 3] = [b"diana/rules", b"diana/rules2", b"diana/rules3"];

#[test]
fn both_hosts_keep_the_contract() {
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let host = Simulated::new(rules);
        let store = SharedDataStore::probe(&host).unwrap();
        assert_eq!(store.rules(), rules);
        assert_eq!(SharedDataStore::probe(&host).unwrap().rules(), rules, "a second worker finds the same");
        assert_eq!(contract::check(&store), Ok(()));
    }
}

#[test]
fn memory_keeps_the_contract() {
    let memory = Memory::new();
    assert_eq!(contract::check(&memory), Ok(()));
    assert_eq!(contract::check(&memory), Err("an absent key has a value"), "the keys exist now");
}

#[test]
fn a_worker_that_loses_the_race_of_the_probe_believes_the_winner() {
    /// A lenient host on which another worker's probe runs between ours.
    struct Raced(Simulated, Cell<bool>);
    impl SharedData for Raced {
        fn get(&self, key: &[u8]) -> Result<(Option<Vec<u8>>, Option<u32>), Fault> {
            if self.1.replace(false) {
                return Ok((None, None));
            }
            self.0.get(key)
        }
        fn set(&self, key: &[u8], value: &[u8], cas: Option<u32>) -> Result<Swap, Fault> {
            self.0.set(key, value, cas)
        }
    }
    let host = Simulated::new(CasSemantics::Lenient);
    SharedDataStore::probe(&host).unwrap();
    let raced = Raced(host, Cell::new(true));
    assert_eq!(SharedDataStore::probe(raced).unwrap().rules(), CasSemantics::Lenient);
}

#[test]
fn foreign_records_of_the_rules_are_ignored() {
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let host = Simulated::new(rules);
        for key in RULES_KEYS {
            assert_eq!(SharedDataStore::probe(&host).unwrap().rules(), rules);
            let version = host.get(key).unwrap().1;
            host.set(key, b"mine", version).unwrap();
        }
        assert_eq!(SharedDataStore::probe(&host).err(), Some(Fault(0)));
    }
}

#[test]
fn a_key_with_an_empty_value_is_there() {
    let store = SharedDataStore::probe(Simulated::new(CasSemantics::Lenient)).unwrap();
    assert_eq!(store.swap(b"k", b"", None), Ok(Swap::Done));
    assert_eq!(store.load(b"k").unwrap().map(|loaded| loaded.bytes), Some(Vec::new()));
    assert_eq!(store.swap(b"k", b"x", None), Ok(Swap::Conflict));
}
