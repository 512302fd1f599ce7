//! What `diana explain` found: `--format json` prints it, and the text shows it. Requests are
//! numbered from 1; `from` and `to` are the first and the last request of a run.

use serde::Serialize;

/// Which limits apply to a request, and what each rule decides.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The file with the document.
    pub document: String,
    /// The request.
    pub request: RequestView,
    /// What the explanation assumes, one sentence each.
    pub notes: Vec<String>,
    /// The list that names the client.
    pub list: Option<ListEntry>,
    /// The client's plan.
    pub plan: Option<String>,
    /// Whether the request may take the headroom of rules.
    pub is_high_priority: bool,
    /// The limits that apply, in the order of their checks.
    pub limits: Vec<LimitView>,
    /// The limits that nearly apply, the nearest first.
    pub nearly: Vec<NearLimit>,
    /// The number of all other limits.
    pub others: usize,
    /// The outcome of all requests.
    pub outcomes: Vec<OutcomeRun>,
    /// What the client sees of the first request that passes.
    pub admitted: Option<Response>,
    /// What the client sees of the first request that is refused.
    pub refused: Option<Response>,
}

/// The request.
#[derive(Clone, Debug, Serialize)]
pub struct RequestView {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub url: String,
    /// The host.
    pub host: Option<String>,
    /// The address of the peer.
    pub ip: String,
    /// The headers: name and value.
    pub headers: Vec<[String; 2]>,
    /// The instant of the first request.
    pub at: String,
    /// How often the request comes.
    pub times: u32,
    /// The time between two requests.
    pub every_s: f64,
    /// How long each request is in flight.
    pub lasts_s: f64,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListEntry {
    /// `deny` or `allow`.
    pub list: &'static str,
    /// The entry, as the document spells it.
    pub entry: String,
    /// Whether the list decides. In shadow mode, the deny list only reports.
    pub is_enforced: bool,
}

/// A limit that applies.
#[derive(Clone, Debug, Serialize)]
pub struct LimitView {
    /// The limit's place in the document; empty if the document is one limit.
    pub place: String,
    /// The url pattern.
    pub url: String,
    /// The conditions beside the url, as the document spells them.
    pub conditions: Vec<String>,
    /// Whether the limit switches off less specific ones.
    pub is_exclusive: bool,
    /// Whether the limit gives the request a high priority.
    pub is_high_priority: bool,
    /// The rules, in the order of the document.
    pub rules: Vec<RuleView>,
}

/// A limit that does not apply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearLimit {
    /// The limit's place in the document.
    pub place: String,
    /// The url pattern.
    pub url: String,
    /// Why the limit does not apply, one reason each.
    pub why: Vec<String>,
}

/// A rule of a limit that applies.
#[derive(Clone, Debug, Serialize)]
pub struct RuleView {
    /// The rule's name.
    pub name: String,
    /// The rule's place in the document.
    pub place: String,
    /// The short name of the algorithm, such as `TB`.
    pub algorithm: &'static str,
    /// The quota of this actor: requests, or units of cost.
    pub rpu: u64,
    /// The unit in seconds; 0 if the rule counts requests in flight.
    pub unit_s: f64,
    /// The quota for people, such as `10/s`.
    pub quota: String,
    /// Whether a global store counts the rule.
    pub is_global: bool,
    /// Whether the rule refuses requests of this actor, or only counts them.
    pub is_enforced: bool,
    /// The part of its actors for which the rule refuses, such as `5%`.
    pub enforce: String,
    /// The actor that the rule counts.
    pub actor: ActorView,
    /// The runs of the rule's decisions.
    pub runs: Vec<RuleRun>,
}

/// The actor that a rule counts in the request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ActorView {
    /// The actor, such as `user`, or `tenant, user` for a tuple.
    pub name: String,
    /// How the rule found the actor: `all`, `actor`, `ip`, `shared`, `denied`, or `skipped`.
    pub found: &'static str,
    /// The value that is counted. `None` if the rule counts many clients together or nobody.
    pub value: Option<String>,
    /// The actors that the request lacks.
    pub lacks: Vec<String>,
}

/// What a rule decides about consecutive requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleRun {
    /// The first request.
    pub from: u32,
    /// The last request.
    pub to: u32,
    /// What the rule decides. `would admit`: the rule admits the request, but another rule refuses.
    pub result: &'static str,
    /// The units left after the first request and after the last one.
    pub left: Option<[u64; 2]>,
    /// The least and the most that is left.
    pub left_range: Option<[u64; 2]>,
    /// The waits of admitted requests, or those until a refused client may try again.
    pub wait_s: Option<[f64; 2]>,
    /// The highest threshold of `over` that these requests are beyond, in percent.
    pub over: Option<u32>,
}

/// The outcome of consecutive requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutcomeRun {
    /// The first request.
    pub from: u32,
    /// The last request.
    pub to: u32,
    /// `pass`, `allowed`, `delayed` or `refused`.
    pub outcome: &'static str,
    /// The reason of a refusal, as in the access log.
    pub details: Option<String>,
    /// The rules in shadow mode that would have refused.
    pub shadow: Option<String>,
    /// The waits of delayed requests.
    pub wait_s: Option<[f64; 2]>,
}

/// What the client sees.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Response {
    /// The request.
    pub request: u32,
    /// The status; `None` for a request that passes, because the upstream chooses the status.
    pub status: Option<u32>,
    /// The gRPC status.
    pub grpc_status: Option<u32>,
    /// The headers: name and value.
    pub headers: Vec<[String; 2]>,
    /// The body.
    pub body: Option<String>,
    /// The latest `retry-after`, if the seconds are spread at random.
    pub retry_after_up_to: Option<u64>,
    /// How long the gateway holds the refusal back.
    pub held_back_s: f64,
}
