//! The rate limit service, called by a gRPC client.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, rate_limit::Unit};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::UInt64Value;
use servers::{Answers, Manner, RateLimitService};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Channel;
use tonic::{Code as Grpc, Status};

struct Client {
    client: RateLimitServiceClient<Channel>,
    runtime: Runtime,
}

impl Client {
    fn of(service: &RateLimitService) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let address = format!("http://{}", service.address());
        let client = runtime.block_on(RateLimitServiceClient::connect(address)).unwrap();
        Self { client, runtime }
    }

    fn ask(
        &mut self,
        descriptors: &[RateLimitDescriptor],
        hits_addend: u32,
    ) -> Result<RateLimitResponse, Status> {
        let request =
            RateLimitRequest { domain: "diana".into(), descriptors: descriptors.to_vec(), hits_addend };
        let pending = self.client.should_rate_limit(request);
        self.runtime.block_on(pending).map(tonic::Response::into_inner)
    }

    /// Each descriptor's code and remaining quota, and the overall code.
    fn reply(&mut self, descriptors: &[RateLimitDescriptor], hits: u32) -> (Vec<(Code, u32)>, Code) {
        let answer = self.ask(descriptors, hits).unwrap();
        let statuses = answer.statuses.iter().map(|one| (one.code(), one.limit_remaining));
        (statuses.collect(), answer.overall_code())
    }
}

fn descriptor(key: &str, value: &str, requests_per_unit: u32) -> RateLimitDescriptor {
    let entry = Entry { key: key.into(), value: value.into() };
    let limit = RateLimitOverride { requests_per_unit, unit: 3 };
    RateLimitDescriptor { entries: vec![entry], limit: Some(limit), ..Default::default() }
}

#[test]
fn a_limit_counts_by_key_value_and_quota() {
    let service = RateLimitService::start().unwrap();
    let mut client = Client::of(&service);
    let ann = [descriptor("user", "ann", 3)];
    assert_eq!(client.reply(&ann, 0), (vec![(Code::Ok, 2)], Code::Ok), "no addend is one");
    assert_eq!(client.reply(&ann, 2), (vec![(Code::Ok, 0)], Code::Ok));
    assert_eq!(client.reply(&ann, 1), (vec![(Code::OverLimit, 0)], Code::OverLimit));
    for other in [descriptor("user", "bob", 3), descriptor("account", "ann", 3), descriptor("user", "ann", 4)]
    {
        let left = other.limit.unwrap().requests_per_unit - 1;
        assert_eq!(client.reply(&[other], 1), (vec![(Code::Ok, left)], Code::Ok));
    }
    let answer = client.ask(&ann, 1).unwrap();
    let status = &answer.statuses[0];
    let limit = status.current_limit.as_ref().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (3, Unit::Hour));
    let reset = status.duration_until_reset.unwrap().seconds;
    assert!((3_500..=3_600).contains(&reset), "{reset}");
    assert_eq!(service.calls(), 7);
}

#[test]
fn if_one_descriptor_is_over_its_limit_none_is_charged() {
    let service = RateLimitService::start().unwrap();
    let mut client = Client::of(&service);
    let both = [descriptor("all", "", 10), descriptor("user", "ann", 1)];
    assert_eq!(client.reply(&both, 1), (vec![(Code::Ok, 9), (Code::Ok, 0)], Code::Ok));
    assert_eq!(client.reply(&both, 1), (vec![(Code::Ok, 9), (Code::OverLimit, 0)], Code::OverLimit));
    assert_eq!(client.reply(&both[..1], 1), (vec![(Code::Ok, 8)], Code::Ok));
    // The same for one counter twice.
    let twice = [descriptor("user", "bob", 1), descriptor("user", "bob", 1)];
    assert_eq!(client.reply(&twice, 1).1, Code::OverLimit);
    assert_eq!(client.reply(&twice[..1], 1).1, Code::Ok);
}

