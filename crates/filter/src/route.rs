//! The document of a route, before the listener's document is known.

use crate::wording::mistakes;
use diana_config::Configuration;

/// Whether the document of a route is free of mistakes, as far as the document shows them without
/// the listener's; otherwise the reason to refuse the document. `refusals` tells what the host
/// cannot do for a configuration.
pub fn check_route(route: &[u8], refusals: impl FnOnce(&Configuration) -> Vec<String>) -> Result<(), String> {
    let configuration = diana_config::check_route(route).map_err(|errors| mistakes(&errors))?;
    let refusals = configuration.as_ref().map(refusals).unwrap_or_default();
    if refusals.is_empty() { Ok(()) } else { Err(refusals.join("; ")) }
}
