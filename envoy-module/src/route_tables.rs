//! The tables in which the requests of routes count. A worker knows only the pairs of a listener's
//! and a route's documents that its requests have met. A pair that none has met yet may have counts
//! too: those of the listener's configuration before.

use crate::routes::Route;
use diana_filter::route_tables;
use diana_limiter::cells::table::TableId;
use hashbrown::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The main thread compiles pairs for this long at once, because calls to stores wait meanwhile.
pub const MOST_AT_ONCE: Duration = Duration::from_millis(2);

/// A listener's document, by its root.
pub type Listener = (u32, Arc<[u8]>);

/// The tables of the pairs that exist, by the listener's root and the address of the route's
/// document.
#[derive(Default)]
pub struct RouteTables(Mutex<HashMap<(u32, usize), Pair>>);

struct Pair {
    /// Kept so that no other document gets its address.
    _route: Arc<Route>,
    tables: Vec<TableId>,
}

impl RouteTables {
    /// The tables of all pairs. Compiles pairs that are new, at least one, for about `at_once`, and
    /// forgets those that have ended. `None` if there are more to compile.
    pub fn of(
        &self,
        listeners: &[Listener],
        routes: &[Arc<Route>],
        at_once: Duration,
    ) -> Option<Vec<TableId>> {
        let begun = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *known);
        let (mut is_complete, mut has_compiled) = (true, false);
        for (root, listener) in listeners {
            for route in routes {
                let key = (*root, route.address() as usize);
                let pair = before.remove(&key).or_else(|| {
                    is_complete &= !has_compiled || begun.elapsed() < at_once;
                    has_compiled = true;
                    let compile = || route_tables(listener, &route.document);
                    is_complete.then(|| Pair { _route: Arc::clone(route), tables: compile() })
                });
                known.extend(pair.map(|pair| (key, pair)));
            }
        }
        is_complete.then(|| known.values().flat_map(|pair| &pair.tables).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut all = tables.of(listeners, &routes, LONG).unwrap();
            all.sort_unstable();
            all.dedup();
            all
        };
        assert_eq!(of(&listeners, &[&wrong]), []);
        assert_eq!(of(&listeners, &[&own]).len(), 1, "the route's own limits, over either listener");
        assert_eq!(of(&listeners, &[&plain]).len(), 2, "the limits of the listeners");
        assert_eq!(of(&listeners, &[&own, &plain, &wrong]).len(), 3);
        assert_eq!(of(&listeners[1..], &[&plain]), route_tables(&listeners[1].1, &plain.document));
        assert_eq!(tables.0.lock().unwrap().len(), 1);
        assert_eq!(of(&[], &[&plain]), []);
    }

    #[test]
    fn no_tables_are_told_until_all_pairs_are_compiled() {
        let tables = RouteTables::default();
        let listeners: Vec<Listener> = (0..3).map(|root| (root, document("a"))).collect();
        let route = [Route::new("", br#"{"mode": "shadow"}"#)];
        let of = |listeners| tables.of(listeners, &route, Duration::ZERO).map(|tables| tables.len());
        assert_eq!([(); 3].map(|()| of(&listeners)), [None, None, Some(3)], "one at a time");
        assert_eq!(of(&listeners[..1]), Some(1));
    }
}
