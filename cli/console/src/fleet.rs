//! Asks any number of gateways at once. Each question has a result for each gateway, in the order
//! of the arguments; that a gateway does not answer is a result, too.

use diana_filter::{ACTOR_HEADER, ONLY_READS, WRONG_TOKEN};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::task::JoinHandle;

/// The path of `inspect` in the documentation, for addresses without one.
const USUAL_PATH: &str = "/.diana";

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 8 << 20;

/// The most characters of a gateway's words that are shown.
const MOST_WORDS: usize = 500;

/// How long an idle connection stays open: several polls of a page.
const IDLE: Duration = Duration::from_secs(15);

/// Where a gateway answers: the address of its listener and the path of `inspect`.
///
/// ```
/// use diana_console::fleet::Address;
///
/// let address: Address = "http://localhost:10000/.diana/".parse()?;
/// assert_eq!(address.url(), "http://localhost:10000/.diana");
/// assert_eq!(address.name(), "localhost:10000");
/// let same: Address = "http://localhost:10000".parse()?;
/// assert_eq!(same, address, "the path is `/.diana` unless another is named");
/// let encrypted: Address = "https://localhost:10000".parse()?;
/// assert_eq!(encrypted.name(), "https://localhost:10000");
/// assert!("localhost:10000".parse::<Address>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    url: String,
    name: String,
}

impl Address {
    /// The whole address, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Host and port, the path if it is not the usual one, and `https://` if it is encrypted. The
    /// name of each address is its own.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn is_https(&self) -> bool {
        self.url.starts_with("https:")
    }
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected an address such as `http://localhost:10000/.diana`".to_owned();
        let uri: Uri = text.trim().parse().map_err(|_| expected())?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(expected());
        };
        if authority.as_str().contains('@') {
            return Err("expected an address without a user: `--token-file` names the token".into());
        }
        if uri.query().is_some() {
            return Err(expected());
        }
        let path = match uri.path().trim_end_matches('/') {
            "" => USUAL_PATH,
            path => path,
        };
        let shown = if path == USUAL_PATH { "" } else { path };
        let encrypted = if scheme == "https" { "https://" } else { "" };
        Ok(Self {
            url: format!("{scheme}://{authority}{path}"),
            name: format!("{encrypted}{authority}{shown}"),
        })
    }
}

/// What a gateway is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// What it enforces: [`Policy`](crate::answer::Policy).
    Policy,
    /// What it has decided lately: [`Rates`](crate::answer::Rates).
    Rates {
        /// How many seconds.
        seconds: u32,
    },
    /// Which actors were refused or used most: [`Top`](crate::answer::Top).
    Top {
        /// The rule's name.
        rule: String,
        /// `refused` or `used`.
        by: String,
    },
    /// What a rule has counted for an actor: [`Count`](crate::answer::Count).
    Actor(Target),
    /// Forgets it. The answer is the count afterwards, as for all changes.
    Reset(Target),
    /// Gives an actor more for some time.
    Grant {
        /// The actor.
        target: Target,
        /// How many units.
        amount: u64,
        /// How long, as Diana writes durations: `1h`.
        duration: String,
    },
    /// Ends an actor's penalty.
    EndPenalty(Target),
}

/// A rule, and one of its actors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The rule's name.
    pub rule: String,
    /// The values by the names of the rule's actors.
    pub actor: Vec<(String, String)>,
    /// The plan under whose quota the count is shown.
    pub plan: Option<String>,
}

impl Target {
    /// The actor as people write it: `user=ann ip=192.0.2.7`, or `everybody` for a rule on `all`.
    #[must_use]
    pub fn actor_text(&self) -> String {
        let pairs: Vec<String> = self.actor.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { "everybody".into() } else { pairs.join(" ") }
    }
}

