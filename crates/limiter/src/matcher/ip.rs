//! `ip`: the networks of clients to which a limit applies: `[10.0.0.0/8, 192.168.7.0/24]`, or
//! `{not: …}`: all others. If the client's address is unknown, the condition holds and is not
//! certain.

use super::{ConditionError, Matcher};
use crate::actor::address::{Network, Networks};
use crate::actor::ip::ClientIp;
use crate::request::{Parts, Request};

/// The condition `ip`.
#[derive(Debug)]
pub struct ClientNetworks {
    client: ClientIp,
    /// Merged.
    listed: Networks,
    /// Whether the limit applies to all other addresses.
    is_negated: bool,
}

impl ClientNetworks {
    /// The condition that one of these networks contains the client's whole address, which `client`
    /// finds.
    pub fn new(networks: Vec<Network>, client: ClientIp) -> Result<ClientNetworks, ConditionError> {
        let listed = Networks::new(networks).merged();
        match listed.iter().filter(|network| network.prefix() == 0).count() {
            _ if listed.is_empty() => Err(ConditionError::Nothing),
            // All addresses of both families.
            2 => Err(ConditionError::Anything),
            _ => Ok(ClientNetworks { client, listed, is_negated: false }),
        }
    }

    /// The condition that none of these networks contains the client's address.
    #[must_use]
    pub fn negated(self) -> ClientNetworks {
        ClientNetworks { is_negated: true, ..self }
    }

    /// Whether the condition holds; `None` if the address is unknown.
    fn verdict(&self, request: &Request) -> Option<bool> {
        let is_listed = self.listed.place(self.client.client(request)?).is_some();
        Some(is_listed != self.is_negated)
    }
}

impl Matcher for ClientNetworks {
    /// How the policy finds the address is left out, as it is for the actor `ip`.
    fn canonical_form(&self, _: &Parts) -> String {
        let mut canonical_form = String::from(if self.is_negated { "ip not" } else { "ip" });
        for network in self.listed.iter() {
            canonical_form.extend([" ", &network.to_string()]);
        }
        canonical_form
    }

    fn matches(&self, request: &Request) -> bool {
        self.verdict(request) != Some(false)
    }

    fn is_certain(&self, request: &Request) -> bool {
        self.verdict(request) == Some(true)
    }
}
