//! The root contexts of one thread's filter in which routes decide: one for each listener and
//! document of a route that have met.

use crate::routes::Route;
use hashbrown::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// The roots, by the listener's root and the address of the route's document. Each keeps its
/// document, so that no other one gets the address.
#[derive(Default)]
pub struct RouteRoots(HashMap<(u32, usize), (Arc<Route>, Option<u32>)>);

impl RouteRoots {
    /// The root in which the route decides; `Some(None)` if the two documents do not fit, `None`
    /// if they have not met.
    pub fn find(&self, listener: u32, address: *const c_void) -> Option<Option<u32>> {
        self.0.get(&(listener, address as usize)).map(|(_, root)| *root)
    }

    /// Adds the root of a listener's and a route's documents, or that they do not fit.
    pub fn add(&mut self, listener: u32, route: Arc<Route>, root: Option<u32>) {
        self.0.insert((listener, route.address() as usize), (route, root));
    }

    /// Takes away what has gone, and returns the roots. `exists`: whether both a listener and a
    /// route's document exist.
    pub fn take_gone(&mut self, exists: impl Fn(u32, &Arc<Route>) -> bool) -> Vec<u32> {
        let gone = self.0.extract_if(|(listener, _), (route, _)| !exists(*listener, route));
        gone.filter_map(|(_, (_, root))| root).collect()
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
            assert_eq!(roots.find(listener, route.address()), None);
            roots.add(listener, Arc::clone(route), root);
            assert_eq!(roots.find(listener, route.address()), Some(root));
        }
        assert_eq!(roots.take_gone(|_, _| true), [0; 0]);
        assert_eq!(roots.take_gone(|listener, _| listener == 1), [0; 0], "no root was made for it");
        assert_eq!(roots.take_gone(|_, route| Arc::ptr_eq(route, &one)), [12]);
        assert_eq!(roots.find(1, one.address()), Some(Some(11)));
    }
}
