//! Tests of the table over a store in memory.

use super::*;
use crate::cells::store::{Loaded, Memory, Version};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

/// Cells of one `u64`: the number is what is lost, and cells from 100 on refuse.
fn loss(_: u64, cell: &[u8]) -> Loss {
    match u64::from_le_bytes(cell.try_into().unwrap()) {
        0 => Loss::Nothing,
        number @ 1..100 => Loss::Part(number),
        number => Loss::Refuses { opens_in: Span::from_ns(number), rule: 0 },
    }
}

fn at(seconds: u64) -> Time {
    Time::ZERO.after(Span::from_secs(1_795_392_000 + seconds))
}

const HOUR: Span = Span::from_secs(3_600);

/// The first word of a value, without the number of states.
const FORMAT: u32 = 3 << 24;

/// Longer than an unknown state is kept after its end.
const LATER: u64 = 3_600 + 120;

fn write(mut entry: Entry, store: &dyn Store, cell: &[u8], now: Time) -> Swap {
    entry.write(cell, now, |_, _| HOUR);
    entry.commit(store).unwrap()
}

fn put(table: &Table, store: &dyn Store, hash: u64, number: u64) -> Option<Eviction> {
    let entry = table.load(store, hash).unwrap().claim(at(0), loss).unwrap();
    let eviction = entry.eviction();
    assert_eq!(write(entry, store, &number.to_le_bytes(), at(0)), Swap::Done);
    eviction
}

fn look(table: &Table, store: &dyn Store, hash: u64) -> Option<u64> {
    let entry = table.load(store, hash).unwrap().find()?;
    Some(u64::from_le_bytes(entry.cell().try_into().unwrap()))
}

fn key(table: &Table, hash: u64) -> Key {
    table.0.key(hash)
}

fn states(states: &[(u32, usize)]) -> Vec<StateEntry> {
    states
        .iter()
        .map(|(identity, size)| StateEntry { identity: *identity, size: *size, keeps_rest: false })
        .collect()
}

fn table(actors: u64) -> Table {
    Table::new("7", states(&[(1, 8)]), actors)
}

/// A table of one set with sixteen ways.
fn one_set() -> Table {
    table(8)
}

#[test]
fn the_cell_of_the_least_loss_is_evicted() {
    let (store, table) = (Memory::new(), one_set());
    assert_eq!(table.keys(), 1);
    for hash in 1..=16 {
        assert_eq!(put(&table, &store, hash, hash + 10), None, "there is room");
    }
    assert_eq!(put(&table, &store, 5, 0), None);
    assert_eq!(put(&table, &store, 17, 50), Some(Eviction::Lossless));
    assert_eq!(look(&table, &store, 5), None);
    assert_eq!(put(&table, &store, 18, 50), Some(Eviction::Lossy));
    assert_eq!(look(&table, &store, 1), None, "11 was the least");
    assert_eq!(look(&table, &store, 2), Some(12));
    assert_eq!(look(&table, &store, 18), Some(50));
}

#[test]
fn a_refusing_cell_is_never_evicted() {
    let (store, table) = (Memory::new(), one_set());
    for hash in 1..=15 {
        put(&table, &store, hash, 100 + hash);
    }
    put(&table, &store, 16, 99);
    assert_eq!(put(&table, &store, 17, 200), Some(Eviction::Lossy), "the only cell that does not refuse");
    let full = table.load(&store, 18).unwrap().claim(at(0), loss).unwrap_err();
    assert_eq!(full, SetFull { rule: 0, opens_in: Span::from_ns(101) });
}

#[test]
fn foreign_and_damaged_values_count_as_never_written() {
    let (store, table) = (Memory::new(), one_set());
    put(&table, &store, 1, 5);
    let key = key(&table, 1);
    let whole = store.load(key.as_bytes()).unwrap().unwrap();
    let replace = |bytes: &[u8]| {
        let version = store.load(key.as_bytes()).unwrap().unwrap().version;
        store.swap(key.as_bytes(), bytes, Some(version)).unwrap();
    };
    for at in 0..whole.bytes.len() {
        let mut bytes = whole.bytes.clone();
        bytes[at] ^= 0x40;
        replace(&bytes);
        let set = table.load(&store, 1).unwrap();
        assert!(set.foreign() && set.find().is_none(), "byte {at}");
    }
    for bytes in [&b""[..], b"x", &[0xff; 5000], &[2; 5000]] {
        replace(bytes);
        let set = table.load(&store, 1).unwrap();
        assert_eq!(set.foreign(), !bytes.is_empty());
        let entry = set.claim(at(0), loss).unwrap();
        assert!(!entry.found());
        assert_eq!(write(entry, &store, &[1; 8], at(0)), Swap::Done, "and is replaced");
    }
}

