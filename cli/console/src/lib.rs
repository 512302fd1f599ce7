//! Asks running gateways what they count, over the interface of `inspect`: [`fleet`] for the
//! command `diana ctl`, and [`server`] for the page of `diana console`.
#![forbid(unsafe_code)]

pub mod answer;
pub mod fleet;
mod guard;
mod page;
pub mod server;
mod watch;
