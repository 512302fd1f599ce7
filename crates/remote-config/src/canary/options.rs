//! `remote.canary`: how a candidate is compared.

use diana_base::time::Span;
use diana_document::Node;
use diana_limiter::policy::Sample;
use diana_limiter::response;

/// How a candidate is compared with the active document.
///
/// ```
/// use diana_base::time::Span;
/// use diana_document::{Errors, Node};
/// use diana_limiter::policy::Sample;
/// use diana_remote_config::CanaryOptions;
///
/// let document = diana_document::parse(br#"{"percent": 25, "max_refused": "1%"}"#).unwrap();
/// let errors = Errors::default();
/// let options = CanaryOptions::compile(&Node::root(&document, &errors), Span::from_secs(5));
/// let expected = CanaryOptions { sample: Sample(25), max_refused: 1, ..CanaryOptions::default() };
/// assert_eq!((options, errors.into_vec().len()), (Some(expected), 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryOptions {
    /// The actors whose requests are compared.
    pub sample: Sample,
    /// How long a candidate is compared, and how long it is watched after promotion.
    pub hold: Span,
    /// The highest percentage of compared requests that the new document may newly refuse.
    pub max_refused: u32,
}

impl Default for CanaryOptions {
    /// The options of `canary: {}`.
    fn default() -> CanaryOptions {
        CanaryOptions { sample: Sample(10), hold: Span::from_secs(600), max_refused: 5 }
    }
}

impl CanaryOptions {
    /// Compiles `remote.canary`, for a source that is polled in this interval. Reports each mistake
    /// at its place and then returns `None`.
    #[must_use]
    pub fn compile(node: &Node, interval: Span) -> Option<CanaryOptions> {
        let CanaryOptions { sample: Sample(percent), hold, max_refused } = CanaryOptions::default();
        let mut fields = node.fields()?;
        let percent = fields.take("percent").map_or(Some(percent.into()), |node| node.whole(1..=100));
        let hold = fields.take("hold").map_or(Some(hold.max(interval)), |node| {
            let span = node.span(Span::from_ms(100)..=Span::from_secs(86_400 * 7))?;
            if span < interval {
                node.fail(
                    "it is shorter than `interval`: it would be over before all workers try the document",
                );
            }
            Some(span)
        });
        let max_refused =
            fields.take("max_refused").map_or(Some(max_refused), |node| response::percent(&node));
        fields.finish();
        let sample = Sample(u8::try_from(percent?).ok()?);
        Some(CanaryOptions { sample, hold: hold?, max_refused: max_refused? })
    }
}