/// A value that says nonsense about its states, sealed as if it were ours.
fn sealed(table: &Table, words: &[u32], length: usize) -> Vec<u8> {
    let mut value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    value.resize(length, 0);
    Layout::seal(&key(table, 1), &mut value);
    value
}

#[test]
fn a_value_is_foreign_if_its_states_are_unsound() {
    let table = one_set();
    let whole = 8 + 12 + 16 * (8 + 4);
    let is_foreign = |words: &[u32], length| {
        let store = Memory::new();
        store.swap(key(&table, 1).as_bytes(), &sealed(&table, words, length), None).unwrap();
        table.load(&store, 1).unwrap().foreign()
    };
    assert!(!is_foreign(&[FORMAT | 1, 0, 9, 4], whole));
    assert!(is_foreign(&[FORMAT | 1, 0, 9, 4], whole + 1), "the length");
    assert!(is_foreign(&[FORMAT | 1, 0, 9, 5], whole), "the size");
    assert!(is_foreign(&[FORMAT | 0xff_ffff, 0, 9, 4], whole), "more states than bytes");
    assert!(is_foreign(&[FORMAT | 2, 0, 9, u32::MAX, 10, u32::MAX], whole + 12), "the sum of the sizes");
    let two = 8 + 24 + 16 * (8 + 8);
    assert!(!is_foreign(&[FORMAT | 2, 0, 9, 4, 10, 4], two));
    assert!(is_foreign(&[FORMAT | 2, 0, 9, 4, 9, 4], two), "one identity twice");
    assert!(is_foreign(&[FORMAT | 2, 0, 10, 4, 9, 4], two), "the order");
    let large = MAX_STATE as u32 + 1;
    assert!(is_foreign(&[FORMAT | 1, 0, 9, large], 8 + 12 + 16 * (8 + large as usize)), "a large state");
}

#[test]
fn a_value_moved_to_another_key_is_foreign() {
    let (store, table) = (Memory::new(), table(1_000));
    let other = (1..).map(|n: u64| n << 56).find(|hash| key(&table, *hash) != key(&table, 1)).unwrap();
    put(&table, &store, 1, 5);
    let stolen = store.load(key(&table, 1).as_bytes()).unwrap().unwrap().bytes;
    store.swap(key(&table, other).as_bytes(), &stolen, None).unwrap();
    assert!(table.load(&store, other).unwrap().foreign());
}

#[test]
fn keys_depend_on_the_number_of_sets_and_not_on_the_states() {
    let key = |states: &[(u32, usize)], actors| key(&Table::new("7", self::states(states), actors), 1);
    assert_eq!(key(&[(1, 8)], 8), key(&[(1, 12), (2, 8)], 8));
    assert_eq!(key(&[(1, 8)], 8), key(&[(1, 8)], 7), "both have one set");
    assert_ne!(key(&[(1, 8)], 8), key(&[(1, 8)], 9));
    let fixed = |states: &[(u32, usize)]| Table::of_fixed_size("7", self::states(states), 8).0.key(1);
    assert_ne!(fixed(&[(1, 8)]), fixed(&[(1, 12)]));
    assert_ne!(fixed(&[(1, 8)]), fixed(&[(2, 8)]));
}

/// Where values must not grow, one with other states is replaced by one of the table's own size.
#[test]
fn a_table_of_fixed_size_keeps_no_unknown_state() {
    let store = Memory::new();
    let (fixed, same_key) = (Table::of_fixed_size("7", states(&[(1, 8)]), 8), |states| {
        let other = Table::of_fixed_size("7", states, 8);
        let key = key(&other, 1).as_bytes().to_vec();
        (other, key)
    });
    let (other, _) = same_key(states(&[(1, 8), (2, 8)]));
    let mut entry = other.load(&store, 1).unwrap().claim(at(0), |_, _| Loss::Nothing).unwrap();
    entry.write(&[1; 16], at(0), |_, _| HOUR);
    // The host hands out the other table's value for this key.
    let mut value = entry.set.value.clone();
    Layout::seal(&key(&fixed, 1), &mut value);
    store.swap(key(&fixed, 1).as_bytes(), &value, None).unwrap();
    let set = fixed.load(&store, 1).unwrap();
    assert!(set.foreign());
    assert_eq!(write(set.claim(at(0), loss).unwrap(), &store, &[1; 8], at(0)), Swap::Done);
    let size = store.load(key(&fixed, 1).as_bytes()).unwrap().unwrap().bytes.len();
    assert_eq!(size, fixed.value_size());
}