#[test]
fn other_services_name_no_descriptor_or_charge_refusals() {
    let both = [descriptor("all", "", 10), descriptor("user", "ann", 1)];
    let limitador = RateLimitService::start_as(Manner::Limitador).unwrap();
    let mut client = Client::of(&limitador);
    assert_eq!(client.reply(&both, 1), (vec![], Code::Ok));
    assert_eq!(client.reply(&both, 1), (vec![], Code::OverLimit));
    assert_eq!(client.reply(&both[..1], 9), (vec![], Code::Ok), "nothing was charged");
    let envoy = RateLimitService::start_as(Manner::Envoy).unwrap();
    let mut client = Client::of(&envoy);
    assert_eq!(client.reply(&both, 1), (vec![(Code::Ok, 9), (Code::Ok, 0)], Code::Ok));
    assert_eq!(client.reply(&both, 1), (vec![(Code::Ok, 8), (Code::OverLimit, 0)], Code::OverLimit));
    assert_eq!(client.reply(&both[..1], 1), (vec![(Code::Ok, 7)], Code::Ok));
}

#[test]
fn a_descriptor_has_its_own_hits_or_no_limit() {
    let service = RateLimitService::start().unwrap();
    let mut client = Client::of(&service);
    let five =
        RateLimitDescriptor { hits_addend: Some(UInt64Value { value: 5 }), ..descriptor("user", "ann", 10) };
    let unlimited = RateLimitDescriptor { limit: None, ..descriptor("plan", "free", 0) };
    let (statuses, overall) = client.reply(&[unlimited.clone(), five], 1);
    assert_eq!((statuses[1], overall), ((Code::Ok, 5), Code::Ok));
    let answer = client.ask(&[unlimited], 1).unwrap();
    assert_eq!((answer.statuses[0].code(), &answer.statuses[0].current_limit), (Code::Ok, &None));
    let unknown = RateLimitDescriptor {
        limit: Some(RateLimitOverride { requests_per_unit: 1, unit: 0 }),
        ..Default::default()
    };
    assert_eq!(client.ask(&[unknown], 1).unwrap_err().code(), Grpc::InvalidArgument);
    let back = RateLimitDescriptor { is_negative_hits: true, ..Default::default() };
    assert_eq!(client.ask(&[back], 1).unwrap_err().code(), Grpc::Unimplemented);
    assert_eq!(client.ask(&[], 1).unwrap_err().code(), Grpc::InvalidArgument);
}

#[test]
fn the_service_fails_as_configured() {
    let service = RateLimitService::start().unwrap();
    let mut client = Client::of(&service);
    let ann = [descriptor("user", "ann", 10)];
    service.answer_with(Answers::Status(Grpc::Unavailable));
    assert_eq!(client.ask(&ann, 1).unwrap_err().code(), Grpc::Unavailable);
    service.answer_with(Answers::Bytes(vec![0xff; 40]));
    assert_eq!(client.ask(&ann, 1).unwrap_err().code(), Grpc::Internal, "what cannot be read");
    service.answer_with(Answers::Bytes(Vec::new()));
    assert_eq!(client.ask(&ann, 1).unwrap(), RateLimitResponse::default());
    service.answer_with(Answers::Late(Duration::from_millis(100)));
    let start = Instant::now();
    assert_eq!(client.reply(&ann, 1).0, [(Code::Ok, 9)]);
    assert!(start.elapsed() >= Duration::from_millis(100));
    service.answer_with(Answers::Decided);
    assert_eq!(client.reply(&ann, 1).0, [(Code::Ok, 8)], "what failed was not charged");
}

/// Even while the service never replies.
#[test]
fn a_dropped_service_ends() {
    let service = RateLimitService::start().unwrap();
    service.answer_with(Answers::Never);
    let mut client = Client::of(&service);
    let pending = std::thread::spawn(move || client.ask(&[descriptor("user", "ann", 1)], 1));
    gateway::wait_until("the call", Duration::from_secs(10), || (service.calls() == 1).then_some(()))
        .unwrap();
    let address = service.address();
    drop(service);
    assert!(pending.join().unwrap().is_err());
    assert!(std::net::TcpStream::connect(address).is_err());
}
