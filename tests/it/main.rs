//! Everything that is tested from outside, through the public API alone, in one native binary.
//!
//! Time is an argument, stores and hosts are simulated, nothing waits.

mod algorithm;
mod allocations;
mod architecture;
mod check;
mod corpus;
mod counts;
mod decisions;
mod docs;
mod faults;
mod flood;
mod fuzz;
mod grpc;
mod harness;
mod host;
mod hot_path;
mod interleavings;
mod lines;
mod meaning;
mod over;
mod reload;
mod script;
mod service;
mod shares;
mod trial;
mod waiting;
mod warnings;
