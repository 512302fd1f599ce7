//! The answers of `inspect`. Gateways of other versions answer, too: unknown fields are ignored,
//! and fields that a version may lack are optional. The required fields distinguish an answer of
//! Diana from JSON of an upstream.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a gateway enforces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The version of the filter.
    #[serde(default)]
    pub version: String,
    /// A hash of the document.
    pub fingerprint: String,
    /// The number of the remote document; 0 for the local document.
    #[serde(default)]
    pub generation: u64,
    /// A hash of the store's secret. Gateways with different secrets count apart. See
    /// [`Policy::secret`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_secret: Option<String>,
    /// The rules, in the document's order.
    pub rules: Vec<Rule>,
}

/// Shown for a secret whose hash a gateway does not report.
pub const UNKNOWN: &str = "unknown";

impl Policy {
    /// The hash of the store's secret; [`UNKNOWN`] if the gateway counts rules in a store but tells
    /// no hash, because its host has not delivered the secret; `–` if there is no store.
    #[must_use]
    pub fn secret(&self) -> &str {
        let is_global = || self.rules.iter().any(|rule| rule.scope == "global");
        match &self.store_secret {
            Some(secret) => secret,
            None if is_global() => UNKNOWN,
            None => "–",
        }
    }
}

/// A rule of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The name.
    pub name: String,
    /// `local` or `global`.
    #[serde(default)]
    pub scope: String,
    /// The names of the actors that the rule counts together.
    #[serde(default)]
    pub actors: Vec<String>,
    /// Requests per unit.
    #[serde(default)]
    pub rpu: u64,
    /// The unit in ms.
    #[serde(default)]
    pub unit_ms: u64,
    /// The algorithm with its own numbers.
    #[serde(default)]
    pub algorithm: String,
    /// The part of the actors for which the rule refuses.
    #[serde(default)]
    pub enforce: String,
}

/// What a rule has counted for an actor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The rule's name.
    pub rule: String,
    /// The quota.
    pub quota: u64,
    /// The unit of the quota in ms.
    #[serde(default)]
    pub quota_ms: u64,
    /// Units of the quota that are used.
    pub used: u64,
    /// Units that the rule would admit now.
    pub remaining: u64,
    /// The time in ms until `remaining` grows.
    #[serde(default)]
    pub more_in_ms: u64,
    /// The time in ms until the actor is like a new one.
    #[serde(default)]
    pub full_in_ms: u64,
    /// The rest of a penalty in ms; 0 without one.
    #[serde(default)]
    pub penalty_ms: u64,
    /// Whether the next request of one unit would be refused.
    #[serde(default)]
    pub is_refused: bool,
    /// Units left of a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<u64>,
    /// The time in ms until the grant ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_for_ms: Option<u64>,
    /// Units that the answering worker holds reserved, or for a global rule its gateway leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
    /// The actor as a list of the most refused actors shows it, if that hides a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<BTreeMap<String, String>>,
}

/// What a gateway has decided in the last seconds: each list has a number a second, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The end of the last second, in ms since 1970.
    pub at_ms: u64,
    /// The rules. Those without traffic have empty lists.
    pub rules: Vec<RuleRates>,
    /// Requests that wait now.
    #[serde(default)]
    pub waiting: u64,
    /// The stores of global rules.
    #[serde(default)]
    pub stores: Vec<StoreRates>,
    /// Rules whose lists are left out of this answer.
    #[serde(default)]
    pub left_off: u64,
}

/// The outcomes of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleRates {
    /// The rule's name.
    pub rule: String,
    /// Admitted.
    pub ok: Vec<f64>,
    /// Refused.
    pub refused: Vec<f64>,
    /// Admitted in shadow mode only.
    pub shadow: Vec<f64>,
    /// Not decided, because of a fault.
    pub error: Vec<f64>,
}

/// The calls to a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreRates {
    /// The store's name.
    pub store: String,
    /// The state of its circuit breaker, such as `closed`.
    #[serde(deserialize_with = "word")]
    pub breaker: String,
    /// Calls.
    pub calls: Vec<f64>,
    /// Calls that failed.
    pub failed: Vec<f64>,
}

/// The actors of a rule that were refused or used most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// The rule's name.
    pub rule: String,
    /// `refused` or `used`.
    #[serde(default)]
    pub by: String,
    /// The beginning of the count, in ms since 1970.
    #[serde(default)]
    pub since_ms: u64,
    /// The actors, highest count first.
    pub actors: Vec<TopActor>,
    /// An actor that is not listed has at most this count.
    #[serde(default)]
    pub error_bound: u64,
}

/// An actor of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopActor {
    /// The values by the names of the rule's actors.
    pub actor: BTreeMap<String, String>,
    /// The name of the customer, if a value is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The count.
    pub count: u64,
    /// By how much the count may be too high.
    #[serde(default)]
    pub error: u64,
}

/// A word, also if a version writes a number or leaves it null.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_other_versions_are_read() {
        let older = r#"{"rule":"a","quota":5,"used":1,"remaining":4}"#;
        let count: Count = serde_json::from_str(older).unwrap();
        assert_eq!((count.used, count.granted), (1, None));
        let newer = r#"{"at_ms":1,"new":{},"rules":[{"rule":"a","ok":[1.0,2],"new":1}],"stores":[{"store":"s","breaker":2}]}"#;
        let rates: Rates = serde_json::from_str(newer).unwrap();
        assert_eq!((&rates.rules[0].ok, &*rates.stores[0].breaker), (&vec![1.0, 2.0], "2"));
    }

    #[test]
    fn json_of_an_upstream_is_no_answer() {
        for text in ["{}", "[]", "null", r#"{"status":"ok","rules":[]}"#] {
            assert!(serde_json::from_str::<Policy>(text).is_err(), "{text}");
        }
    }
}
