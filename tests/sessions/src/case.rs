//! A document and its traffic as data. No type of the engine occurs here, so a case runs in every
//! commit that has the driver.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The number of workers that get traffic all the time.
pub const WORKERS: usize = 3;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Case {
    pub seed: u64,
    pub document: Value,
    /// Whether the host can wake its workers, so that they may reserve.
    pub reserves: bool,
    /// The lines of each distinct request, each with the name of its part: `path`, `header x-a`,
    /// `property a`.
    pub requests: Vec<Vec<(String, String)>>,
    pub steps: Vec<Step>,
}

/// An event. Later steps find the sessions of a step by its `id`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A worker, which starts now if its number is new, gets equal requests at one instant.
    Ask { worker: usize, request: usize, id: u32, times: u32 },
    /// The decision about a request has ended by a bug, or even reading the request ends so.
    Panic { worker: usize, request: Option<usize> },
    /// The turns of waiting requests have come.
    Resume { id: u32 },
    /// The host cannot hold the waiting requests.
    Refuse { id: u32 },
    /// The upstream has the requests.
    Forward { id: u32 },
    /// The requests have responses, or end without one.
    Respond { id: u32, status: Option<u16> },
    /// The requests end; `usage` is absent if the host measured nothing.
    End { id: u32, usage: Option<Usage> },
    /// The clock moves forward.
    Pass { ms: u64 },
    /// The clock steps back.
    Back { ms: u64 },
    /// A worker's timer fires. If `retires`, the worker returns everything for good.
    Tick { worker: usize, retires: bool },
    /// The store fails, or works again.
    Fail { fails: bool },
    /// As the worker decides about the request of the next `ask`, before its swap after `swaps`
    /// others, this other worker decides about one, too.
    Meanwhile { swaps: u32, worker: usize, request: usize, id: u32 },
    /// The next swaps fail as if another worker had been faster.
    Lose { swaps: u32 },
    /// An operator looks up or changes the count that these parameters name.
    Inspect { worker: usize, change: Change, parameters: BTreeMap<String, String> },
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Look,
    Reset,
    EndPenalty,
    Grant { amount: u64, secs: u64 },
}

/// What the host measured of a request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Usage {
    pub status: Option<u16>,
    pub request_bytes: u64,
    pub response_bytes: u64,
    /// The number in every header and at every pointer that a rule reads.
    pub number: Option<u64>,
    /// Whether the host could read all of the response.
    pub is_final: bool,
}
