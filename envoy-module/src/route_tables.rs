//! The tables in which the requests of routes count. A worker knows only the pairs of a listener's
//! and a route's documents that its requests have met. A pair that none has met yet may have counts
//! too: those of the listener's configuration before.

use crate::routes::Route;
use diana_limiter::cells::table::TableId;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The main thread compiles pairs for this long at once, because calls to stores wait meanwhile.
pub const MOST_AT_ONCE: Duration = Duration::from_millis(2);

/// A listener's document, by its root.
pub type Listener = (u32, Arc<[u8]>);

/// The tables of the pairs that exist, by the listener's document and the address of the route's.
/// Listeners with the same document share the pairs, so an update that leaves the document as it is
/// compiles nothing.
#[derive(Default)]
pub struct RouteTables(Mutex<Pairs>);

type Pairs = HashMap<Arc<[u8]>, HashMap<usize, Pair>>;

struct Pair {
    /// Kept so that no other document gets its address.
    _route: Arc<Route>,
    tables: Vec<TableId>,
}

impl RouteTables {
    fn lock(&self) -> MutexGuard<'_, Pairs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables of all pairs. Calls `compile` for pairs that are new, at least for one, for about
    /// `at_once`, and forgets pairs that have ended. `None` if there are more to compile.
    pub fn of(
        &self,
        listeners: &[Listener],
        routes: &[Arc<Route>],
        at_once: Duration,
        mut compile: impl FnMut(&[u8], &[u8]) -> Vec<TableId>,
    ) -> Option<Vec<TableId>> {
        let begun = Instant::now();
        let mut known = self.lock();
        let mut before = std::mem::take(&mut *known);
        let (mut is_complete, mut has_compiled) = (true, false);
        for (_, listener) in listeners {
            if known.contains_key(listener) {
                continue;
            }
            let mut pairs_before = before.remove(listener).unwrap_or_default();
            let mut pairs = HashMap::new();
            for route in routes {
                let address = route.address() as usize;
                let pair = pairs_before.remove(&address).or_else(|| {
                    is_complete &= !has_compiled || begun.elapsed() < at_once;
                    has_compiled = true;
                    let tables = is_complete.then(|| compile(listener, &route.document));
                    tables.map(|tables| Pair { _route: Arc::clone(route), tables })
                });
                pairs.extend(pair.map(|pair| (address, pair)));
            }
            known.insert(Arc::clone(listener), pairs);
        }
        let pairs = known.values().flat_map(HashMap::values);
        is_complete.then(|| pairs.flat_map(|pair| &pair.tables).copied().collect())
    }

    /// Forgets all pairs: the last listener has ended.
    pub fn clear(&self) {
        *self.lock() = Pairs::default();
    }

    /// How many pairs have tables.
    pub fn len(&self) -> usize {
        self.lock().values().map(HashMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diana_filter::route_tables;

    const DOCUMENT: &str =
        r#"{"limits": [{"url": "/N", "rules": [{"name": "a", "rpu": 9, "unit": "hour"}]}]}"#;
    const LONG: Duration = Duration::from_secs(600);

    fn document(url: &str) -> Arc<[u8]> {
        DOCUMENT.replace('N', url).into_bytes().into()
    }

    #[test]
    fn each_pair_that_exists_has_its_tables() {
        let tables = RouteTables::default();
        let listeners = [(1, document("one")), (2, document("two"))];
        let own = Route::new("", &document("own"));
        let plain = Route::new("", br#"{"mode": "shadow"}"#);
        let wrong = Route::new(
            "",
            br#"{"limits": [{"url": "/", "rules": [{"actor": "q", "rpu": 1, "unit": "day"}]}]}"#,
        );
        let of = |listeners: &[Listener], routes: &[&Arc<Route>]| {
            let routes: Vec<_> = routes.iter().map(|route| Arc::clone(route)).collect();
            let mut all = tables.of(listeners, &routes, LONG, route_tables).unwrap();
            all.sort_unstable();
            all.dedup();
            all
        };
        assert_eq!(of(&listeners, &[&wrong]), []);
        assert_eq!(of(&listeners, &[&own]).len(), 1, "the route's own limits, over either listener");
        assert_eq!(of(&listeners, &[&plain]).len(), 2, "the limits of the listeners");
        assert_eq!(of(&listeners, &[&own, &plain, &wrong]).len(), 3);
        assert_eq!(of(&listeners[1..], &[&plain]), route_tables(&listeners[1].1, &plain.document));
        assert_eq!(tables.len(), 1);
        assert_eq!(of(&[], &[&plain]), []);
        assert_eq!(tables.len(), 0);
    }

    #[test]
    fn a_pair_is_compiled_once_while_a_listener_has_the_document() {
        let tables = RouteTables::default();
        let routes = [Route::new("", br#"{"mode": "shadow"}"#), Route::new("", &document("own"))];
        let compiled = |listeners: &[Listener]| {
            let mut compiled = 0;
            let all = tables.of(listeners, &routes, LONG, |listener, route| {
                compiled += 1;
                route_tables(listener, route)
            });
            assert!(all.is_some_and(|all| all.len() >= 2));
            compiled
        };
        assert_eq!(compiled(&[(1, document("one")), (2, document("two"))]), 4);
        assert_eq!(compiled(&[(1, document("one")), (2, document("two")), (3, document("one"))]), 0);
        // The update of a listener brings a new root with a copy of the document.
        assert_eq!(compiled(&[(2, document("two")), (4, document("one"))]), 0);
        assert_eq!((compiled(&[(4, document("one"))]), tables.len()), (0, 2));
        assert_eq!((compiled(&[(4, document("one")), (5, document("two"))]), tables.len()), (2, 4));
        tables.clear();
        assert_eq!(tables.len(), 0);
        assert_eq!(compiled(&[(4, document("one"))]), 2);
    }

    #[test]
    fn no_tables_are_told_until_all_pairs_are_compiled() {
        let tables = RouteTables::default();
        let listeners = [(0, document("a")), (1, document("b")), (2, document("c"))];
        let route = [Route::new("", br#"{"mode": "shadow"}"#)];
        let of = |listeners| {
            let tables = tables.of(listeners, &route, Duration::ZERO, route_tables);
            tables.map(|tables| tables.len())
        };
        assert_eq!([(); 3].map(|()| of(&listeners)), [None, None, Some(3)], "one at a time");
        assert_eq!(of(&listeners[..1]), Some(1));
    }
}
