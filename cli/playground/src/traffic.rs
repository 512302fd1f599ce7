//! Requests of some clients at a constant rate, after a burst.

use diana_workbench::explain::Decided;
use diana_workbench::explain::document::Document;
use diana_workbench::explain::gateways::Gateways;
use diana_workbench::explain::request::{Description, Incoming, Wrong, instant_after, seconds};
use diana_workbench::source;
use diana_workbench::test::Kind;
use miette::{Result, bail, miette};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// The settings of the page's sliders.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// The document.
    pub document: String,
    method: String,
    url: String,
    /// The header that distinguishes clients; without one, each has its own address.
    header: Option<String>,
    clients: u32,
    /// Requests of each client a second.
    rate: f64,
    seconds: f64,
    /// The requests of each client at the beginning.
    burst: u32,
}

/// A request and the decision about it.
#[derive(Debug, Serialize)]
pub struct Request {
    at: f64,
    client: String,
    outcome: &'static str,
    by: Vec<String>,
    delay: f64,
}

/// The first address of the clients.
const FIRST: u32 = 0xcb00_7101; // 203.0.113.1

/// The decisions about all requests, in their order.
pub fn decided(document: &[u8], traffic: &Traffic) -> Result<Vec<Request>> {
    let Traffic { method, url, header, clients, rate, seconds: length, burst, .. } = traffic;
    let is_number = |number: f64| number.is_finite() && number >= 0.0;
    if *clients == 0 || !is_number(*rate) || !is_number(*length) {
        bail!("expected at least one client, and a rate and seconds that are not negative");
    }
    // Beyond the most requests, a `u32` saturates.
    let later = (rate * length) as u32;
    let each = burst.saturating_add(later);
    let count = u64::from(each).saturating_mul((*clients).into());
    if count > super::MOST_REQUESTS as u64 {
        bail!("these are {count} requests, expected at most {}", super::MOST_REQUESTS);
    }
    let value = source::parsed(document)?;
    let mut gateways = Gateways::new(&Document::of(&value), 1)?;
    let clients = (0..*clients).map(|number| client(method, url, header.as_deref(), number));
    let clients: Vec<(String, Rc<Incoming>)> = clients.collect::<Result<_>>()?;
    let mut requests = Vec::new();
    for number in 0..each {
        let at = if number < *burst {
            0.0
        } else {
            f64::from(number.saturating_sub(*burst).saturating_add(1)) / rate
        };
        for (name, incoming) in &clients {
            let now = instant_after(at);
            let Some((by, decision)) = gateways.decide(incoming, 0, false, now) else { continue };
            let decided = Decided::of(&by.configuration, decision, incoming, now);
            let names = decision.refused_by(by.policy());
            requests.push(Request {
                at,
                client: name.clone(),
                outcome: Kind::of(decision.outcome).word(),
                by: names.iter().flat_map(|names| names.split(',')).map(str::to_owned).collect(),
                delay: seconds(decided.delay),
            });
        }
    }
    Ok(requests)
}

/// A client, by its name.
fn client(method: &str, url: &str, header: Option<&str>, number: u32) -> Result<(String, Rc<Incoming>)> {
    let address = std::net::Ipv4Addr::from(FIRST.saturating_add(number)).to_string();
    let name = format!("client-{}", number.saturating_add(1));
    let headers = header.map(|header| (header.to_owned(), name.clone()));
    let (ip, shown) = match header {
        Some(_) => ("203.0.113.1", name),
        None => (address.as_str(), address.clone()),
    };
    let headers = headers.into_iter().collect();
    let description = Description { method, url, ip, headers, ..Description::default() };
    let incoming = description.read().map_err(|Wrong { field, why }| miette!("{field}: {why}"))?;
    Ok((shown, Rc::new(incoming)))
}
