//! The actor is the client's address or network: `{ip: {v4_prefix: 24}}`, or `ip` for short.
//!
//! [`ClientIp`] finds the address.

use super::address::Network;
use super::client_ip::Prefixes;
use super::{Actor, FastPathPart};
use crate::request::{Parts, Request};
use diana_base::format::quoted;
use std::net::IpAddr;

pub use super::client_ip::{ClientIp, ClientIpOptions};

/// Counts by client address, or by network.
#[derive(Debug)]
pub struct Ip(ClientIp);

impl Ip {
    /// The client that the options of a policy find.
    #[must_use]
    pub fn new(options: ClientIp) -> Ip {
        Ip(options)
    }
}

impl Actor for Ip {
    /// How the policy finds the address is left out, so gateways behind different proxies count one
    /// client together.
    fn canonical_form(&self, _: &Parts) -> String {
        let Prefixes { v4, v6 } = self.0.prefixes;
        format!("ip {v4} {v6}")
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        let client = self.0.client(request);
        client.inspect(|address| self.0.prefixes.write(*address, key)).is_some()
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(self.0.raw(request))
    }

    fn is_address(&self) -> bool {
        true
    }

    fn address(&self, request: &Request) -> Option<IpAddr> {
        self.0.client(request)
    }

    /// An address stands for the network that counts it. A network must have the prefix by which
    /// the actor counts.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        let (network, is_exact) = Network::read(value)?;
        let counted = self.0.prefixes.of(network.first());
        if !network.is_single() && network.prefix() != counted {
            return Err(format!("{} is not a /{counted}, by which this actor counts", quoted(value)));
        }
        if !is_exact {
            return Err(network.meant_by(value));
        }
        let mut key = Vec::new();
        self.0.prefixes.write(network.first(), &mut key);
        Ok(key)
    }
}
