//! The protocols of remote servers.

pub mod redis;
pub mod rls;
pub mod source;
