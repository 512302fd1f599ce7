//! What a request costs, in units of its rule's quota.

use super::estimate::{Estimated, RequestEstimate, learn};
use super::sum::{Factors, ONE, Sum, Total, scaled, units};
use super::usage::{Measure, Measures, Statuses, Usage, digits};
use crate::algorithm::Allowance;
use crate::request::{Part, PartId, Parts, Request};
use diana_base::format::decimal;
use diana_base::map::KeySet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What a request costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Where the cost comes from.
    pub(crate) source: CostSource,
    /// Set if the request is charged only if the response has such a status. Nothing is charged on
    /// arrival.
    pub charge: Option<Statuses>,
    /// Set if the charge is refunded if the response has such a status.
    pub refund: Option<Statuses>,
    /// Whether a request is charged what is left if that is less than its estimate, but at least a
    /// quarter of it, or the default. Otherwise it is refused.
    pub takes_rest: bool,
}

/// What a unit of a quota is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedUnit {
    /// A request, possibly of a fixed weight.
    Requests,
    /// A byte of the request's or of the response's body.
    Bytes,
    /// One of a number in the request or in the response, such as a token of a language model.
    Numbers,
}

/// A cost that is settled when the request ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingCost {
    cost: Arc<Cost>,
    units: PendingUnits,
}

/// What is known on arrival of a cost that is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingUnits {
    /// The cost is known. The status decides whether it is charged.
    Known(u64),
    /// The host measures the cost. These units are charged on arrival.
    Measured(u64),
    /// The same, and the request's own factor, in thousandths, multiplies the cost.
    Priced {
        /// The units that are charged on arrival, multiplied already.
        units: u64,
        /// At most [`Sum::MAX_WEIGHT`].
        factor: u32,
    },
    /// The same, but the charge on arrival depends on the request.
    Estimated {
        /// The units that are charged on arrival, multiplied already. The learned part is applied
        /// once the actor's cell is loaded.
        units: u64,
        factor: u32,
        estimated: Estimated,
    },
}

impl PendingUnits {
    fn on_arrival(self) -> u64 {
        match self {
            PendingUnits::Known(units)
            | PendingUnits::Measured(units)
            | PendingUnits::Priced { units, .. }
            | PendingUnits::Estimated { units, .. } => units,
        }
    }

    /// The request's factor in thousandths; `None`: none.
    fn factor(self) -> Option<u32> {
        match self {
            PendingUnits::Priced { factor, .. } | PendingUnits::Estimated { factor, .. } => Some(factor),
            PendingUnits::Known(_) | PendingUnits::Measured(_) => None,
        }
    }
}

/// What a request costs at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FinalCost {
    /// In units. `None`: the charge on arrival stays.
    pub(crate) units: Option<u64>,
    /// What it costs beyond its input, before its factor, in thousandths of a unit. `None`:
    /// estimates learn nothing from it.
    pub(crate) output: Option<u64>,
}

/// Where the cost of a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CostSource {
    /// Every request costs the same.
    Fixed(u64),
    /// A number in a request header, or in the request's body.
    Header {
        /// The header, or the part of the body.
        part: PartId,
        /// The cost without a number: the header is absent or unreadable, or its lines differ. A
        /// body without the number; one whose number cannot be read costs the most.
        default: u64,
        /// The least and the largest cost. A number outside counts as the nearest of the two.
        range: RangeInclusive<u64>,
    },
    /// The length of the request's body in bytes.
    RequestBytes {
        /// The declared length, which is charged on arrival.
        length: PartId,
        /// The largest cost.
        max: u64,
    },
    /// The length of the response's body in bytes.
    ResponseBytes(Estimate),
    /// A number that the response has, or a sum of several.
    Response {
        /// The number.
        sum: Sum,
        /// The factors of requests, which multiply the sum, the default and the estimate.
        factors: Option<Arc<Factors>>,
        /// The cost of a response without the number; `None`: the estimate.
        default: Option<u64>,
        /// The charge on arrival, and the largest cost.
        estimate: Estimate,
        /// The charge on arrival, if it depends on the request.
        by_request: Option<Arc<RequestEstimate>>,
    },
}

/// What a request is charged on arrival if its cost is known later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Units that are charged on arrival: 0 to `max`.
    pub units: u64,
    /// The largest cost in units, up to [`Allowance::MAX_IN_WINDOW`].
    pub max: u64,
}

impl Estimate {
    fn checked(self) -> Result<Estimate, CostError> {
        let is_valid = UNITS.contains(&self.max) && self.units <= self.max;
        if is_valid { Ok(self) } else { Err(CostError::Estimate) }
    }
}

