//! The root contexts of one thread's filter in which routes decide: one for each listener and
//! document of a route that have met.

use super::known::Given;
use crate::routes::Route;
use hashbrown::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// The roots, by the listener's root and the address of the route's document.
#[derive(Default)]
pub struct RouteRoots(HashMap<(u32, usize), RouteRoot>);

/// A listener and the document of a route that have met.
pub struct RouteRoot {
    /// The document; kept so that no other one gets its address.
    pub route: Arc<Route>,
    /// The root in which the route decides; `None` if the two documents do not fit.
    pub root: Option<u32>,
    /// What the root was compiled with.
    pub given: Given,
}

impl RouteRoots {
    /// The root of a listener's and a route's documents; `None` if they have not met.
    pub fn find(&self, listener: u32, address: *const c_void) -> Option<&RouteRoot> {
        self.0.get(&(listener, address as usize))
    }

    /// Adds a root, in place of the one of the same documents.
    pub fn add(&mut self, listener: u32, root: RouteRoot) {
        self.0.insert((listener, root.route.address() as usize), root);
    }

    /// How many roots and refusals there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the pairs that have ended, and returns their roots. `exists`: whether both a
    /// listener and a route's document exist.
    pub fn take_gone(&mut self, exists: impl Fn(u32, &Arc<Route>) -> bool) -> Vec<u32> {
        let gone = self.0.extract_if(|(listener, _), known| !exists(*listener, &known.route));
        gone.filter_map(|(_, known)| known.root).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_goes_with_its_listener_and_with_its_route() {
        let (one, other) = (Route::new("", b"one"), Route::new("", b"other"));
        let mut roots = RouteRoots::default();
        for (listener, route, root) in [(1, &one, Some(11)), (2, &one, None), (1, &other, Some(12))] {
            assert!(roots.find(listener, route.address()).is_none());
            roots.add(listener, RouteRoot { route: Arc::clone(route), root, given: Given::default() });
            assert_eq!(roots.find(listener, route.address()).unwrap().root, root);
        }
        assert_eq!(roots.take_gone(|_, _| true), [0; 0]);
        assert_eq!(roots.take_gone(|listener, _| listener == 1), [0; 0], "no root was made for it");
        assert_eq!(roots.take_gone(|_, route| Arc::ptr_eq(route, &one)), [12]);
        assert_eq!(roots.find(1, one.address()).unwrap().root, Some(11));
        assert!(roots.find(1, other.address()).is_none());
    }
}