#[test]
fn a_torn_read_is_read_again() {
    /// A store in which every second read of a value is torn.
    struct Torn(Memory, Cell<u32>);
    impl Store for Torn {
        fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
            let mut loaded = self.0.load(key)?;
            self.1.set(self.1.get() + 1);
            if let Some(last) = loaded
                .as_mut()
                .filter(|_| self.1.get().is_multiple_of(2))
                .and_then(|loaded| loaded.bytes.last_mut())
            {
                *last ^= 1;
            }
            Ok(loaded)
        }
        fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
            self.0.swap(key, value, expected)
        }
    }
    let table = one_set();
    let store = Torn(Memory::new(), Cell::new(0));
    let entry = table.load(&store, 1).unwrap().claim(at(0), loss).unwrap();
    write(entry, &store, &5u64.to_le_bytes(), at(0));
    for _ in 0..4 {
        assert!(table.load(&store, 1).unwrap().find().is_some());
    }
}

/// A store that knows the sizes of its values.
#[derive(Default)]
struct Measured(Memory, RefCell<HashMap<Vec<u8>, usize>>);

impl Store for Measured {
    fn load(&self, key: &[u8]) -> Result<Option<Loaded>, Fault> {
        self.0.load(key)
    }
    fn swap(&self, key: &[u8], value: &[u8], expected: Option<Version>) -> Result<Swap, Fault> {
        self.1.borrow_mut().insert(key.to_vec(), value.len());
        self.0.swap(key, value, expected)
    }
}

#[test]
fn memory_is_fixed_by_configuration() {
    let (store, table) = (Measured::default(), table(1_000));
    let mut after = Vec::new();
    let mut random = 1u64;
    for round in 0..4 {
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            put(&table, &store, Hasher::name(&random.to_le_bytes()), round + 1);
        }
        after.push(store.1.borrow().clone());
    }
    assert_eq!(after[0], after[3]);
    assert_eq!(after[3].len(), table.keys() as usize);
}

#[test]
fn at_its_size_a_table_hardly_evicts() {
    let (store, table) = (Memory::new(), table(10_000));
    let evicted = (0..10_000u64)
        .filter(|actor| put(&table, &store, Hasher::name(&actor.to_le_bytes()), 1).is_some())
        .count();
    assert!(evicted < 10_000 / 500, "{evicted} of 10,000");
}

#[test]
fn one_actor_needs_one_way() {
    let table = Table::new("7", states(&[(1, 12)]), 1);
    assert_eq!((table.keys(), table.value_size()), (1, 8 + 12 + 8 + 12));
}

#[test]
fn sets_are_as_large_as_promised() {
    let size = |size| Table::new("7", states(&[(4, size)]), 8).value_size();
    assert_eq!((size(16), size(48)), (404, 916), "of `W` and of `TB`");
}

/// A table under test: its states, each with the byte that it writes.
type Known = BTreeMap<u32, usize>;

fn of(known: &Known) -> Table {
    Table::new("7", states(&known.iter().map(|(id, size)| (*id, *size)).collect::<Vec<_>>()), 8)
}

/// Writes the same byte to each state of an actor's cell, which lasts so long.
fn fill(known: &Known, store: &dyn Store, hash: u64, byte: u8, now: Time, lasts: Span) {
    let table = of(known);
    let mut entry = table.load(store, hash).unwrap().claim(now, |_, _| Loss::Part(1)).unwrap();
    entry.write(&vec![byte; table.cell_size()], now, |_, _| lasts);
    assert_eq!(entry.commit(store), Ok(Swap::Done));
}

/// The bytes of an actor's state.
fn state(store: &dyn Store, hash: u64, identity: u32, size: usize) -> Vec<u8> {
    let known = Known::from([(identity, size)]);
    of(&known).load(store, hash).unwrap().find().map(|entry| entry.cell()).unwrap_or_default()
}

fn stored_size(store: &Memory, known: &Known) -> usize {
    store.load(key(&of(known), 1).as_bytes()).unwrap().unwrap().bytes.len()
}