/// The units that a request may cost.
const UNITS: RangeInclusive<u64> = 1..=Allowance::MAX_IN_WINDOW;

/// The part of its definition that a cost cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostError {
    /// The units are not from 1 to [`Allowance::MAX_IN_WINDOW`].
    Units,
    /// The name of a header is no token, or the name of another part of the request.
    Header,
    /// The JSON pointer does not begin with `/`, has a wrong escape, or is too long.
    Pointer,
    /// The range is empty, or ends at 0 or above [`Allowance::MAX_IN_WINDOW`].
    Range,
    /// The default is not between the least and the largest cost.
    Default,
    /// The estimate is larger than the largest cost, or that is not from 1 to
    /// [`Allowance::MAX_IN_WINDOW`].
    Estimate,
    /// A response whose number cannot be read would cost nothing.
    Free,
    /// There are no terms of a sum, or more than [`Sum::MAX_TERMS`], or two with the same numbers,
    /// or none has a positive weight; or a weight is out of range, or the cost has no sum.
    Sum,
    /// A factor is out of range.
    Factor,
    /// A status is not from 100 to 599, or no status is listed.
    Status,
}

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            CostError::Units => "not a number of units",
            CostError::Header => "not the name of a header",
            CostError::Pointer => "not a JSON pointer",
            CostError::Range => "not a range of units",
            CostError::Default => "not a default cost",
            CostError::Estimate => "not an estimate of a cost",
            CostError::Free => "a response without a number costs nothing",
            CostError::Sum => "not a sum",
            CostError::Factor => "not a factor",
            CostError::Status => "not a status",
        })
    }
}

impl std::error::Error for CostError {}

impl Default for Cost {
    /// One unit.
    fn default() -> Cost {
        CostSource::Fixed(1).into()
    }
}

impl From<CostSource> for Cost {
    fn from(source: CostSource) -> Cost {
        Cost { source, charge: None, refund: None, takes_rest: false }
    }
}

impl Cost {
    /// Every request costs the same: 1 to [`Allowance::MAX_IN_WINDOW`] units.
    pub fn units(units: u64) -> Result<Cost, CostError> {
        if UNITS.contains(&units) { Ok(CostSource::Fixed(units).into()) } else { Err(CostError::Units) }
    }

    /// A number in a request header, or `default` without a readable one. A number outside `range`
    /// counts as the nearest of its ends.
    pub fn header(
        name: &str,
        default: u64,
        range: RangeInclusive<u64>,
        parts: &mut Parts,
    ) -> Result<Cost, CostError> {
        let part = Part::header(name).ok_or(CostError::Header)?;
        Cost::number(part, default, range, parts)
    }

    /// A number at a JSON pointer in the request's body, or `default` without one. What may be a
    /// number but cannot be read costs the end of `range`.
    pub fn request_json(
        pointer: &str,
        default: u64,
        range: RangeInclusive<u64>,
        parts: &mut Parts,
    ) -> Result<Cost, CostError> {
        let part = Part::request_json(pointer).ok_or(CostError::Pointer)?;
        Cost::number(part, default, range, parts)
    }

    fn number(
        part: Part,
        default: u64,
        range: RangeInclusive<u64>,
        parts: &mut Parts,
    ) -> Result<Cost, CostError> {
        if range.is_empty() || !UNITS.contains(range.end()) {
            return Err(CostError::Range);
        }
        if !range.contains(&default) {
            return Err(CostError::Default);
        }
        Ok(CostSource::Header { part: parts.intern(part), default, range }.into())
    }

    /// The length of the request's body in bytes, at most `max`. The declared length is charged on
    /// arrival.
    pub fn request_bytes(max: u64, parts: &mut Parts) -> Cost {
        CostSource::RequestBytes { length: parts.intern(Part::BodySize), max }.into()
    }

    /// The length of the response's body in bytes.
    pub fn response_bytes(estimate: Estimate) -> Result<Cost, CostError> {
        Ok(CostSource::ResponseBytes(estimate.checked()?).into())
    }

    /// A number that the response has, or a sum of several. A response without it costs `default`;
    /// `None`: the estimate. One of the two has to be at least 1, because clients can hide the
    /// number.
    pub fn response(
        sum: impl Into<Sum>,
        default: Option<u64>,
        estimate: Estimate,
    ) -> Result<Cost, CostError> {
        let Estimate { units, max } = estimate.checked()?;
        match default {
            Some(default) if default > max => Err(CostError::Default),
            Some(0) | None if units == 0 => Err(CostError::Free),
            _ => {
                let (sum, factors, by_request) = (sum.into(), None, None);
                Ok(CostSource::Response { sum, factors, default, estimate, by_request }.into())
            }
        }
    }

