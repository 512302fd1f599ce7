//! The document of a route, for the thread that decides about no requests of the route.

use crate::wording::mistakes;
use diana_config::Configuration;

/// Checks the document of a route, as far as this is possible without the listener's document.
/// Fails with the reason to refuse the document. `refusals` returns what the host cannot do for a
/// configuration.
pub fn check_route(route: &[u8], refusals: impl FnOnce(&Configuration) -> Vec<String>) -> Result<(), String> {
    let configuration = diana_config::check_route(route).map_err(|errors| mistakes(&errors))?;
    let refusals = configuration.as_ref().map(refusals).unwrap_or_default();
    if refusals.is_empty() { Ok(()) } else { Err(refusals.join("; ")) }
}