impl Question {
    /// Why there is no answer, in words. After a change they say whether it may have happened.
    #[must_use]
    pub fn failure_text(&self, failure: &Failure) -> String {
        match self.method() == Method::POST && !failure.is_certain() {
            true => format!("{failure}. The change may have taken effect; repeating is safe"),
            false => failure.to_string(),
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::Policy | Self::Rates { .. } | Self::Top { .. } | Self::Actor(_) => Method::GET,
            Self::Reset(_) | Self::Grant { .. } | Self::EndPenalty(_) => Method::POST,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Rates { .. } => "rates",
            Self::Top { .. } => "top",
            Self::Actor(_) => "actor",
            Self::Reset(_) => "reset",
            Self::Grant { .. } => "grant",
            Self::EndPenalty(_) => "penalty",
        }
    }

    /// The URL below the path of `inspect`, without the actor.
    fn target(&self) -> String {
        let mut query = Pairs::default();
        match self {
            Self::Policy => {}
            Self::Rates { seconds } => query.add("seconds", &seconds.to_string()),
            Self::Top { rule, by } => {
                query.add("rule", rule);
                query.add("by", by);
            }
            Self::Actor(_) | Self::Reset(_) | Self::EndPenalty(_) => {}
            Self::Grant { amount, duration, .. } => {
                query.add("amount", &amount.to_string());
                query.add("for", duration);
            }
        }
        if let Some(Target { rule, plan, .. }) = self.of() {
            query.add("rule", rule);
            plan.iter().for_each(|plan| query.add("plan", plan));
        }
        [self.name(), if query.0.is_empty() { "" } else { "?" }, &query.0].concat()
    }

    /// The actor that a question is about.
    fn of(&self) -> Option<&Target> {
        match self {
            Self::Policy | Self::Rates { .. } | Self::Top { .. } => None,
            Self::Actor(target) | Self::Reset(target) | Self::EndPenalty(target) => Some(target),
            Self::Grant { target, .. } => Some(target),
        }
    }

    /// The header with the actor, because access logs record the query, and it may be a secret.
    fn actor(&self) -> Option<HeaderValue> {
        let mut pairs = Pairs::default();
        self.of()?.actor.iter().for_each(|(name, value)| pairs.add(name, value));
        let mut actor = HeaderValue::try_from(pairs.0).ok()?;
        actor.set_sensitive(true);
        Some(actor)
    }
}

/// Percent-encoded names and values.
#[derive(Default)]
struct Pairs(String);

impl Pairs {
    fn add(&mut self, name: &str, value: &str) {
        self.0.push_str(if self.0.is_empty() { "" } else { "&" });
        self.0.extend(utf8_percent_encode(name, NON_ALPHANUMERIC));
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// No connection.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Late(Duration),
    /// The connection ended in the answer, or the answer is not HTTP.
    #[error("the answer is cut off or broken: {0}")]
    Broken(String),
    /// A larger answer than any of Diana's.
    #[error("the answer is larger than {} MiB", LARGEST_ANSWER >> 20)]
    TooLarge,
    /// Another server has answered: a gateway forwards questions from addresses that may not ask.
    #[error(
        "`inspect` does not answer (status {0}): check its path, and whether `allow` has this address. Whoever answered \
         has the token now"
    )]
    NotDiana(u16),
    /// The question was not sent, because somebody else has answered the last one.
    #[error(
        "not asked, because `inspect` has not answered the last question (status {0}): it is tried every 30 s"
    )]
    NotAsked(u16),
    /// An answer that this version does not understand.
    #[error("this answer of the gateway is not understood: {0}")]
    Unknown(String),
    /// The gateway does not know the question, because it is older or not configured to answer.
    #[error(
        "the gateway has no `{question}`: {why}. If these are not its words, an upstream has answered: check the path"
    )]
    Missing {
        /// The question's name.
        question: &'static str,
        /// The gateway's words.
        why: String,
    },
    /// The gateway knows the question and refuses to answer.
    #[error("{why}")]
    Refused {
        /// The status of the answer.
        status: u16,
        /// The gateway's words.
        why: String,
    },
}

impl Failure {
    /// Whether the gateway has surely changed nothing. A gateway that did not answer may have, and
    /// a status from 500 may be that of a store that did not answer in time, or of a proxy.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Missing { .. } | Self::NotAsked(_) => true,
            Self::Refused { status, .. } | Self::NotDiana(status) => (400..500).contains(status),
            Self::Late(_) | Self::Broken(_) | Self::TooLarge | Self::Unknown(_) => false,
        }
    }
}

