//! The document of a route, for the thread that decides about no requests of the route.

use crate::wording::mistakes;
use diana_config::{Configuration, Secret, Source};
use diana_limiter::cells::table::TableId;

/// Checks the document of a route, as far as this is possible without the listener's document.
/// Fails with the reason to refuse the document. `refusals` returns what the host cannot do for a
/// configuration.
pub fn check_route(route: &[u8], refusals: impl FnOnce(&Configuration) -> Vec<String>) -> Result<(), String> {
    let configuration = diana_config::check_route(route).map_err(|errors| mistakes(&errors))?;
    let refusals = configuration.as_ref().map(refusals).unwrap_or_default();
    if refusals.is_empty() { Ok(()) } else { Err(refusals.join("; ")) }
}

/// The tables that count requests decided by a route's document over the listener's. There are none
/// if the two documents do not fit together, because the listener's then decides.
#[must_use]
pub fn route_tables(listener: &[u8], route: &[u8]) -> Vec<TableId> {
    // A secret changes no table.
    let configuration = Source::new(listener, &Secret::Absent).compile_route(route);
    configuration.map(|known| known.policy.table_ids().collect()).unwrap_or_default()
}
