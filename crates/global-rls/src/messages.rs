//! The protobuf messages of a rate limit service, as far as they are used. Names and field numbers
//! are those of the named files of Envoy's API.

use prost::Message;

/// `RateLimitRequest`, `envoy/service/ratelimit/v3/rls.proto`.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    /// The cost of descriptors without a cost of their own; 0 means 1.
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

/// `RateLimitDescriptor`, `envoy/extensions/common/ratelimit/v3/ratelimit.proto`.
#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    /// Overrides the limit that the service is configured with.
    #[prost(message, optional, tag = "2")]
    pub limit: Option<RuleLimit>,
    /// A `google.protobuf.UInt64Value`, since Envoy 1.33.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<u64>,
}

/// `RateLimitDescriptor.Entry`, ibid.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `RateLimitDescriptor.RateLimitOverride`, ibid.
#[derive(Clone, PartialEq, Message)]
pub struct RuleLimit {
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub unit: i32,
}

/// `RateLimitResponse.Code`, `rls.proto`; 0 is unknown.
pub const OK: i32 = 1;
/// Ibid.
pub const OVER_LIMIT: i32 = 2;

/// `RateLimitResponse`, `rls.proto`.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    #[prost(int32, tag = "1")]
    pub overall_code: i32,
    /// One for each descriptor, in order.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<Status>,
}

/// The same message; only the numbers of statuses and headers are kept.
#[derive(Clone, PartialEq, Message)]
pub struct Counted {
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<()>,
    #[prost(message, repeated, tag = "3")]
    pub headers: Vec<()>,
}

/// The same message; only the headers are kept.
#[derive(Clone, PartialEq, Message)]
pub struct Headers {
    /// `response_headers_to_add`.
    #[prost(message, repeated, tag = "3")]
    pub headers: Vec<Header>,
}

/// `HeaderValue`, `envoy/config/core/v3/base.proto`. The key and the value are strings there; as
/// bytes, text that is not UTF-8 does not fail the whole message.
#[derive(Clone, PartialEq, Message)]
pub struct Header {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// Replaces `value`.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}

/// `RateLimitResponse.DescriptorStatus`, ibid.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Whether there is a limit. Its contents are not read.
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<()>,
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<Duration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
pub struct Duration {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// `GrpcService`, `envoy/config/core/v3/grpc_service.proto`.
#[derive(Clone, PartialEq, Message)]
pub struct GrpcService {
    #[prost(message, optional, tag = "1")]
    pub envoy_grpc: Option<EnvoyGrpc>,
}

/// `GrpcService.EnvoyGrpc`, ibid.
#[derive(Clone, PartialEq, Message)]
pub struct EnvoyGrpc {
    #[prost(string, tag = "1")]
    pub cluster_name: String,
}
