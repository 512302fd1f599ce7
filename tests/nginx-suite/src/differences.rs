//! Which files of nginx-tests run, and which of their assertions Diana does not meet, and why.

/// The files that run, by the names that nginx-tests gives them.
pub const FILES: [&str; 9] = [
    "limit_req.t",
    "limit_req2.t",
    "limit_req_delay.t",
    "limit_req_dry_run.t",
    "limit_conn.t",
    "limit_conn_complex.t",
    "limit_conn_dry_run.t",
    "h2_limit_req.t",
    "h2_limit_conn.t",
];

/// The files about limits that cannot run, and why.
pub const NOT_RUN: [(&str, &str); 12] = [
    ("h3_limit_conn.t", "as over HTTP/2; QUIC needs a certificate and Perl's CryptX"),
    ("h3_limit_req.t", "as over HTTP/2; QUIC needs a certificate and Perl's CryptX"),
    ("limit_rate.t", "the speed of responses, which Diana does not limit"),
    ("proxy_limit_rate.t", "the speed of responses"),
    ("proxy_limit_rate2.t", "the speed of responses"),
    ("stream_limit_conn.t", "connections without HTTP, which Diana does not see"),
    ("stream_limit_conn_complex.t", "connections without HTTP"),
    ("stream_limit_conn_dry_run.t", "connections without HTTP"),
    ("stream_limit_rate.t", "connections without HTTP"),
    ("stream_limit_rate2.t", "connections without HTTP"),
    ("stream_udp_limit_conn.t", "datagrams"),
    ("stream_udp_limit_rate.t", "datagrams"),
];

/// An assertion that fails.
pub struct Difference {
    pub file: &'static str,
    pub assertion: &'static str,
    pub why: &'static str,
}

const fn differs(file: &'static str, assertion: &'static str, why: &'static str) -> Difference {
    Difference { file, assertion, why }
}

const COUNTS: &str = "one zone is in dry run in a location and refuses in another; a rule of Diana does either, so these \
     are two counts";
const LOG: &str = "Diana writes no line into a log for each refusal";
const BODY: &str = "this reads the file into which nginx writes the body; Envoy writes none";

/// All assertions that fail.
pub const DIFFERENCES: [Difference; 11] = [
    differs(
        "limit_req.t",
        "request rejected status",
        "two locations of one zone have two statuses; Diana's limit has one",
    ),
    differs(
        "limit_req_dry_run.t",
        "dry run - delayed",
        "the request passes; a rule in shadow reports refusals, but no waits",
    ),
    differs("limit_req_dry_run.t", "dry run off - rejected", COUNTS),
    differs("limit_req_dry_run.t", "log - delay", LOG),
    differs("limit_req_dry_run.t", "log - reject", LOG),
    differs("limit_conn.t", "limit_conn_log_level", LOG),
    differs("limit_conn_dry_run.t", "rejected dry run", COUNTS),
    differs("limit_conn_dry_run.t", "log dry run", LOG),
    differs("h2_limit_req.t", "request body - limit req", BODY),
    differs("h2_limit_req.t", "request body - limit req - limited", BODY),
    differs("h2_limit_req.t", "request body - limit req 2", BODY),
];
