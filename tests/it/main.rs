//! Everything that is tested from outside, through the public API alone, in one native binary.
//!
//! It does not know: any host. Time is an argument, the store is simulated, nothing waits.

mod algorithm;
mod architecture;
mod corpus;
mod decisions;
mod docs;
mod faults;
mod flood;
mod grpc;
mod harness;
mod hot_path;
mod interleavings;
mod reload;
mod waiting;
