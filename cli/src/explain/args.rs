//! The arguments of `diana explain`.

use crate::number::within;
use crate::output::Output;
use crate::replay::field;
use std::path::PathBuf;

/// The arguments of `diana explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The file with the document
    pub file: PathBuf,
    /// The method of the request
    #[arg(long, default_value = "GET")]
    pub method: String,
    /// The path with its query, or a whole URL
    #[arg(long, required_unless_present_any = ["log", "ticket"])]
    pub url: Option<String>,
    /// The ticket of a refusal, which is read in place of a request
    #[arg(long, value_name = "TICKET", allow_hyphen_values = true, conflicts_with_all = OF_A_REQUEST)]
    #[arg(conflicts_with_all = ["log", "store_down", "all"])]
    pub ticket: Option<String>,
    /// Compare the actor of the ticket with this value; a tuple needs several `--actor`
    #[arg(long, value_name = "VALUE", conflicts_with_all = ["url", "log"])]
    pub actor: Vec<String>,
    /// A file with the secret of tickets, in place of the document's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "log"])]
    pub secret_file: Option<PathBuf>,
    /// An access log of which one line is explained, after the requests before it: plain, gzip or
    /// zstd; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "line", conflicts_with_all = OF_A_REQUEST)]
    pub log: Option<PathBuf>,
    /// The number of the line, from 1
    #[arg(long, value_name = "N", requires = "log", value_parser = within(1..=u64::MAX))]
    pub line: Option<u64>,
    /// The format of the lines, as `--format` of `diana replay`
    #[arg(long, value_name = "FORMAT", requires = "log")]
    pub log_format: Option<String>,
    /// The key of JSON lines with a value of a body, as `--field` of `diana replay`
    #[arg(long, value_name = "POINTER=KEY", requires = "log", value_parser = field)]
    pub field: Vec<(String, String)>,
    /// The address of the peer, as the gateway reports it
    #[arg(long, default_value = "127.0.0.1")]
    pub ip: String,
    /// A header, as in `-H 'x-user-id: 7'`; several headers need several `-H`
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The host of the request
    #[arg(long)]
    pub host: Option<String>,
    /// The scheme of the request
    #[arg(long)]
    pub scheme: Option<String>,
    /// The file with the request's JSON body; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub body: Option<PathBuf>,
    /// The size of the request's body in bytes, or `unknown` for a chunked body
    #[arg(long, value_name = "BYTES")]
    pub body_size: Option<String>,
    /// An attribute of the gateway, as in `--property xds.route_name=main`
    #[arg(long = "property", value_name = "PATH=VALUE")]
    pub properties: Vec<String>,
    /// How many times the client sends the request
    #[arg(long, default_value_t = 1, value_parser = within(1..=MAX_TIMES))]
    pub times: u32,
    /// The time between two requests, such as `100ms`
    #[arg(long, default_value = "0s", value_name = "SPAN")]
    pub every: String,
    /// How long each request is in flight, such as `2s`
    #[arg(long, default_value = "0s", value_name = "SPAN")]
    pub lasts: String,
    /// The instant of the first request: RFC 3339, or seconds since 1970. The default is now, in
    /// whole seconds
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// The status of the upstream's responses, for rules that depend on the status
    #[arg(long, default_value_t = 200, value_parser = within(100..=599u16))]
    pub status: u16,
    /// The size of each response's body in bytes, for rules that depend on the size
    #[arg(long, default_value_t = 0, value_name = "BYTES", value_parser = within(0..=u64::MAX))]
    pub response_bytes: u64,
    /// Decide as if the global store were down
    #[arg(long, conflicts_with = "log")]
    pub store_down: bool,
    /// List all limits that do not apply, not only the nearest
    #[arg(long)]
    pub all: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
}

/// The options that the line of a log replaces.
const OF_A_REQUEST: [&str; 15] = [
    "method",
    "url",
    "ip",
    "headers",
    "host",
    "scheme",
    "body",
    "body_size",
    "properties",
    "times",
    "every",
    "lasts",
    "at",
    "status",
    "response_bytes",
];

/// The most requests of one call.
const MAX_TIMES: u32 = 100_000;
