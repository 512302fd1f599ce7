//! Envoy's admin interface: readiness, addresses, statistics.

use crate::http::{Connection, Response};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::net::SocketAddr;

/// The admin interface of one Envoy.
#[derive(Clone, Copy, Debug)]
pub struct Admin {
    /// Its address.
    pub address: SocketAddr,
}

impl Admin {
    /// `GET`s a path such as `/stats?filter=diana`.
    pub fn get(&self, path: &str) -> Result<Response> {
        self.request("GET", path)
    }

    /// `POST`s to a path such as `/runtime_modify?key=value`.
    pub fn post(&self, path: &str) -> Result<Response> {
        self.request("POST", path)
    }

    fn request(&self, method: &str, path: &str) -> Result<Response> {
        let mut connection = Connection::open(self.address)?;
        connection
            .request(method, path, &[], b"")
            .with_context(|| format!("Envoy's admin does not answer {path}"))
    }

    /// Whether the process has started completely.
    pub fn ready(&self) -> bool {
        self.get("/ready").is_ok_and(|response| response.status == 200)
    }

    /// The address a listener is bound to, if there is one of this name.
    pub fn listener(&self, name: &str) -> Result<Option<SocketAddr>> {
        let answer: Value = serde_json::from_slice(&self.get("/listeners?format=json")?.body)?;
        let empty = Vec::new();
        let all = answer["listener_statuses"].as_array().unwrap_or(&empty);
        let Some(found) = all.iter().find(|status| status["name"] == name) else { return Ok(None) };
        let socket = &found["local_address"]["socket_address"];
        let (Some(ip), Some(port)) = (socket["address"].as_str(), socket["port_value"].as_u64()) else {
            bail!("listener `{name}` has no address of its own: {found}");
        };
        Ok(Some(SocketAddr::new(ip.parse()?, u16::try_from(port)?)))
    }

    /// The value of a statistic by Envoy's own name, 0 if it does not exist (yet).
    pub fn counter(&self, name: &str) -> Result<u64> {
        let text = self.get(&format!("/stats?filter=^{}$", name.replace('.', "\\.")))?.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map_or(Ok(0), |value| value.trim().parse().with_context(|| format!("`{name}` is {value}")))
    }

    /// All statistics in Prometheus' format.
    pub fn stats(&self) -> Result<Stats> {
        Ok(Stats::parse(&self.get("/stats/prometheus")?.text()))
    }
}

/// One line of the Prometheus text format.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric's name: `diana_requests`.
    pub name: String,
    /// Its labels, in the order of the text.
    pub labels: Vec<(String, String)>,
    /// Its value.
    pub value: f64,
}

/// All statistics at one moment.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// In the order of the text.
    pub samples: Vec<Sample>,
}

impl Stats {
    /// Reads the Prometheus text format; unknown lines are left out.
    pub fn parse(text: &str) -> Self {
        Self { samples: text.lines().filter_map(sample).collect() }
    }

    /// The samples of this name that have at least these labels.
    pub fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> + 'a {
        let has = |sample: &Sample, (key, value): &(&str, &str)| {
            sample.labels.iter().any(|(k, v)| k == key && v == value)
        };
        self.samples
            .iter()
            .filter(move |sample| sample.name == name && labels.iter().all(|label| has(sample, label)))
    }

    /// The value of the first sample of this name with at least these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.matching(name, labels).next().map(|sample| sample.value)
    }

    /// The sum over all samples of this name with at least these labels; 0 if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.matching(name, labels).map(|sample| sample.value as u64).sum()
    }
}

/// `name{key="value",…} 12`; escapes in values stay as they are.
fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, inside) = match series.split_once('{') {
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
        None => (series, ""),
    };
    // Envoy shows its own prefix for metrics of a native module, but not for those of a filter.
    let name = name.strip_prefix("envoy_").filter(|name| name.starts_with("diana_")).unwrap_or(name);
    let mut labels = Vec::new();
    let mut rest = inside;
    while let Some((key, after)) = rest.split_once("=\"") {
        let (text, after) = after.split_once('"')?;
        labels.push((key.trim_start_matches(',').to_owned(), text.to_owned()));
        rest = after;
    }
    Some(Sample { name: name.to_owned(), labels, value: value.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text_becomes_samples() {
        let stats = Stats::parse(
            "# TYPE diana_requests counter\n\
             diana_requests{rule=\"a\",result=\"allowed\"} 3\n\
             diana_requests{rule=\"b\",result=\"allowed\"} 4\n\
             \n\
             up{} 1\nplain 2.5\n",
        );
        assert_eq!(stats.samples.len(), 4);
        assert_eq!(stats.value("diana_requests", &[("rule", "b")]), Some(4.0));
        assert_eq!(stats.sum("diana_requests", &[("result", "allowed")]), 7);
        assert_eq!(stats.value("plain", &[]), Some(2.5));
        assert_eq!(stats.value("diana_requests", &[("rule", "c")]), None);
    }
}