    /// The same cost, a number of the response, times the factor of the request. The largest cost
    /// stays.
    pub fn times(mut self, by: Factors) -> Result<Cost, CostError> {
        let CostSource::Response { factors, .. } = &mut self.source else {
            return Err(CostError::Sum);
        };
        *factors = Some(by.into()).filter(|by: &Arc<Factors>| !by.canonical_form().is_empty());
        Ok(self)
    }

    /// The same cost, with a charge on arrival that depends on the request. The cost must be a
    /// number of the response. Learning starts at the default.
    pub fn estimated(mut self, by: RequestEstimate) -> Result<Cost, CostError> {
        let CostSource::Response { by_request, default: Some(1..), .. } = &mut self.source else {
            return Err(CostError::Estimate);
        };
        *by_request = Some(by.into());
        Ok(self)
    }

    /// The cost of every request; `None` if the cost depends on the request.
    #[must_use]
    pub fn fixed(&self) -> Option<u64> {
        match self.source {
            CostSource::Fixed(units) => Some(units),
            _ => None,
        }
    }

    /// The least that a request is charged on arrival.
    #[must_use]
    pub fn least_on_arrival(&self) -> u64 {
        match &self.source {
            _ if self.charge.is_some() || self.takes_rest => 0,
            CostSource::Fixed(units) => *units,
            CostSource::Header { default, range, .. } => (*default).min(*range.start()),
            // A body may be empty.
            CostSource::RequestBytes { .. } => 0,
            CostSource::ResponseBytes(estimate) => estimate.units,
            CostSource::Response { by_request: Some(_), .. } => 0,
            CostSource::Response { factors, estimate: Estimate { units, max }, .. } => {
                let least = factors.as_ref().map_or(ONE, |factors| factors.least());
                scaled(*units, least).min(*max)
            }
        }
    }

    pub(crate) fn counted_unit(&self) -> CountedUnit {
        match self.source {
            CostSource::Fixed(_) => CountedUnit::Requests,
            CostSource::RequestBytes { .. } | CostSource::ResponseBytes(_) => CountedUnit::Bytes,
            CostSource::Header { .. } | CostSource::Response { .. } => CountedUnit::Numbers,
        }
    }

    /// Whether a request is settled at its end.
    #[must_use]
    pub fn settles(&self) -> bool {
        self.refund.is_some() || self.borrows()
    }

    /// Whether settling may charge more than was charged on arrival.
    #[must_use]
    pub fn borrows(&self) -> bool {
        let is_known = matches!(self.source, CostSource::Fixed(_) | CostSource::Header { .. });
        self.charge.is_some() || !is_known
    }

    /// The charge of `request` on arrival, and what remains to be settled.
    pub(crate) fn on_arrival(self: &Arc<Cost>, request: &Request) -> (u64, Option<PendingCost>) {
        let units = match &self.source {
            CostSource::Fixed(units) => PendingUnits::Known(*units),
            CostSource::Header { part, default, range } => {
                let without = || if request.may_hide_number(*part) { *range.end() } else { *default };
                let units = number(request, *part).map(|units| units.clamp(*range.start(), *range.end()));
                PendingUnits::Known(units.unwrap_or_else(without))
            }
            CostSource::RequestBytes { length, max } => {
                PendingUnits::Measured(number(request, *length).unwrap_or(0).min(*max))
            }
            CostSource::Response { factors, by_request: Some(by_request), default, estimate, .. } => {
                let factor = factors.as_ref().map_or(ONE, |factors| factors.of(request));
                let factor = u32::try_from(factor).unwrap_or(u32::MAX);
                let estimated = by_request.of(request);
                let units = estimated.units(first_learned(*default), factor).min(estimate.max);
                PendingUnits::Estimated { units, factor, estimated }
            }
            CostSource::Response { factors: Some(factors), estimate: Estimate { units, max }, .. } => {
                let factor = factors.of(request);
                let units = scaled(*units, factor).min(*max);
                PendingUnits::Priced { units, factor: u32::try_from(factor).unwrap_or(u32::MAX) }
            }
            CostSource::ResponseBytes(estimate) | CostSource::Response { estimate, .. } => {
                PendingUnits::Measured(estimate.units)
            }
        };
        let is_measured = !matches!(units, PendingUnits::Known(_));
        let is_settled = is_measured || self.charge.is_some() || self.refund.is_some();
        (self.estimate(units), is_settled.then(|| PendingCost { cost: Arc::clone(self), units }))
    }

