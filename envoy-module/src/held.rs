//! What the module holds, for tests. After the last configuration ends, all numbers are 0.

use crate::namespace::Namespace;
use crate::timer::TIMER;
use crate::{routes, vms};

/// What all threads hold together.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Open streams.
    pub streams: usize,
    /// Configurations that workers know.
    pub configurations: usize,
    /// Documents of routes.
    pub routes: usize,
    /// Keys in memory.
    pub keys: usize,
    /// Threads of the module's own.
    pub threads: usize,
}

/// What the module holds now.
#[must_use]
pub fn held() -> Held {
    let (streams, configurations) = vms::held();
    Held {
        streams,
        configurations,
        routes: routes::count(),
        keys: Namespace::keys(),
        threads: usize::from(TIMER.runs()),
    }
}
