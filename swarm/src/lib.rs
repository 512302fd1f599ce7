//! A swarm of gateways on a virtual clock: the engine and the script are the real ones; the network
//! between them, the clocks and Redis' data are simulated, so that any fault can be drawn from a
//! seed and repeated.
//!
//! ```text
//!   seed ─ Scenario ─► World: gateways ─ links ─► Server (the script in Lua 5.1)
//!                        │        ▲───────────────┘
//!                        ▼
//!                  Bounds, Ledger ─► Outcome, or a Violation
//! ```
#![forbid(unsafe_code)]

pub mod bounds;
pub mod budgets;
pub mod ledger;
pub mod measure;
pub mod random;
pub mod scenario;
pub mod server;
pub mod world;
