//! A real Envoy with the filter, for the end-to-end tests and the demo. It blocks and uses threads,
//! and has an HTTP/1.1 client of its own, because tests must send requests that client libraries
//! refuse, and a load generator must leave most of two cores to Envoy.
//!
//! ```text
//!   Config ──> bootstrap ──> Gateway (one Envoy process, its own folder under target/)
//!                             │ admin: stats, listeners, acceptance of an update
//!  get, raw, load ─HTTP/1.1──>│ listener: connection manager, diana, router
//!                             ├──> upstream: a second listener of the same Envoy, or an `Upstream`
//!                             └──> store: a `Redis`, by a bridge or a tunnel
//! ```
#![forbid(unsafe_code)]

pub mod admin;
pub mod backend;
mod bootstrap;
mod carrier;
mod cluster;
pub mod config;
pub mod envoy;
pub mod filter;
mod gateway;
pub mod http;
mod http_filter;
pub mod limitador;
pub mod load;
pub mod npm;
pub mod packages;
pub mod peers;
mod process;
pub mod prometheus;
pub mod redis;
mod release;
pub mod service;
mod shell;
pub mod steady;
pub mod upstream;
pub mod wait;
pub mod wheel;
mod workspace;

pub use carrier::Carrier;
pub use config::{Config, Plugin, Tunnel};
pub use gateway::{Gateway, Update, free_port};
pub use http::{Connection, Response};
pub use http_filter::{http_filter, per_filter_config, upstream_filters};
pub use load::{Answer, Load, Report, Shot};
pub use prometheus::Prometheus;
pub use redis::{Redis, Sentinel};
pub use shell::Shell;
pub use upstream::{Ending, Received, Reply, Stage, Upstream};
pub use wait::wait_until;
pub use workspace::{root, target};
