//! The arguments of `diana init`.

use super::endpoint::Endpoint;
use super::limit::LimitSpec;
use super::target::{Kind, Redis, Remote};
use crate::number::within;
use crate::output::Output;
use std::path::PathBuf;

/// The arguments of `diana init`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// A limit, as in `--limit '100/minute per ip on /api'`, possibly with plans and a penalty, as in
    /// `'…; gold 1000/minute; internal unlimited; penalty 10m after 5'`; several limits need several
    /// `--limit`
    #[arg(long = "limit", value_name = "LIMIT")]
    pub limits: Vec<LimitSpec>,
    /// The actor that the limit of `--rpu` counts: `ip`, `user`, `device`, `all`, or a source such
    /// as `header x-api-key`
    #[arg(long, value_name = "ACTOR", requires = "rpu")]
    pub per: Option<String>,
    /// Requests per unit, for one limit without `--limit`
    #[arg(long, value_name = "NUMBER")]
    pub rpu: Option<String>,
    /// The unit of `--rpu`: second, minute, hour, day, or a span such as `30s`
    #[arg(long, value_name = "UNIT", requires = "rpu")]
    pub unit: Option<String>,
    /// The url of the limit of `--rpu`, by default `/`
    #[arg(long, value_name = "URL", requires = "rpu")]
    pub url: Option<String>,
    /// The kind of file to write
    #[arg(long, value_enum)]
    pub kind: Option<Kind>,
    /// Write a document alone, like `--kind document`
    #[arg(long, conflicts_with = "kind")]
    pub document: bool,
    /// Where a request shows its plan: `header NAME`, `query NAME`, `cookie NAME` or `jwt CLAIM`; by
    /// default `header x-plan`
    #[arg(long, value_name = "SOURCE")]
    pub plan: Option<String>,
    /// An address or a network without limits; several need several `--exempt`
    #[arg(long, value_name = "ADDRESS")]
    pub exempt: Vec<String>,
    /// The address of your own service, by default 127.0.0.1:8080
    #[arg(long, value_name = "HOST:PORT")]
    pub upstream: Option<Endpoint>,
    /// The address on which the gateway listens, by default 127.0.0.1:10000
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Endpoint::listening)]
    pub listen: Option<Endpoint>,
    /// The address of Envoy's admin interface, by default 127.0.0.1:9901
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Endpoint::listening)]
    pub admin: Option<Endpoint>,
    /// Count for all gateways together, in `redis=HOST:PORT`
    #[arg(long, value_name = "STORE")]
    pub store: Option<Redis>,
    /// The number of gateways that share the store: while the store is down, each takes its part of
    /// each limit
    #[arg(long, value_name = "NUMBER", value_parser = within(1..=10_000u64))]
    pub replicas: Option<u64>,
    /// The server of a document that changes the limits without a restart; by default, the path is
    /// `/diana.json`
    #[arg(long, value_name = "HOST:PORT[/PATH]")]
    pub remote: Option<Remote>,
    /// The number of your own proxies in front of the gateway, from 0 to 31
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = within(0..=31u8))]
    pub proxies: u8,
    /// Start in shadow mode: every rule counts and reports, but no rule refuses
    #[arg(long)]
    pub shadow: bool,
    /// The path at which the gateway finds the filter's file; by default that of the file beside this
    /// command
    #[arg(long, value_name = "PATH")]
    pub filter: Option<String>,
    /// The file to write; `-` is standard output. By default, the name depends on `--kind`
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// The form of the report
    #[command(flatten)]
    pub output: Output,
}
