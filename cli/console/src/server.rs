//! The local server of `diana console`. The token stays here: the page gets answers of gateways,
//! and asks by names.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /` | the page |
//! | `GET /api/state` | what each gateway enforces and decides |
//! | `GET /api/top?rule=R&by=refused` | which actors each gateway refuses |
//! | `POST /api/actor`, `reset`, `grant`, `penalty` | one actor's count in each gateway |

use crate::answer::{Count, Top};
use crate::fleet::{Failure, Fleet, Question, Target};
use crate::guard::{self, Key};
use crate::page::page;
use crate::watch::{Seen, Watch};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// A console that is ready to serve.
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    key: Key,
    watch: Watch,
}

impl Console {
    /// Listens on an address.
    pub async fn bind(address: SocketAddr, fleet: Fleet) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let shared =
            Arc::new(Shared { key: Key::random().map_err(io::Error::other)?, watch: Watch::new(fleet) });
        Ok(Self { address: listener.local_addr()?, listener, shared })
    }

    /// The link of the page. Whoever has it can reset and grant.
    #[must_use]
    pub fn link(&self) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        format!("http://{address}/#{}", self.shared.key.text())
    }

    /// Serves until the process ends.
    pub async fn serve(self) -> io::Result<()> {
        let questions = Router::new()
            .route("/state", get(state))
            .route("/top", get(top))
            .route("/{question}", post(change))
            .route_layer(from_fn_with_state(Arc::clone(&self.shared), guarded));
        let page = page();
        let (html, policy) = (page.html, HeaderValue::try_from(page.policy).map_err(io::Error::other)?);
        let router = Router::new()
            .route("/", get(async move || Html(html.clone())))
            .nest("/api", questions)
            .layer(middleware::from_fn(move |request, next| headers(policy.clone(), request, next)))
            .with_state(self.shared);
        axum::serve(self.listener, router).await
    }
}

/// Refuses requests that may not have the page, and adds the headers of every answer.
async fn headers(policy: HeaderValue, request: Request, next: Next) -> Response {
    let mut response = match guard::page(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let fixed: [(HeaderName, &'static str); 6] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// Refuses requests that may not ask.
async fn guarded(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match guard::question(request.headers(), &shared.key) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

#[derive(Serialize)]
struct Overview {
    version: &'static str,
    gateways: Vec<Seen>,
}

async fn state(State(shared): State<Arc<Shared>>) -> Json<Overview> {
    Json(Overview { version: diana_filter::VERSION, gateways: shared.watch.look().await })
}

#[derive(Deserialize)]
struct TopOf {
    rule: String,
    by: String,
}

async fn top(State(shared): State<Arc<Shared>>, asked: Result<Query<TopOf>, QueryRejection>) -> Response {
    match asked {
        Ok(Query(TopOf { rule, by })) => answers::<Top>(&shared, &Question::Top { rule, by }).await,
        Err(why) => (StatusCode::BAD_REQUEST, why.body_text()).into_response(),
    }
}

/// An actor, and what a grant gives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    rule: String,
    #[serde(default)]
    actor: Vec<(String, String)>,
    plan: Option<String>,
    amount: Option<u64>,
    #[serde(rename = "for")]
    duration: Option<String>,
}

async fn change(
    State(shared): State<Arc<Shared>>,
    Path(question): Path<String>,
    asked: Result<Json<Asked>, JsonRejection>,
) -> Response {
    let Asked { rule, actor, plan, amount, duration } = match asked {
        Ok(Json(asked)) => asked,
        Err(why) => return (StatusCode::BAD_REQUEST, why.body_text()).into_response(),
    };
    let target = Target { rule, actor, plan };
    let question = match (&*question, amount.zip(duration)) {
        ("actor", _) => Question::Actor(target),
        ("reset", _) => Question::Reset(target),
        ("penalty", _) => Question::EndPenalty(target),
        ("grant", Some((amount, duration))) => Question::Grant { target, amount, duration },
        ("grant", None) => return (StatusCode::BAD_REQUEST, "expected `amount` and `for`").into_response(),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    answers::<Count>(&shared, &question).await
}

/// What one gateway has answered.
#[derive(Serialize)]
struct Answered<T> {
    gateway: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Of an error: whether nothing has changed for certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_certain: Option<bool>,
}

async fn answers<T: DeserializeOwned + Serialize + Send + 'static>(
    shared: &Shared,
    question: &Question,
) -> Response {
    let fleet = shared.watch.fleet();
    let answers: Vec<Result<T, Failure>> =
        fleet.ask_unless(question, |place| shared.watch.refusal(place)).await;
    let answered = fleet.addresses().iter().zip(answers).map(|(address, answer)| {
        let gateway = address.name().into();
        match answer {
            Ok(answer) => Answered { gateway, answer: Some(answer), error: None, is_certain: None },
            Err(failure) => {
                let error = Some(question.failure_text(&failure));
                Answered { gateway, answer: None, error, is_certain: Some(failure.is_certain()) }
            }
        }
    });
    Json(answered.collect::<Vec<_>>()).into_response()
}