/// Why there is no fleet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    /// Not a token.
    #[error("expected one line of visible ASCII characters, the token of `inspect`")]
    Token,
    /// No encrypted connection is possible.
    #[error("{0}")]
    Tls(String),
}

/// The gateways of a command, and the token that all of them know.
#[derive(Clone)]
pub struct Fleet {
    addresses: Arc<[Address]>,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    authorization: HeaderValue,
    timeout: Duration,
}

/// The token stays secret.
impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addresses, timeout, client: _, authorization: _ } = self;
        f.debug_struct("Fleet")
            .field("addresses", addresses)
            .field("timeout", timeout)
            .finish_non_exhaustive()
    }
}

impl Fleet {
    /// The gateways at these addresses. Each answer may take `timeout`. The error is a message for
    /// people, and does not repeat the token.
    pub fn new(addresses: Vec<Address>, token: &str, timeout: Duration) -> Result<Self, Unusable> {
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Unusable::Token);
        }
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Unusable::Token)?;
        authorization.set_sensitive(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(addresses.iter().any(Address::is_https)).map_err(Unusable::Tls)?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(Self { addresses: addresses.into(), client, authorization, timeout })
    }

    /// The addresses, in the order of the results.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Asks all gateways at once.
    pub async fn ask_all<T: DeserializeOwned + Send + 'static>(
        &self,
        question: &Question,
    ) -> Vec<Result<T, Failure>> {
        self.ask_unless(question, |_| None).await
    }

    /// Asks all gateways at once, but not those whose answer is known, by their place.
    pub async fn ask_unless<T: DeserializeOwned + Send + 'static>(
        &self,
        question: &Question,
        known: impl Fn(usize) -> Option<Failure>,
    ) -> Vec<Result<T, Failure>> {
        let ask = |(place, address): (usize, &Address)| -> JoinHandle<Result<T, Failure>> {
            let (fleet, address, question) = (self.clone(), address.clone(), question.clone());
            let known = known(place);
            tokio::spawn(async move {
                match known {
                    Some(failure) => Err(failure),
                    None => fleet.ask(&address, &question).await,
                }
            })
        };
        let asked: Vec<_> = self.addresses.iter().enumerate().map(ask).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for answer in asked {
            // Only a panic of the task fails here.
            answers.push(answer.await.unwrap_or_else(|error| Err(Failure::Broken(error.to_string()))));
        }
        answers
    }

    /// Asks one gateway.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        address: &Address,
        question: &Question,
    ) -> Result<T, Failure> {
        let (status, body) = match tokio::time::timeout(self.timeout, self.send(address, question)).await {
            Ok(received) => received?,
            Err(_) => return Err(Failure::Late(self.timeout)),
        };
        read(status, &body, question.name())
    }

    async fn send(&self, address: &Address, question: &Question) -> Result<(u16, Bytes), Failure> {
        let method = question.method();
        let mut request = Request::builder()
            .uri(format!("{}/{}", address.url, question.target()))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(USER_AGENT, format!("diana/{}", diana_filter::VERSION));
        if let Some(actor) = question.actor() {
            request = request.header(ACTOR_HEADER, actor);
        }
        if method == Method::POST {
            request = request.header(CONTENT_LENGTH, 0);
        }
        let request =
            request.method(method).body(Empty::new()).map_err(|error| Failure::Broken(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| match error.is_connect() {
            true => Failure::Unreachable(innermost(&error)),
            false => Failure::Broken(innermost(&error)),
        })?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => Failure::TooLarge,
            false => Failure::Broken(innermost(&*error)),
        })?;
        Ok((status, body.to_bytes()))
    }
}

