//! The arguments of `diana convert`.

use crate::output::Output;
use clap::ValueEnum;
use std::path::PathBuf;

/// The arguments of `diana convert`.
///
/// The exit code is 0 if everything carries over, possibly changed; 1 if something is lost; 2 if
/// a file cannot be read.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if everything carries over, possibly changed; 1 if something is \
    lost; 2 if a file cannot be read")]
pub struct Args {
    /// The rate limiter of the files
    #[arg(value_enum, value_name = "FROM")]
    pub from: SourceKind,
    /// Its configuration, in one or several files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the document to this file, and replace the file if it exists. By default, the document
    /// goes to standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The form of the output: `json` is one value with the document and the notes
    #[command(flatten)]
    pub output: Output,
}

/// A rate limiter whose configuration can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceKind {
    /// Envoy's `local_ratelimit`, also in an `EnvoyFilter` of Istio
    EnvoyLocal,
    /// Envoy's `ratelimit`: Envoy's configuration, and the limits of envoyproxy/ratelimit
    EnvoyRatelimit,
    /// `BackendTrafficPolicy` of Envoy Gateway
    EnvoyGateway,
    /// `Ingress` with annotations of ingress-nginx
    IngressNginx,
    /// `limit_req` and `limit_conn` of nginx
    Nginx,
    /// The declarative file of Kong with `rate-limiting` and `rate-limiting-advanced`
    Kong,
}

impl SourceKind {
    /// The page of the migration guide.
    #[must_use]
    pub fn page(self) -> &'static str {
        match self {
            SourceKind::EnvoyLocal | SourceKind::EnvoyGateway => "local-ratelimit.md",
            SourceKind::EnvoyRatelimit => "ratelimit.md",
            SourceKind::IngressNginx | SourceKind::Nginx => "nginx.md",
            SourceKind::Kong => "kong.md",
        }
    }
}
