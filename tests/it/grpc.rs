//! Which requests are gRPC: those that the gateway treats as gRPC, because the gateway translates
//! the status into gRPC's own form.

use crate::harness::policy;
use diana_limiter::request::{Part, Values};

#[test]
fn grpc_is_recognised_by_the_whole_type_and_its_suffix() {
    let policy = policy("[]");
    let is_grpc = |request: Values| policy.is_grpc(&policy.request(&request));
    for (content_type, expected) in [
        ("application/grpc", true),
        ("application/grpc+proto", true),
        ("application/grpc+json", true),
        ("application/grpc+", true),
        ("application/grpc-web", false),
        ("application/grpc-web+proto", false),
        ("application/grpc-web-text", false),
        // Envoy does not treat this type as gRPC: it would send the message as a body.
        ("application/grpc;charset=utf-8", false),
        ("application/grpc; charset=utf-8", false),
        ("application/grpc ", false),
        ("application/grpcs", false),
        ("application/grp", false),
        ("Application/gRPC", false),
        ("text/application/grpc", false),
        ("", false),
    ] {
        let request = Values::default().with(Part::Header("content-type".into()), content_type);
        assert_eq!(is_grpc(request), expected, "{content_type}");
    }
    assert!(!is_grpc(Values::default()), "no type at all");
}
