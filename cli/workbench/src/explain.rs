//! Shows which limits apply to a request, and what each rule decides. The engine decides, over a
//! store in memory and on a virtual clock; this module only shows the decisions.

mod actors;
mod conditions;
pub mod document;
pub mod gateways;
mod limits;
mod lists;
mod near;
mod outcome;
mod report;
pub mod request;
mod rules;
mod runs;
pub mod simulation;
mod text;
pub mod visible;

pub use report::*;
pub use simulation::{Decided, Simulation};
pub use text::time as seconds_in_words;

use miette::Result;

/// Explains the decisions about a request. `all`: whether each limit that does not apply is listed.
pub fn of_decisions(
    document: &document::Document,
    incoming: &request::Incoming,
    simulation: &Simulation,
    name: &str,
    all: bool,
) -> Result<Explanation> {
    let matched = limits::matched(document, incoming)?;
    let list = lists::entry(document, incoming, simulation)?;
    let actors = actors::of_rules(document, &matched.applying, incoming);
    let limits = rules::views(document, &matched, actors, simulation);
    let (nearly, others) = near::limits(document, &matched, incoming, all);
    Ok(Explanation {
        document: name.to_owned(),
        request: incoming.view(),
        notes: simulation.notes(document, incoming),
        list,
        plan: simulation.plan.clone(),
        is_high_priority: simulation.is_high_priority,
        limits,
        nearly,
        others,
        outcomes: outcome::runs(simulation),
        admitted: simulation.admitted.clone(),
        refused: simulation.refused.clone(),
    })
}

/// The explanation as text for a terminal.
#[must_use]
pub fn text(explanation: &Explanation) -> String {
    text::render(explanation)
}