    /// The charge on arrival in a quota that has room.
    fn estimate(&self, units: PendingUnits) -> u64 {
        if self.charge.is_none() { units.on_arrival() } else { 0 }
    }

    /// The cost of a request that has ended. `None`: it has none.
    fn final_cost(
        &self,
        pending: PendingUnits,
        usage: &Usage,
        measures: &Measures,
        unread: &mut u32,
    ) -> FinalCost {
        let has = |statuses: &Option<Statuses>| {
            usage.status.zip(statuses.as_ref()).map(|(status, statuses)| statuses.contains(status))
        };
        let mut output = None;
        if has(&self.refund) == Some(true) {
            return FinalCost { units: Some(0), output };
        }
        // Without a status, the client may have left early to hide the number, so the cost is the
        // largest.
        let hides = usage.status.is_none() && matches!(self.source, CostSource::Response { .. });
        if self.charge.is_some() && has(&self.charge) != Some(true) && !hides {
            return FinalCost::default();
        }
        let units = match &self.source {
            CostSource::Fixed(_) | CostSource::Header { .. } => pending.on_arrival(),
            CostSource::RequestBytes { max, .. } => usage.request_bytes.min(*max),
            CostSource::ResponseBytes(estimate) => usage.response_bytes.min(estimate.max),
            CostSource::Response { sum, default, estimate, .. } => {
                let factor = pending.factor().map_or(ONE, u64::from);
                let Total { thousandths, is_seen, is_final } = sum.total(usage, measures);
                if let (PendingUnits::Estimated { estimated, .. }, true) = (pending, is_seen && is_final) {
                    // An input that was estimated too high says nothing about the output.
                    let all = u64::try_from(thousandths).unwrap_or(u64::MAX);
                    output = all.checked_sub(estimated.input);
                }
                let (seen, default) = (units(thousandths, factor), default.unwrap_or(estimate.units));
                let default = scaled(default, factor);
                // Clients can choose the timeout by which a gateway answers in the upstream's
                // place.
                let is_cut = !is_seen && matches!(usage.status, Some(408 | 504));
                let units = match is_final && !is_cut {
                    true if is_seen => seen,
                    true => seen.max(default),
                    // A client must not pay less because it hides the number.
                    false => {
                        *unread = unread.saturating_add(1);
                        seen.max(default).max(pending.on_arrival())
                    }
                };
                units.min(estimate.max)
            }
        };
        FinalCost { units: Some(units), output }
    }

    /// Whether estimates learn from what the actor's earlier requests cost.
    #[must_use]
    pub fn learns(&self) -> bool {
        match &self.source {
            CostSource::Response { by_request: Some(by_request), .. } => by_request.learns(),
            _ => false,
        }
    }

    /// Whether the cost depends on a part of the request's body.
    pub(crate) fn reads_body(&self, parts: &Parts) -> bool {
        match &self.source {
            CostSource::Header { part, .. } => matches!(parts.get(*part), Some(Part::RequestJson(_))),
            CostSource::Response { factors, by_request, .. } => {
                factors.as_ref().is_some_and(|factors| factors.reads_body())
                    || by_request.as_ref().is_some_and(|by_request| by_request.reads_body())
            }
            _ => false,
        }
    }

    /// Adds what the host has to measure.
    pub(crate) fn measure(&self, measures: &mut Measures, known: &mut KeySet) {
        // The status says whether a response has a body that may have a number.
        let is_response = matches!(self.source, CostSource::Response { .. });
        measures.status |= self.charge.is_some() || self.refund.is_some() || is_response;
        match &self.source {
            CostSource::RequestBytes { .. } => measures.request_bytes = true,
            CostSource::ResponseBytes(_) => measures.response_bytes = true,
            CostSource::Response { sum, .. } => sum.numbers().for_each(|number| measures.add(number, known)),
            CostSource::Fixed(_) | CostSource::Header { .. } => {}
        }
    }

