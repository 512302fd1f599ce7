//! The key `penalty` of a rule: `{after, for}`.

use super::algorithm::AlgorithmKind;
use diana_base::time::Span;
use diana_document::{Fields, Value};
use diana_limiter::algorithm::{self, Penalty};
use diana_limiter::policy::Quota;

/// The penalty of a rule, or of an override.
#[derive(Clone, Copy)]
pub(super) struct PenaltyKeys {
    after: u64,
    lasts: Span,
}

/// Takes `penalty`. A mistake yields `None`; without the key, `Some(None)`.
pub(super) fn penalty(fields: &mut Fields, kind: Option<&AlgorithmKind>) -> Option<Option<PenaltyKeys>> {
    let Some(node) = fields.take("penalty") else {
        return Some(None);
    };
    if let Some(AlgorithmKind { per_unit: false, name, .. }) = kind {
        node.fail(format!("{name} has no unit in which refusals could be counted: leave `penalty` out"));
        return None;
    }
    let Value::Object(_) = node.value() else {
        return node.expected("an object such as `{after: 5, for: 10m}`");
    };
    let mut keys = node.fields()?;
    let after = keys.require("after").and_then(|node| node.whole(1..=Penalty::MAX_AFTER));
    let lasts = keys.require("for").and_then(|node| node.span(Penalty::MIN_SPAN..=Penalty::MAX_SPAN));
    keys.finish();
    Some(Some(PenaltyKeys { after: after?, lasts: lasts? }))
}

impl PenaltyKeys {
    /// The quota with this penalty. A rule that refuses all requests needs none.
    pub(super) fn apply(self, quota: Quota) -> Quota {
        let algorithm::Allowance { rpu, unit } = quota.configured();
        let penalty = (rpu > 0).then(|| Penalty::new(unit, self.after, self.lasts));
        quota.with_penalty(penalty)
    }
}
