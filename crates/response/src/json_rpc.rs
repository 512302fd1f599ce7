//! Refusals as JSON-RPC 2.0 errors, which answer the request, so that the client's library sees a
//! rate limit rather than a broken server.

use super::json::json_string;
use super::protocol;
use diana_base::format::number;
use diana_limiter::decide::Reason;
use diana_limiter::request::protocol::Protocol;

/// The longest text of an `id` that is sent back, in bytes.
const MAX_ID_BYTES: usize = 64;

/// The code if a quota refuses; tRPC and several MCP servers use it, too.
const RATE_LIMITED: &str = "-32029";

/// The code of any other refusal: the first that JSON-RPC reserves for servers.
const SERVER_ERROR: &str = "-32000";

/// The content type of an error.
pub(super) const CONTENT_TYPE: &str = "application/json";

/// A JSON-RPC 2.0 request object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The `id` of the response as JSON; `None` for a notification, which gets no response.
    id: Option<String>,
}

/// The `id` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallId<'a> {
    /// Text.
    Text(&'a [u8]),
    /// A number, `true` or `false` in JSON.
    Literal(&'a [u8]),
    /// Anything else; the client's bytes are not known.
    Other,
}

impl Call {
    /// The places of a request's version, method and `id`.
    pub const POINTERS: [&str; 3] = ["/jsonrpc", "/method", "/id"];

    /// The version.
    pub const VERSION: &[u8] = b"2.0";

    /// A request with this `id`; a notification without one. Text of more than 64 bytes, and what
    /// is neither text nor a whole number, is `null` in the response.
    #[must_use]
    pub fn new(id: Option<CallId>) -> Call {
        let json = |id| {
            let mut json = String::new();
            match id {
                CallId::Text(text) if text.len() <= MAX_ID_BYTES => {
                    if let Ok(text) = str::from_utf8(text) {
                        json_string(&mut json, text);
                    }
                }
                CallId::Literal(digits) if digits.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) => {
                    json.push_str(str::from_utf8(digits).unwrap_or_default());
                }
                _ => {}
            }
            if json.is_empty() { "null".into() } else { json }
        };
        Call { id: id.map(json) }
    }

    /// Whether the client gets no response.
    pub(super) fn is_notification(&self) -> bool {
        self.id.is_none()
    }

    /// The response to the request; empty for a notification. `problem`: the problem details, an
    /// object. `retry_after`: the wait in seconds, if waiting helps.
    pub(super) fn error(
        &self,
        reason: Reason,
        problem: &[u8],
        title: &str,
        retry_after: Option<u64>,
    ) -> String {
        let mut json = String::new();
        let Some(id) = &self.id else {
            return json;
        };
        let code = if matches!(reason, Reason::Rule(_)) { RATE_LIMITED } else { SERVER_ERROR };
        for part in [r#"{"jsonrpc":"2.0","error":{"code":"#, code, r#","message":"#] {
            json.push_str(part);
        }
        json_string(&mut json, if title.is_empty() { "Refused" } else { title });
        let problem = str::from_utf8(problem).unwrap_or_default().trim_end();
        json.push_str(r#","data":"#);
        json.push_str(problem.strip_suffix('}').unwrap_or("{"));
        if let Some(secs) = retry_after {
            json.push_str(r#","retry_after":"#);
            number(&mut json, secs);
        }
        for part in [r#"}},"id":"#, id, "}"] {
            json.push_str(part);
        }
        json
    }
}

/// The form in which a client expects a refusal, and the ticket that it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalForm {
    /// The client's protocol.
    pub protocol: Protocol,
    /// The request, if it is JSON-RPC over HTTP and `json_rpc` is set.
    pub call: Option<Call>,
    /// The ticket, if there is a key.
    pub ticket: Option<String>,
}

impl From<Protocol> for RefusalForm {
    fn from(protocol: Protocol) -> RefusalForm {
        RefusalForm { protocol, ..RefusalForm::default() }
    }
}

impl RefusalForm {
    /// The request, if it gets a JSON-RPC error.
    pub(super) fn call(&self) -> Option<&Call> {
        self.call.as_ref().filter(|_| self.protocol == Protocol::Http)
    }

    /// The HTTP status of a refusal. `of_calls`: the status of JSON-RPC errors, if another one is
    /// configured.
    pub(super) fn status(&self, configured: u32, of_calls: Option<u32>) -> u32 {
        let of_call = self.call().filter(|call| !call.is_notification()).and(of_calls);
        of_call.unwrap_or_else(|| protocol::status(self.protocol, configured))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::{decision, policy, refuse};
    use super::super::{Refusal, ResponseOptions};
    use super::*;
    use diana_document::{Errors, Node};
    use diana_limiter::decide::{Decision, Outcome};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn options(response: &str) -> ResponseOptions {
        let (value, errors) = (diana_document::parse(response.as_bytes()).unwrap(), Errors::default());
        let options = ResponseOptions::compile(Some(Node::root(&value, &errors)), None);
        assert!(errors.is_empty(), "{response}");
        options
    }

    /// The status, the content type and the body.
    fn shown(refusal: &Refusal) -> (u32, Option<String>, String) {
        let content_type = refusal.headers.iter().find(|(name, _)| *name == "content-type");
        let body = str::from_utf8(&refusal.body).unwrap().into();
        (refusal.status, content_type.map(|(_, value)| value.clone().into_owned()), body)
    }

    fn refused(response: &str, form: RefusalForm) -> (u32, Option<String>, String) {
        let policy = policy(["a", "b"]);
        let decision = decision(&policy, &[(10, 1000, refuse(1001)), (10, 1000, refuse(10))]);
        shown(&options(response).refusal(&policy, &decision, form, 0).unwrap())
    }

    fn of(id: Option<CallId>) -> RefusalForm {
        RefusalForm { call: Some(Call::new(id)), ..RefusalForm::default() }
    }

    /// The `id` in the response to a request with this one.
    fn echoed(id: CallId) -> Value {
        let (_, _, body) = refused(r#"{"json_rpc": true, "jitter": 0}"#, of(Some(id)));
        serde_json::from_str::<Value>(&body).unwrap()["id"].clone()
    }

    #[test]
    fn an_error_has_the_problem_and_the_wait() {
        let (status, content_type, body) =
            refused(r#"{"json_rpc": true, "jitter": 0}"#, of(Some(CallId::Literal(b"7"))));
        assert_eq!((status, content_type.as_deref()), (429, Some("application/json")));
        let expected = json!({"jsonrpc": "2.0", "id": 7, "error": {
            "code": -32029,
            "message": "Quota Exceeded",
            "data": {
                "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "title": "Quota Exceeded",
                "status": 429,
                "violated-policies": ["a", "b"],
                "retry_after": 2,
            },
        }});
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
    }

    #[test]
    fn another_status_is_for_responses_alone() {
        let response = r#"{"json_rpc": {"status": 200}, "status": 503, "body": "no"}"#;
        let (status, _, body) = refused(response, of(Some(CallId::Text(b"a"))));
        assert_eq!((status, body.contains(r#""status":503"#)), (200, true));
        assert_eq!(refused(response, of(None)), (503, None, String::new()), "a notification");
        let plain = (503, Some("text/plain; charset=utf-8".into()), "no".into());
        assert_eq!(refused(response, RefusalForm::default()), plain);
        // Connect's unary requests are JSON, too.
        let connect = RefusalForm { protocol: Protocol::ConnectUnary, ..of(Some(CallId::Other)) };
        assert_eq!(refused(response, connect), refused(response, Protocol::ConnectUnary.into()));
    }

    #[test]
    fn other_reasons_have_another_code() {
        let policy = policy(["a"]);
        let (rule, _) = policy.rules().next().unwrap();
        for reason in [Reason::NoActor(rule), Reason::Unavailable(rule), Reason::Denied] {
            let decision = Decision { outcome: Outcome::Reject(reason), ..Decision::default() };
            let options = options(r#"{"json_rpc": true, "status": 418, "jitter": 0}"#);
            let refusal = options.refusal(&policy, &decision, of(Some(CallId::Other)), 0).unwrap();
            let error = serde_json::from_slice::<Value>(&refusal.body).unwrap();
            assert_eq!(error["error"]["code"], -32000, "{reason:?}");
            assert_ne!(error["error"]["message"], "", "{reason:?}");
            let waits = matches!(reason, Reason::Unavailable(_));
            assert_eq!(error["error"]["data"].get("retry_after").is_some(), waits, "{reason:?}");
        }
    }

    #[test]
    fn a_short_text_or_a_whole_number_is_sent_back() {
        for text in
            ["", "a", "\"},\"x\":{", "\\", "\n\r\u{1}\u{7f}", "é\u{2028}😀", "</script>", &"x".repeat(64)]
        {
            assert_eq!(echoed(CallId::Text(text.as_bytes())), text);
        }
        for number in ["0", "-1", "9007199254740992", "-9007199254740992"] {
            assert_eq!(echoed(CallId::Literal(number.as_bytes())).to_string(), number);
        }
        let long = "x".repeat(65);
        for other in [CallId::Other, CallId::Text(long.as_bytes()), CallId::Text(b"\xff")] {
            assert_eq!(echoed(other), Value::Null, "{other:?}");
        }
        for other in ["true", "false", "", "1.5", "1,2"] {
            assert_eq!(echoed(CallId::Literal(other.as_bytes())), Value::Null, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_out(text in ".{0,24}|[\\x00-\\x1f\"\\\\{}]{0,64}") {
            let expected = if text.len() <= 64 { json!(text) } else { Value::Null };
            prop_assert_eq!(echoed(CallId::Text(text.as_bytes())), expected);
        }
    }
}