#[test]
fn a_larger_state_stays_large_and_is_written_whole() {
    let store = Memory::new();
    let (large, small) = (Known::from([(4, 16)]), Known::from([(4, 8)]));
    fill(&large, &store, 1, 0xaa, at(0), HOUR);
    let size = stored_size(&store, &large);
    assert_eq!(state(&store, 1, 4, 8), [0xaa; 8]);
    fill(&small, &store, 1, 0xbb, at(0), HOUR);
    assert_eq!(stored_size(&store, &large), size, "the larger size stays");
    assert_eq!(state(&store, 1, 4, 16), [[0xbb; 8], [0; 8]].concat(), "and is zero behind");
    fill(&Known::from([(4, 24)]), &store, 2, 0xcc, at(0), HOUR);
    assert_eq!(state(&store, 1, 4, 24), [vec![0xbb; 8], vec![0; 16]].concat());
}

#[test]
fn an_unknown_state_goes_after_its_end() {
    let store = Memory::new();
    let (one, other) = (Known::from([(4, 8)]), Known::from([(8, 8)]));
    fill(&one, &store, 1, 1, at(0), HOUR);
    fill(&other, &store, 1, 2, at(3_600), HOUR);
    assert_eq!(state(&store, 1, 4, 8), [1; 8], "the state has just ended, and clocks differ");
    let both = stored_size(&store, &one);
    // A worker that knows the state raises its end.
    fill(&one, &store, 2, 3, at(3_600), HOUR);
    fill(&other, &store, 1, 2, at(LATER), HOUR);
    assert_eq!((state(&store, 1, 4, 8), stored_size(&store, &one)), (vec![1; 8], both));
    fill(&other, &store, 1, 2, at(3_600 + LATER), HOUR);
    assert_eq!((state(&store, 1, 4, 8), stored_size(&store, &one)), (vec![0; 8], of(&one).value_size()));
    assert_eq!(state(&store, 1, 8, 8), [2; 8]);
}

#[test]
fn of_too_many_unknown_states_the_one_that_ends_first_goes() {
    let store = Memory::new();
    let many = u32::try_from(MAX_UNKNOWN).unwrap() + 1;
    for n in 0..many {
        // The fifth one ends first.
        let lasts = Span::from_secs(if n == 4 { 1_000 } else { 2_000 - u64::from(n) });
        fill(&Known::from([(n, 8)]), &store, 1, 7, at(0), lasts);
    }
    fill(&Known::from([(100, 8)]), &store, 1, 7, at(0), HOUR);
    let lost: Vec<u32> = (0..many).filter(|n| state(&store, 1, *n, 8) != [7; 8]).collect();
    assert_eq!(lost, [4]);
}

/// A worker that knows many states keeps as many that it does not know.
#[test]
fn known_states_do_not_count_as_unknown() {
    let store = Memory::new();
    let many: Known = (0..30).map(|n| (n * 4, 8)).collect();
    fill(&many, &store, 1, 1, at(0), HOUR);
    fill(&many, &store, 2, 2, at(0), HOUR);
    assert!((0..30).all(|n| state(&store, 1, n * 4, 8) == [1; 8]));
    let others: Known = (0..30).map(|n| (n * 4 + 1, 8)).collect();
    fill(&others, &store, 2, 2, at(0), HOUR);
    assert!((0..30).all(|n| state(&store, 1, n * 4, 8) == [1; 8]));
    // Workers of a document with fewer rules find theirs, and keep fewer others.
    let few: Known = (0..2).map(|n| (n * 4, 8)).collect();
    fill(&few, &store, 2, 3, at(0), HOUR);
    let all = (0..30).flat_map(|n| [(n * 4, 1), (n * 4 + 1, 2)]);
    let kept = all.filter(|(n, of)| *n > 4 && state(&store, *of, *n, 8) == [*of as u8; 8]).count();
    assert_eq!((state(&store, 1, 0, 8), state(&store, 2, 4, 8)), (vec![1; 8], vec![3; 8]));
    assert!(kept <= MAX_UNKNOWN && kept > 0, "{kept}");
}

/// The two documents lay the set out anew once, and then change it in place.
#[test]
fn two_documents_do_not_take_turns_in_laying_a_set_out() {
    let store = Memory::new();
    let one: Known = (0..5).map(|n| (n * 8, 8)).collect();
    let other: Known = (3..8).map(|n| (n * 8, 16)).collect();
    fill(&one, &store, 1, 1, at(0), Span::ZERO);
    fill(&other, &store, 1, 2, at(0), Span::ZERO);
    let header = |store: &Memory| {
        let bytes = store.load(key(&of(&one), 1).as_bytes()).unwrap().unwrap().bytes;
        bytes[8..8 + 8 * 8].to_vec()
    };
    let laid = header(&store);
    for second in 0..300 {
        let known = if second % 2 == 0 { &one } else { &other };
        fill(known, &store, 1 + second % 3, 3, at(second), Span::ZERO);
        assert_eq!(header(&store), laid, "second {second}");
    }
}

