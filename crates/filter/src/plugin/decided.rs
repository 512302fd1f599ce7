//! A decided request: the engine's outcome, and what the client gets.

use crate::Host;
use diana_base::time::Time;
use diana_limiter::decide::Outcome;
use diana_limiter::session::Session;
use diana_response::{QuotaHeaders, RefusalForm};

/// A request about which a plugin has decided.
pub(crate) struct Decided<H: Host> {
    pub(crate) session: Session,
    pub(crate) response: Response<H>,
    /// The form of a refusal that the client expects; set only if the request waits for global
    /// stores.
    pub(crate) form: RefusalForm,
}

/// The outcome of a decision, and what the client sees of the decision.
pub(crate) struct Response<H: Host> {
    pub(crate) outcome: Outcome,
    /// Headers for the upstream's response; none if the request is refused.
    pub(crate) headers: Option<QuotaHeaders>,
    /// The response in place of the upstream's, if the request is refused.
    pub(crate) rejection: Option<Box<Rejection<H>>>,
}

/// The response to a request that is refused.
pub(crate) struct Rejection<H: Host> {
    pub(crate) reply: H::LocalReply,
    /// When the client gets the reply; `None`: at once.
    pub(crate) send_at: Option<Time>,
}

impl<H: Host> Response<H> {
    /// Whether the host holds the stream.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.outcome, Outcome::Delay(_) | Outcome::Query(_))
            || self.rejection.as_ref().is_some_and(|rejection| rejection.send_at.is_some())
    }
}