/// TLS with the roots of this machine, or of `$SSL_CERT_FILE`. Roots are read only if they are
/// needed, because a container may have none.
fn tls(needs_roots: bool) -> Result<rustls::ClientConfig, String> {
    use hyper_rustls::ConfigBuilderExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match needs_roots {
        true => builder.with_native_roots().map_err(|error| format!("no root certificates: {error}"))?,
        false => builder.with_root_certificates(rustls::RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

/// The last cause, which names what has happened: `Connection refused (os error 111)`.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn read<T: DeserializeOwned>(status: u16, body: &[u8], question: &'static str) -> Result<T, Failure> {
    /// Exactly what the filter writes: upstreams often say more in JSON.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrong {
        error: String,
    }
    let wrong = serde_json::from_slice::<Wrong>(body).map(|wrong| cut(wrong.error));
    match (status, wrong) {
        (200, _) => serde_json::from_slice(body).map_err(|error| match serde_json::from_slice(body) {
            // An object with some field of the answers comes from Diana; other JSON, and text, from
            // elsewhere.
            Ok(serde_json::Value::Object(fields))
                if fields.contains_key("rule") || fields.contains_key("rules") =>
            {
                Failure::Unknown(cut(error.to_string()))
            }
            _ => Failure::NotDiana(status),
        }),
        // Each gateway has a policy, and none refuses a caller in this way.
        (404, _) if question == "policy" => Err(Failure::NotDiana(status)),
        (401, Ok(why)) if why == WRONG_TOKEN => Err(Failure::Refused { status, why }),
        (403, Ok(why)) if why.ends_with(ONLY_READS) => Err(Failure::Refused { status, why }),
        (401 | 403, _) => Err(Failure::NotDiana(status)),
        (404, Ok(why)) => Err(Failure::Missing { question, why }),
        (400.., Ok(why)) => Err(Failure::Refused { status, why }),
        _ => Err(Failure::NotDiana(status)),
    }
}

/// The first characters of a gateway's words, which may be megabytes.
fn cut(mut words: String) -> String {
    if let Some((end, _)) = words.char_indices().nth(MOST_WORDS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Count;

    #[test]
    fn an_actor_is_in_the_header_alone_whatever_its_name() {
        let target = Target {
            rule: "per user".into(),
            actor: vec![("user".into(), "a&rule=b c/ü".into()), ("amount".into(), "9".into())],
            plan: Some("gold".into()),
        };
        assert_eq!(Question::Actor(target.clone()).target(), "actor?rule=per%20user&plan=gold");
        assert_eq!(Question::EndPenalty(target.clone()).target(), "penalty?rule=per%20user&plan=gold");
        let grant = Question::Grant { target, amount: 5, duration: "1h".into() };
        assert_eq!(grant.target(), "grant?amount=5&for=1h&rule=per%20user&plan=gold");
        let header = grant.actor().unwrap();
        assert_eq!(header, "user=a%26rule%3Db%20c%2F%C3%BC&amount=9");
        assert!(header.is_sensitive());
        assert_eq!((Question::Policy.target(), grant.method()), ("policy".into(), Method::POST));
        assert_eq!(Question::Policy.actor(), None);
    }

    #[test]
    fn only_answers_of_diana_are_answers() {
        let read = |status, body: &str| read::<Count>(status, body.as_bytes(), "grant");
        assert!(read(200, r#"{"rule":"a","quota":5,"used":1,"remaining":4}"#).is_ok());
        assert!(matches!(read(200, r#"{"rule":"a"}"#), Err(Failure::Unknown(_))));
        for (status, body) in
            [(200, "<html>"), (200, "{}"), (404, "not found"), (302, ""), (302, r#"{"error":"x"}"#)]
        {
            assert_eq!(read(status, body), Err(Failure::NotDiana(status)), "{body}");
        }
        let missing = read(404, r#"{"error":"expected GET policy"}"#).unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("the gateway has no `grant`: expected GET policy. If these are not"),
            "{missing}"
        );
        let why = "there is no rule `b`".to_owned();
        assert_eq!(
            read(400, r#"{"error":"there is no rule `b`"}"#),
            Err(Failure::Refused { status: 400, why })
        );
    }

    #[test]
    fn what_is_wrong_with_a_token_is_said() {
        let read = |status, why: &str| {
            let body = serde_json::json!({"error": why}).to_string();
            read::<Count>(status, body.as_bytes(), "policy").unwrap_err()
        };
        let only_reads = "the token `ci` may only read";
        for (status, why) in [(401, WRONG_TOKEN), (403, only_reads)] {
            assert_eq!(read(status, why), Failure::Refused { status, why: why.into() });
        }
        assert_eq!(read(403, WRONG_TOKEN), Failure::NotDiana(403));
    }

    /// Many upstreams answer in JSON, too.
    #[test]
    fn the_json_of_an_upstream_is_no_refusal() {
        for (status, body) in [
            (404, r#"{"error":"Not Found","path":"/.diana/policy"}"#),
            (400, r#"{"error":"bad request","code":7}"#),
            (401, r#"{"error":"unauthorized"}"#),
            (403, r#"{"error":"forbidden"}"#),
        ] {
            let read = read::<Count>(status, body.as_bytes(), "grant");
            assert_eq!(read, Err(Failure::NotDiana(status)), "{body}");
        }
        let policy = read::<Count>(404, br#"{"error":"not found"}"#, "policy");
        assert_eq!(policy, Err(Failure::NotDiana(404)));
    }

    #[test]
    fn only_some_failures_are_certain_to_have_changed_nothing() {
        let reset = Question::Reset(Target::default());
        let refused = |status| Failure::Refused { status, why: "no".into() };
        let missing = Failure::Missing { question: "grant", why: "no".into() };
        for certain in [
            Failure::Unreachable("no".into()),
            missing,
            refused(400),
            refused(499),
            Failure::NotDiana(404),
            Failure::NotAsked(200),
        ] {
            assert!(certain.is_certain(), "{certain:?}");
            assert_eq!(reset.failure_text(&certain), certain.to_string());
        }
        for unknown in [
            Failure::Late(Duration::from_secs(5)),
            Failure::Broken("no".into()),
            Failure::TooLarge,
            Failure::Unknown("no".into()),
            refused(500),
            refused(503),
            // A proxy in front of the gateway.
            Failure::NotDiana(502),
            Failure::NotDiana(200),
        ] {
            assert!(!unknown.is_certain(), "{unknown:?}");
            let (question, text) = (Question::Actor(Target::default()), unknown.to_string());
            assert_eq!(question.failure_text(&unknown), text);
            assert_eq!(
                reset.failure_text(&unknown),
                text + ". The change may have taken effect; repeating is safe"
            );
        }
    }

    #[test]
    fn long_words_of_a_gateway_are_cut() {
        let body = serde_json::json!({"error": "ü".repeat(1_000_000)}).to_string();
        let Err(Failure::Refused { why, .. }) = read::<Count>(400, body.as_bytes(), "grant") else {
            panic!("a refusal");
        };
        assert_eq!(why, "ü".repeat(500) + "…");
        let body = serde_json::json!({"rule": "a", "quota": "x".repeat(1_000_000)}).to_string();
        let failure = read::<Count>(200, body.as_bytes(), "grant").unwrap_err().to_string();
        assert!(failure.chars().count() < 600, "{}", failure.len());
    }

    #[test]
    fn a_token_is_never_shown() {
        let fleet = Fleet::new(Vec::new(), " secret\n", Duration::from_secs(1)).unwrap();
        assert!(!format!("{fleet:?}").contains("secret"));
        for wrong in ["", "two words", "söcret", "a\nb"] {
            let why = Fleet::new(Vec::new(), wrong, Duration::from_secs(1)).unwrap_err();
            assert_eq!(why, Unusable::Token);
        }
    }

    #[test]
    fn addresses_are_of_gateways() {
        for wrong in ["", "localhost", "ftp://a", "http://", "/.diana", "http://u:p@a", "http://a/x?y"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
        let other: Address = "https://gw.example/limits".parse().unwrap();
        assert_eq!((other.name(), other.is_https()), ("https://gw.example/limits", true));
        let plain: Address = "http://gw.example/limits".parse().unwrap();
        assert_eq!((plain.name(), plain.is_https()), ("gw.example/limits", false));
    }
}