/// A way in which all known states rest is not free while another document counts in it.
#[test]
fn a_cell_with_an_unknown_state_is_not_evicted_without_loss() {
    let store = Memory::new();
    let (one, other) = (Known::from([(4, 8)]), Known::from([(8, 8)]));
    (1..=16).for_each(|hash| fill(&one, &store, hash, u8::from(hash != 7), at(0), HOUR));
    fill(&other, &store, 3, 1, at(0), HOUR);
    let claim = |now| {
        let set = of(&other).load(&store, 100).unwrap();
        let entry = set.claim(now, |_, cell| if cell == [0; 8] { Loss::Nothing } else { Loss::Part(5) });
        entry.unwrap().eviction()
    };
    assert_eq!(claim(at(0)), Some(Eviction::Lossless), "of the seventh, which has nothing");
    fill(&one, &store, 7, 1, at(0), HOUR);
    assert_eq!(claim(at(0)), Some(Eviction::Lossy));
    assert_eq!(claim(at(LATER)), Some(Eviction::Lossless), "the unknown states have ended");
}

#[test]
fn a_value_tells_when_its_states_have_ended() {
    let (store, known) = (Memory::new(), Known::from([(4, 8), (8, 8)]));
    fill(&known, &store, 1, 1, at(0), HOUR);
    fill(&Known::from([(8, 8)]), &store, 2, 1, at(100), HOUR);
    let bytes = store.load(key(&of(&known), 1).as_bytes()).unwrap().unwrap().bytes;
    let ended = ended_at(&bytes).unwrap();
    assert!(ended > at(100 + 3_600) && ended < at(100 + LATER), "{ended:?}");
    assert_eq!((ended_at(b"seed"), ended_at(&[0xff; 100]), ended_at(&[0; 100])), (None, None, None));
    let key = key(&of(&known), 1);
    let ends = [100 + 3_600, 100 + LATER].map(|second| has_ended(key.as_bytes(), &bytes, at(second)));
    assert_eq!((ends, has_ended(b"diana/seed", &bytes, at(100 + LATER))), ([false, true], false));
}

/// What one document does.
#[derive(Clone, Debug)]
struct Turn {
    document: usize,
    hash: u64,
    byte: u8,
    seconds: u64,
}

fn documents() -> impl Strategy<Value = Vec<Known>> {
    let sizes = prop_oneof![Just(4_usize), Just(8), Just(16), 1..30_usize];
    let document = prop::collection::btree_map(0..7u32, sizes, 1..5);
    prop::collection::vec(document, 1..4)
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = (0..4_usize, 1..6_u64, 1..=255_u8, 0..1_000_u64);
    let turn = turn.prop_map(|(document, hash, byte, seconds)| Turn { document, hash, byte, seconds });
    prop::collection::vec(turn, 0..40)
}

