//! The protocols of remote servers.

pub mod source;
