//! What a refused client receives.

use std::borrow::Cow;

/// The response to a refused request.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The HTTP status, 400 to 599. A host that sends a gRPC status sends 200 instead.
    pub status: u32,
    /// All headers except those of message framing. Names are lower case and unique; values are
    /// visible ASCII, space and tab.
    pub headers: Vec<(&'a str, Cow<'a, str>)>,
    /// The body; empty for gRPC.
    pub body: Cow<'a, [u8]>,
    /// The gRPC status, if the client uses gRPC.
    pub grpc_status: Option<u32>,
    /// The reason, without spaces, for the host's access log and for gRPC's message:
    /// `diana_refused:<rule>`, `diana_refused:<rule>|<rule>` if a store does not report which of
    /// these rules refuses, `diana_no_actor:<rule>`, `diana_unavailable:<rule>` or `diana_denied`.
    pub details: String,
}