    /// The canonical text; empty for a cost of one unit.
    pub(crate) fn canonical_form(&self, parts: &Parts) -> String {
        if *self == Cost::default() {
            return String::new();
        }
        let numbers = |numbers: &[u64]| numbers.iter().copied().map(decimal).collect::<Vec<_>>().join(" ");
        let source = match &self.source {
            CostSource::Fixed(units) => decimal(*units),
            CostSource::Header { part, default, range } => {
                [&numbers(&[*default, *range.start(), *range.end()]), " ", &*parts.canonical_form(*part)]
                    .concat()
            }
            CostSource::RequestBytes { .. } => "request bytes".into(),
            CostSource::ResponseBytes(Estimate { units, max }) => {
                ["response bytes ", &*numbers(&[*units, *max])].concat()
            }
            CostSource::Response { sum, factors, default, estimate: Estimate { units, max }, by_request } => {
                let numbers = numbers(&[default.unwrap_or(*units), *units, *max]);
                let by = factors.as_ref().map(|factors| [" by ", factors.canonical_form()].concat());
                let estimate = by_request.as_ref().map(|estimate| estimate.canonical_form(parts));
                let more = [by.unwrap_or_default(), estimate.unwrap_or_default()].concat();
                [sum.canonical_form(), " ", &*numbers, &more].concat()
            }
        };
        let statuses = |word: &str, statuses: &Option<Statuses>| {
            statuses.as_ref().map_or(String::new(), |statuses| [word, &*statuses.canonical_form()].concat())
        };
        let (charge, refund) = (statuses(" charged ", &self.charge), statuses(" refunded ", &self.refund));
        let rest = if self.takes_rest { " takes the rest" } else { "" };
        ["cost ", &source, &charge, &refund, rest].concat()
    }

    /// The canonical text of what is counted, without its numbers: units that mean the same have
    /// the same text. Empty for units that the document gives.
    pub(crate) fn source_form(&self, parts: &Parts) -> String {
        let source = match &self.source {
            CostSource::Fixed(_) => String::new(),
            CostSource::Header { part, .. } => parts.canonical_form(*part).to_string(),
            CostSource::RequestBytes { .. } => "request bytes".into(),
            CostSource::ResponseBytes(_) => "response bytes".into(),
            // The terms of a sum come and go with providers and their prices.
            CostSource::Response { sum, .. } => sum
                .only()
                .map(Measure::named)
                .map_or_else(|| "response sum".into(), |(kind, name)| [kind, &name].concat()),
        };
        let statuses = |word: &str, statuses: &Option<Statuses>| {
            statuses.as_ref().map_or(String::new(), |statuses| [word, &*statuses.canonical_form()].concat())
        };
        [source, statuses(" charged ", &self.charge), statuses(" refunded ", &self.refund)].concat()
    }
}

impl PendingCost {
    /// The factor of the request in thousandths; `None` if the cost has none.
    pub(crate) fn factor(&self) -> Option<u32> {
        let has_factors = matches!(self.cost.source, CostSource::Response { factors: Some(_), .. });
        self.units.factor().filter(|_| has_factors)
    }

    /// The least that is charged in place of this estimate; 0: all of it. Otherwise a bucket would
    /// admit a request for each unit that comes.
    pub(crate) fn least_rest(&self, estimate: u64) -> u64 {
        let default = match &self.cost.source {
            CostSource::Response { default, .. } => default.unwrap_or(u64::MAX),
            _ => u64::MAX,
        };
        if self.cost.takes_rest { estimate.div_ceil(4).min(default.max(1)) } else { 0 }
    }

    /// Estimates the request again by the `learned` cost of its actor, up to `most`. Returns the
    /// charge on arrival; `None` if the estimate does not depend on the learned cost.
    #[cold]
    #[inline(never)]
    pub(crate) fn estimate_by(&mut self, learned: Option<u64>, most: u64) -> Option<u64> {
        let PendingCost { cost, units } = self;
        let CostSource::Response { default, estimate, .. } = &cost.source else { return None };
        let PendingUnits::Estimated { units, factor, estimated } = units else { return None };
        let learned = learned.unwrap_or(first_learned(*default));
        if !estimated.is_learned {
            return None;
        }
        *units = estimated.units(learned, *factor).min(estimate.max).min(most);
        Some(cost.estimate(self.units))
    }

    /// The request's final cost. Increments `unread` if a number could not be read.
    pub(crate) fn at_end(&self, usage: &Usage, measures: &Measures, unread: &mut u32) -> FinalCost {
        let PendingCost { cost, units } = self;
        let end = cost.final_cost(*units, usage, measures, unread);
        FinalCost { output: end.output.filter(|_| cost.learns()), ..end }
    }

    /// The next learned value of the actor, after a request that cost `output` beyond its input.
    pub(crate) fn learn(&self, learned: Option<u64>, output: u64) -> u64 {
        let default = match &self.cost.source {
            CostSource::Response { default, .. } => *default,
            _ => None,
        };
        learn(learned.unwrap_or(first_learned(default)), output)
    }
}

/// The learned value before any request has ended, in thousandths of a unit.
fn first_learned(default: Option<u64>) -> u64 {
    default.unwrap_or(1).saturating_mul(ONE)
}

/// The whole number in a part of the request.
fn number(request: &Request, part: PartId) -> Option<u64> {
    digits(request.get(part)?)
}

#[cfg(test)]
mod tests;
