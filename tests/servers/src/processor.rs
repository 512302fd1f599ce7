//! `envoy.service.ext_proc.v3.ExternalProcessor` over gRPC, which passes requests and their bodies
//! on unchanged, each piece when it comes: `FULL_DUPLEX_STREAMED`.

use crate::serving::Serving;
use anyhow::Result;
use axum::Router;
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeadersResponse, ProcessingRequest, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::net::SocketAddr;
use tonic::{Request as Call, Response as Answer, Status, Streaming};

/// A running processor, which ends when it is dropped.
pub struct Processor(Serving);

impl Processor {
    /// Starts a processor on a free port.
    pub fn start() -> Result<Self> {
        let path = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
        let service = ExternalProcessorServer::new(Passing);
        Ok(Self(Serving::start(|| Ok(Router::new().route_service(path, service)))?))
    }

    /// The address of the processor.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

struct Passing;

#[tonic::async_trait]
impl ExternalProcessor for Passing {
    type ProcessStream = BoxStream<'static, Result<ProcessingResponse, Status>>;

    async fn process(
        &self,
        call: Call<Streaming<ProcessingRequest>>,
    ) -> Result<Answer<Self::ProcessStream>, Status> {
        Ok(Answer::new(call.into_inner().map(|request| Ok(passed(request?))).boxed()))
    }
}

fn passed(request: ProcessingRequest) -> ProcessingResponse {
    let response = request.request.map(|request| match request {
        Request::RequestHeaders(_) => Response::RequestHeaders(HeadersResponse::default()),
        Request::ResponseHeaders(_) => Response::ResponseHeaders(HeadersResponse::default()),
        Request::RequestBody(body) => Response::RequestBody(piece(body.body, body.end_of_stream)),
        Request::ResponseBody(body) => Response::ResponseBody(piece(body.body, body.end_of_stream)),
        Request::RequestTrailers(_) => Response::RequestTrailers(TrailersResponse::default()),
        Request::ResponseTrailers(_) => Response::ResponseTrailers(TrailersResponse::default()),
    });
    ProcessingResponse { response, ..Default::default() }
}

fn piece(body: Vec<u8>, end_of_stream: bool) -> BodyResponse {
    let streamed = StreamedBodyResponse { body, end_of_stream, ..Default::default() };
    let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(streamed)) };
    BodyResponse { response: Some(CommonResponse { body_mutation: Some(mutation), ..Default::default() }) }
}
