//! Finds mistakes in documents and in the gateway's configuration around them.

mod addresses;
mod calendars;
mod clusters;
pub mod code;
mod document;
mod envoy;
mod files;
pub mod finding;
mod forgeable;
mod hints;
mod mistakes;
mod model;
pub mod nginx;
mod order;
mod partial;
pub mod place;
pub mod render;
mod replicas;
pub mod report;
mod rules;
mod stats;
mod urls;
mod variables;
mod yaml;
