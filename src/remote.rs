//! The protocols of remote servers.

pub mod rls;
pub mod source;
