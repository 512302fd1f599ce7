//! The documents of routes, in all threads. Envoy hands back a document's address for each request,
//! and routes with the same document share it, so an update that leaves a document as it is changes
//! nothing for the workers.

use hashbrown::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The document of one or more routes.
pub struct Route {
    /// The name that Envoy's configuration gives to the first of these routes; may be empty.
    pub name: Box<str>,
    pub document: Box<[u8]>,
    /// The listeners whose documents do not fit this one, by their roots. The mistakes are in the
    /// log.
    refused_by: Mutex<Vec<u32>>,
}

impl Route {
    pub fn new(name: &str, document: &[u8]) -> Arc<Route> {
        Arc::new(Route { name: name.into(), document: document.into(), refused_by: Mutex::default() })
    }

    /// The address of the document in memory. Envoy passes this address for each stream.
    pub fn address(self: &Arc<Route>) -> *const c_void {
        Arc::as_ptr(self).cast()
    }

    /// Notes that the document does not fit a listener's. Returns whether this is new.
    pub fn refuse(&self, listener: u32) -> bool {
        let mut refused_by = lock(&self.refused_by);
        let is_new = !refused_by.contains(&listener);
        if is_new {
            refused_by.push(listener);
        }
        is_new
    }

    /// The document as a log line names it: `configuration of a route`, or of the route with its
    /// name.
    pub fn described(name: &str) -> String {
        match name {
            "" => "configuration of a route".into(),
            name => format!("configuration of the route `{}`", name.escape_debug()),
        }
    }
}

/// A document, and how many of Envoy's routes have it.
struct Shared {
    route: Arc<Route>,
    holders: usize,
}

/// All documents.
struct Routes {
    by_address: HashMap<usize, Shared>,
    addresses: HashMap<Box<[u8]>, usize>,
}

static ROUTES: Mutex<Option<Routes>> = Mutex::new(None);
/// How many documents there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Changes whenever a document goes.
static EPOCH: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether any route has a document.
pub fn any() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// How many documents there are.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// A number that changes whenever a document goes.
pub fn epoch() -> u64 {
    EPOCH.load(Ordering::Acquire)
}

/// Adds the document of a route. Ends by [`remove`].
pub fn add(name: &str, document: &[u8]) -> Arc<Route> {
    let mut routes = lock(&ROUTES);
    let routes =
        routes.get_or_insert_with(|| Routes { by_address: HashMap::new(), addresses: HashMap::new() });
    let known = routes.addresses.get(document).and_then(|address| routes.by_address.get_mut(address));
    if let Some(shared) = known {
        shared.holders = shared.holders.saturating_add(1);
        return Arc::clone(&shared.route);
    }
    let route = Route::new(name, document);
    let address = route.address() as usize;
    routes.addresses.insert(document.into(), address);
    routes.by_address.insert(address, Shared { route: Arc::clone(&route), holders: 1 });
    COUNT.store(routes.by_address.len(), Ordering::Relaxed);
    route
}

/// Removes the document of one route. Returns whether no other route has the document.
pub fn remove(address: *const c_void) -> bool {
    let mut routes = lock(&ROUTES);
    let Some(routes) = routes.as_mut() else {
        return false;
    };
    let address = address as usize;
    let Some(shared) = routes.by_address.get_mut(&address) else {
        return false;
    };
    shared.holders = shared.holders.saturating_sub(1);
    if shared.holders > 0 {
        return false;
    }
    if let Some(Shared { route, .. }) = routes.by_address.remove(&address) {
        routes.addresses.remove(&route.document);
    }
    COUNT.store(routes.by_address.len(), Ordering::Relaxed);
    EPOCH.fetch_add(1, Ordering::Release);
    true
}

/// The document at this address; `None` if there is none, because the address is another module's.
pub fn find(address: *const c_void) -> Option<Arc<Route>> {
    let routes = lock(&ROUTES);
    Some(Arc::clone(&routes.as_ref()?.by_address.get(&(address as usize))?.route))
}

/// Whether a route has this document.
pub fn has(route: &Arc<Route>) -> bool {
    find(route.address()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::dangling;

    /// No other test adds documents.
    #[test]
    fn routes_with_one_document_share_it_until_the_last_goes() {
        let epoch_before = epoch();
        let (one, same, other) = (add("", b"{one}"), add("later", b"{one}"), add("", b"{other}"));
        assert!(Arc::ptr_eq(&one, &same) && !Arc::ptr_eq(&one, &other) && any());
        assert!(has(&one) && Arc::ptr_eq(&find(one.address()).unwrap(), &one));
        assert!(find(dangling()).is_none(), "the configuration of another module");
        assert!(!remove(dangling()));
        assert!(!remove(one.address()) && has(&one) && epoch() == epoch_before);
        assert!(remove(one.address()) && !has(&one) && epoch() != epoch_before);
        assert!(any() && remove(other.address()) && !any());
        let anew = add("", b"{one}");
        assert!(!Arc::ptr_eq(&anew, &one), "a worker may still hold the old one");
        assert!(remove(anew.address()));
    }

    #[test]
    fn a_document_that_does_not_fit_is_logged_once_for_each_listener() {
        let route = Route::new("", b"{}");
        assert!(route.refuse(1) && route.refuse(2) && !route.refuse(1));
        assert_eq!(Route::described(""), "configuration of a route");
        assert_eq!(Route::described("a\n"), "configuration of the route `a\\n`");
    }
}
