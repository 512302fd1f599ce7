//! The settings of a test's gateway. Everything except the filter's configuration has a default.

use crate::Shell;
pub use crate::cluster::{Tunnel, bridged, cluster};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The filter's configuration in the form in which Envoy gets it.
#[derive(Clone, Debug)]
pub enum Plugin {
    /// `google.protobuf.StringValue`: passed byte for byte.
    Text(String),
    /// `google.protobuf.Struct`: the form of a document in YAML. Envoy's documentation promises the
    /// filter JSON, but 1.40 passes the message in protobuf's own encoding.
    Struct(Value),
}

/// As JSON text.
impl From<Value> for Plugin {
    fn from(value: Value) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<&str> for Plugin {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Plugin {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// One gateway: `Config { concurrency: 1, ..Config::new(json!({…})) }`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The filter's configuration.
    pub plugin: Plugin,
    /// The shell to load; by default that of this run.
    pub shell: Shell,
    /// Another build to load: of the proxy-wasm filter, or of the native module, in the folder
    /// where Envoy looks for modules.
    pub filter: Option<PathBuf>,
    /// The name of the shared data within one process.
    pub vm_id: String,
    /// The module's `metrics_namespace`; `None` for Envoy's own.
    pub metrics_namespace: Option<String>,
    /// The callbacks and host calls that a proxy-wasm filter may use, all if empty: Envoy's
    /// `allowed_capabilities`.
    pub capabilities: Vec<String>,
    /// The policy after a trap of a VM: `FAIL_RELOAD`, `FAIL_CLOSED` or `FAIL_OPEN`.
    pub failure_policy: String,
    /// The least time between two reloads of a VM that has trapped.
    pub reload_backoff: Duration,
    /// Envoy's `allow_on_headers_stop_iteration`: a filter that pauses a request's headers gets
    /// callbacks for its body, too.
    pub stop_iteration: bool,
    /// The transport of the gateway's clients, such as TLS; by default plain TCP.
    pub transport_socket: Option<Value>,
    /// Filters of the listener, such as that of the PROXY protocol.
    pub listener_filters: Vec<Value>,
    /// Worker threads.
    pub concurrency: u32,
    /// The upstream; by default a listener of the same Envoy that responds with `answer`.
    pub upstream: Option<SocketAddr>,
    /// Status and body of the response if there is no `upstream`.
    pub answer: (u16, String),
    /// More routes, matched before the route that sends everything to the upstream with a timeout
    /// of 30 s.
    pub routes: Vec<Value>,
    /// Whether the routes come by the route discovery service, so that
    /// [`Gateway::reroute`](crate::Gateway::reroute) replaces them alone.
    pub rds: bool,
    /// Envoy's `request_timeout`: how long a request may take until it is complete and sent
    /// upstream.
    pub request_timeout: Option<Duration>,
    /// Whether clients may upgrade to WebSocket, and open tunnels to the upstream by `CONNECT`.
    pub upgrades: bool,
    /// Whether the client's address is the connection's (true) or the one in `x-forwarded-for`
    /// (false).
    pub use_remote_address: bool,
    /// Whether Envoy normalises paths before the filter sees them.
    pub normalize_path: bool,
    /// Envoy's limit for the size of all request headers.
    pub max_request_headers_kb: u32,
    /// The format of a line of the access log, which
    /// [`Gateway::access_log`](crate::Gateway::access_log) reads.
    pub access_log: Option<String>,
    /// More keys of the gateway's HTTP connection manager, as an object.
    pub manager: Value,
    /// Sinks of Envoy's statistics.
    pub stats_sinks: Vec<Value>,
    /// The level of Envoy's own log, with levels for components after a comma: `info,wasm:debug`.
    pub log_level: String,
    /// Filters before Diana.
    pub before: Vec<Value>,
    /// Filters behind Diana.
    pub behind: Vec<Value>,
    /// Filters in place of Diana, in front of the router, to compare with.
    pub instead: Option<Vec<Value>>,
    /// Whether the gateway itself responds with `answer`, without an upstream.
    pub direct: bool,
    /// Whether Envoy balances connections over the workers; otherwise the kernel distributes them.
    pub balanced: bool,
    /// How long an old configuration lives after an update.
    pub drain: Duration,
    /// A program with its arguments, such as Valgrind, that runs Envoy. Empty: Envoy runs by
    /// itself.
    pub under: Vec<String>,
    /// Environment of the process, such as `EVENT_PRECISE_TIMER`.
    pub env: Vec<(String, String)>,
    /// Secrets of the bootstrap.
    pub secrets: Vec<Value>,
    /// More clusters, for call-outs and [`Config::routes`]; `cluster` makes one.
    pub clusters: Vec<Value>,
    /// Tunnels to a Redis.
    pub tunnels: Vec<Tunnel>,
    /// More listeners.
    pub listeners: Vec<Value>,
    /// The settings of a second listener, [`Gateway::outbound`](crate::Gateway::outbound). The
    /// traffic direction of the first listener is inbound, that of the second outbound.
    pub outbound: Option<Box<Config>>,
}

impl Config {
    /// All defaults with this configuration of the filter.
    pub fn new(plugin: impl Into<Plugin>) -> Self {
        Self {
            plugin: plugin.into(),
            shell: Shell::of_run(),
            filter: None,
            vm_id: "diana".into(),
            metrics_namespace: Some("diana".into()),
            capabilities: Vec::new(),
            failure_policy: "FAIL_RELOAD".into(),
            reload_backoff: Duration::from_millis(100),
            stop_iteration: false,
            transport_socket: None,
            listener_filters: Vec::new(),
            concurrency: 2,
            upstream: None,
            answer: (200, "hello from upstream\n".into()),
            routes: Vec::new(),
            rds: false,
            request_timeout: None,
            upgrades: false,
            use_remote_address: true,
            normalize_path: false,
            max_request_headers_kb: 60,
            access_log: None,
            manager: Value::Null,
            stats_sinks: Vec::new(),
            log_level: "info".into(),
            before: Vec::new(),
            behind: Vec::new(),
            instead: None,
            direct: false,
            balanced: false,
            drain: Duration::from_secs(2),
            under: Vec::new(),
            env: Vec::new(),
            secrets: Vec::new(),
            clusters: Vec::new(),
            tunnels: Vec::new(),
            listeners: Vec::new(),
            outbound: None,
        }
    }
}
