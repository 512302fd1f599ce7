//! Keeps the configurations that the filter of one thread knows, and the documents of routes over
//! them.

use super::route_roots::{RouteRoot, RouteRoots};
use super::secrets::Delivered;
use super::{Context, Vm};
use crate::calls::Reader;
use crate::config::FilterConfig;
use crate::namespace::Namespace;
use crate::routes::{self, Route};
use crate::runtime;
use diana_config::Secret;
use diana_filter::Host;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What Envoy gives to a configuration besides its document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The version of the secret; 0 if there is none.
    secret: u32,
    /// The value of [`runtime`].
    max_enforce: u32,
}

impl<H: Host + From<&'static Vm<H>>> Vm<H> {
    /// Makes a configuration with what Envoy now gives known to the filter; `false` if the filter
    /// refuses the configuration. Runs in an event of this configuration.
    pub fn knows(&'static self, config: &FilterConfig) -> bool {
        let own = (config.root, self.given(config));
        if self.last_root.get() == own {
            return true;
        }
        let find =
            |roots: &mut Vec<(u32, Given)>| roots.iter().find(|(root, _)| *root == config.root).copied();
        let known = self.roots.with(find).flatten();
        // If the filter refuses another secret, the earlier configuration stays in use.
        if known != Some(own) && !self.configure(config) && known.is_none() {
            self.forget(config.root);
            return false;
        }
        self.roots.with(|roots| {
            roots.retain(|(root, _)| *root != config.root);
            roots.push(own);
        });
        self.last_root.set(own);
        true
    }

    fn given(&self, config: &FilterConfig) -> Given {
        Given { secret: self.secret_version(config), max_enforce: runtime::hundredths() }
    }

    /// The version of the secret that Envoy delivers for a configuration; 0 if there is none.
    fn secret_version(&self, config: &FilterConfig) -> u32 {
        let Some(secret) = &config.secret else {
            return 0;
        };
        // SAFETY: this is an event of the configuration or of one of its streams.
        let delivered = unsafe { secret.read(config.pointer()) };
        let decides_request = !self.context.get().carrier.is_null();
        match self.secrets.with(|secrets| secrets.update(config.root, delivered)) {
            Some(Delivered::Version(version)) => {
                if version == 0 && delivered.is_empty() && decides_request {
                    secret.miss();
                }
                version
            }
            Some(Delivered::Wrong(version)) => {
                secret.refuse(delivered);
                version
            }
            None => 0,
        }
    }

    /// Lends the filter the secret of the configuration that it is about to compile.
    fn lend_secret(&self, config: &FilterConfig) {
        if config.secret.is_some() {
            let secret = self.secrets.with(|secrets| secrets.get(config.root)).unwrap_or(Secret::Absent);
            self.secret.with(|lent| *lent = secret);
        }
    }

    /// How many configurations the filter has, with those of routes.
    pub fn known_count(&self) -> usize {
        let routes = self.route_roots.with(|roots| roots.len()).unwrap_or(0);
        self.roots.with(|roots| roots.len()).unwrap_or(0).saturating_add(routes)
    }

    /// The root in which the effective stream is decided: that of its route's document over the
    /// listener's, or else the listener's. `None` if the filter refuses the listener's document.
    /// Runs in an event of this configuration.
    pub fn root(&'static self, config: &FilterConfig) -> Option<u32> {
        // Most processes have no documents of routes, and asking Envoy costs time.
        let of_route = if routes::any() { self.root_of_route(config) } else { None };
        of_route.or_else(|| self.knows(config).then_some(config.root))
    }

    fn root_of_route(&'static self, config: &FilterConfig) -> Option<u32> {
        let stream = self.context.get().stream;
        if stream.is_null() {
            return None;
        }
        // SAFETY: the effective stream lives, and this is its thread.
        let address = unsafe { Reader::new(self.envoy, stream) }.route();
        if address.is_null() {
            return None;
        }
        let given = self.given(config);
        let find = |roots: &mut RouteRoots| {
            let known = roots.find(config.root, address)?;
            Some((Arc::clone(&known.route), known.root, known.given == given))
        };
        let (route, root) = match self.route_roots.with(find).flatten() {
            Some((_, root, true)) => return root,
            // Nothing that Envoy gives makes the documents fit.
            Some((_, None, false)) => return None,
            Some((route, Some(root), false)) => (route, Some(root)),
            None => (routes::find(address)?, None),
        };
        let root = self.configure_route(config, &route, root);
        self.route_roots.with(|roots| roots.add(config.root, RouteRoot { route, root, given }));
        root
    }

    /// Makes the document of a route over the listener's known to the filter. `before` is the root
    /// that the documents had when Envoy gave something else. Returns the root; `None` if the
    /// documents do not fit.
    fn configure_route(
        &'static self,
        config: &FilterConfig,
        route: &Route,
        before: Option<u32>,
    ) -> Option<u32> {
        let root = before.unwrap_or_else(Namespace::root_for_route);
        let context = Context { stream: null_mut(), id: root, root, ..self.context.get() };
        self.lend_secret(config);
        let result = self.within(context, || {
            self.filter().on_context_create(root, 0);
            self.filter().on_configure_route(root, &config.document, &route.document)
        });
        let Err(why) = result else {
            return Some(root);
        };
        if before.is_none() {
            self.forget(root);
        }
        if route.refuse(config.root) {
            let what = Route::described(&route.name);
            log::error!("{what} refused, {why}; the listener's configuration decides about its requests");
        }
        before
    }

    fn configure(&'static self, config: &FilterConfig) -> bool {
        let context =
            Context { stream: null_mut(), id: config.root, root: config.root, ..self.context.get() };
        self.document.with(|document| *document = config.document.to_vec());
        self.lend_secret(config);
        let is_taken = self.within(context, || {
            self.filter().on_context_create(config.root, 0);
            self.filter().on_configure(config.root, config.document.len())
        });
        self.document.with(|document| *document = Vec::new());
        is_taken
    }

    /// Frees the memory of configurations that have ended. Runs in an event.
    pub fn forget_the_gone(&'static self) {
        let epoch = self.namespace.epoch();
        if self.epoch.load(Ordering::Relaxed) == epoch {
            return;
        }
        self.epoch.store(epoch, Ordering::Relaxed);
        let roots = self.roots.with(|roots| roots.clone()).unwrap_or_default();
        for (root, _) in roots.into_iter().filter(|(root, _)| !self.namespace.has(*root)) {
            self.forget(root);
        }
        let exists = |listener, route: &_| self.namespace.has(listener) && routes::has(route);
        let gone = self.route_roots.with(|roots| roots.take_gone(exists));
        gone.into_iter().flatten().for_each(|root| self.forget(root));
    }

    fn forget(&'static self, root: u32) {
        self.last_root.set((0, Given::default()));
        self.roots.with(|roots| roots.retain(|(known, _)| *known != root));
        self.secrets.with(|secrets| secrets.remove(root));
        let context = Context { stream: null_mut(), id: root, root, ..self.context.get() };
        self.within(context, || self.filter().on_delete(root));
        self.timers.set(root, 0);
    }
}