proptest! {
    /// While there is room, a table is a map.
    #[test]
    fn with_room_a_table_is_a_map(puts in prop::collection::vec((1u64..12, 0u64..200), 0..60)) {
        let (store, table, mut map) = (Memory::new(), one_set(), HashMap::new());
        for (hash, number) in puts {
            prop_assert_eq!(put(&table, &store, hash, number), None);
            map.insert(hash, number);
        }
        for hash in 1..12 {
            prop_assert_eq!(look(&table, &store, hash), map.get(&hash).copied());
        }
    }

    /// Whatever the documents know: each reads what was last written of what it knows, and the set
    /// holds the union. No more than seven states exist, and none ends.
    #[test]
    fn workers_of_any_documents_share_what_they_know(documents in documents(), turns in turns()) {
        let (store, mut model) = (Memory::new(), HashMap::<(u64, u32), Vec<u8>>::new());
        let mut now = 0;
        for Turn { document, hash, byte, seconds } in turns {
            now += seconds;
            let known = &documents[document % documents.len()];
            let entry = of(known).load(&store, hash).unwrap().claim(at(now), |_, _| Loss::Part(1)).unwrap();
            let expected: Vec<u8> = known.iter().flat_map(|(identity, size)| {
                let mut state = model.get(&(hash, *identity)).cloned().unwrap_or_default();
                state.resize(*size, 0);
                state
            }).collect();
            prop_assert_eq!(entry.cell(), expected);
            fill(known, &store, hash, byte, at(now), Span::from_secs(100_000));
            known.iter().for_each(|(identity, size)| {
                model.insert((hash, *identity), vec![byte; *size]);
            });
        }
        for ((hash, identity), bytes) in model {
            prop_assert_eq!(state(&store, hash, identity, bytes.len()), bytes);
        }
    }

    /// Workers of documents with different states lay one set out anew at once: no count is lost,
    /// whoever is faster. Each worker loads and swaps in turns that the steps choose.
    #[test]
    fn workers_that_lay_a_set_out_at_once_lose_nothing(
        documents in documents(), steps in prop::collection::vec(0..6_usize, 0..200),
    ) {
        let (store, mut counts) = (Memory::new(), HashMap::<(u64, u32), u8>::new());
        let mut loaded: Vec<Option<Entry>> = (0..6).map(|_| None).collect();
        for worker in steps {
            let (known, hash) = (&documents[worker % documents.len()], 1 + worker as u64 % 2);
            let Some(mut entry) = loaded[worker].take() else {
                loaded[worker] =
                    of(known).load(&store, hash).unwrap().claim(at(0), |_, _| Loss::Part(1)).ok();
                continue;
            };
            let mut cell = entry.cell();
            let mut from = 0;
            for size in known.values() {
                cell[from] = cell[from].wrapping_add(1);
                from += size;
            }
            entry.write(&cell, at(0), |_, _| HOUR);
            if entry.commit(&store).unwrap() == Swap::Done {
                known.keys().for_each(|identity| {
                    let count = counts.entry((hash, *identity)).or_default();
                    *count = count.wrapping_add(1);
                });
            }
        }
        for ((hash, identity), count) in counts {
            prop_assert_eq!(state(&store, hash, identity, 1), [count]);
        }
    }

    /// Any states in any order of sizes, with any ends and actors, are read, kept or given up.
    #[test]
    fn any_states_are_harmless(
        states in prop::collection::btree_map(any::<u32>(), 0..64_u32, 0..40),
        body in prop::collection::vec(any::<u32>(), 1..2_000),
        now in prop_oneof![Just(0_u64), 0_u64..1 << 33],
        known in documents(),
    ) {
        let (store, table) = (Memory::new(), of(&known[0]));
        let sizes: usize = states.values().map(|size| *size as usize).sum();
        let header = [FORMAT | states.len() as u32, 0].into_iter();
        let header = header.chain(states.iter().flat_map(|(identity, size)| [*identity, *size]));
        let length = 8 + 12 * states.len() + 16 * (8 + sizes);
        let words: Vec<u32> = header.chain(body.iter().copied().cycle()).take(length / 4 + 1).collect();
        store.swap(key(&table, 1).as_bytes(), &sealed(&table, &words, length), None).unwrap();
        prop_assert!(!table.load(&store, 1).unwrap().foreign());
        fill(&known[0], &store, 1, 7, at(now), HOUR);
        prop_assert_eq!(table.load(&store, 1).unwrap().find().unwrap().cell(), vec![7; table.cell_size()]);
        let laid = store.load(key(&table, 1).as_bytes()).unwrap().unwrap().bytes;
        let count = u32::from_le_bytes(laid[..4].try_into().unwrap()) & 0xff_ffff;
        prop_assert!(count as usize <= MAX_UNKNOWN + known[0].len(), "{} states", count);
    }

    /// Any bytes are a value, or are replaced by one; never do they make a worker fail.
    #[test]
    fn any_bytes_are_harmless(
        words in prop::collection::vec(prop_oneof![any::<u32>(), 0..20u32, Just(2 << 24 | 1), Just(2 << 24 | 2)], 0..80),
        length in prop_oneof![0..600_usize, Just(404), Just(400)],
        known in documents(),
    ) {
        let (store, table) = (Memory::new(), of(&known[0]));
        let value = sealed(&table, &[&[2 << 24 | 2, 0][..], &words].concat(), length.max(8));
        store.swap(key(&table, 1).as_bytes(), &value, None).unwrap();
        fill(&known[0], &store, 1, 7, at(0), HOUR);
        prop_assert_eq!(table.load(&store, 1).unwrap().find().unwrap().cell(), vec![7; table.cell_size()]);
        prop_assert!(stored_size(&store, &known[0]) <= table.value_size().max(2 * value.len() + table.value_size()));
        let _ = ended_at(&value);
    }
}
