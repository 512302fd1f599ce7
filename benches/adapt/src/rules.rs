//! Controllers: one file each, by the formula of its publication.

mod aimd;
mod diana;
mod envoy;
mod fixed;
mod gradient2;
mod rule;
mod target;
mod vegas;

pub use aimd::Aimd;
pub use diana::Diana;
pub use envoy::Envoy;
pub use fixed::Fixed;
pub use gradient2::Gradient2;
pub use rule::{Rule, Seen, Signal};
pub use target::Target;
pub use vegas::Vegas;
