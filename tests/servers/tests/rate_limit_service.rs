//! The rate limit service, called by a gRPC client.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use servers::RateLimitService;
use tokio::runtime::Builder;
use tonic::Code as Grpc;

const LIMITS: &str = r#"[
    {"namespace": "shop", "max_value": 2, "seconds": 3600, "conditions": [], "variables": ["descriptors[0]['user']"]}
]"#;

#[test]
fn a_limit_counts_by_its_variable_and_domain() {
    let service = RateLimitService::start(LIMITS).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let address = format!("http://{}", service.address());
    let mut client = runtime.block_on(RateLimitServiceClient::connect(address)).unwrap();
    let mut ask = |domain: &str, user: &str, hits_addend| {
        let entry = Entry { key: "user".into(), value: user.into() };
        let descriptors = vec![RateLimitDescriptor { entries: vec![entry], ..Default::default() }];
        let request = RateLimitRequest { domain: domain.into(), descriptors, hits_addend };
        let answer = runtime.block_on(client.should_rate_limit(request));
        answer.map(|answer| answer.into_inner().overall_code()).map_err(|status| status.code())
    };
    assert_eq!(ask("shop", "ann", 0), Ok(Code::Ok), "no addend is one");
    assert_eq!(ask("shop", "ann", 2), Ok(Code::OverLimit), "which is not charged");
    assert_eq!([ask("shop", "ann", 1), ask("shop", "ann", 1)], [Ok(Code::Ok), Ok(Code::OverLimit)]);
    assert_eq!([ask("shop", "bob", 2), ask("bank", "ann", 9)], [Ok(Code::Ok); 2]);
    assert_eq!(ask("", "ann", 1), Err(Grpc::InvalidArgument));
}
