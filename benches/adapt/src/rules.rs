//! What moves the limit: the controller of the engine, or nothing.

mod diana;
mod fixed;
mod rule;

pub use diana::Diana;
pub use fixed::Fixed;
pub use rule::{Rule, Seen, Signal};
