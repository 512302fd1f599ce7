//! The table of all metrics, from which the filter defines them and against which a test checks the
//! documents. The configuration alone determines the series, never what clients send.

/// The kind of a metric. The numbers are the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter = 0,
    /// A number that goes up and down.
    Gauge = 1,
    /// A distribution of values.
    Histogram = 2,
}

/// The parts of a configuration that each have a series of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Each {
    /// Every configuration has one.
    Configuration,
    /// Every configuration in a restricted host.
    RestrictedHost,
    /// The version of the filter.
    Version,
    /// Each document in use, by its fingerprint.
    Document,
    /// Each rule.
    Rule,
    /// Each rule with `scope: global`.
    GlobalRule,
    /// Each rule with `adapt`.
    AdaptiveRule,
    /// Each rule of a configuration with `near_limit`.
    NearRule,
    /// Each rule with `over`.
    OverRule,
    /// The first rule of each table, that is, of each group of rules that count the same actor.
    Table,
    /// Each cluster of `store`.
    Cluster,
    /// A configuration with a `store`.
    Store,
    /// A configuration with `remote`.
    Remote,
    /// A configuration with `inspect`.
    Inspect,
    /// A configuration with an `allow` list.
    AllowList,
    /// A configuration with a `deny` list.
    DenyList,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its kind.
    pub kind: MetricKind,
    /// The parts that each have a series.
    pub each: Each,
    /// The metric's name in the host. Words in capitals stand for values.
    pub name: &'static str,
    /// The values of the last word in capitals, if `each` does not provide it.
    pub values: &'static [&'static str],
}

/// One series of a metric.
///
/// Envoy's `stats_tags` turn `diana.rule.NAME.result.RESULT.requests` into
/// `diana_requests{rule="NAME",result="RESULT"}`.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// The metric.
    pub metric: &'static Metric,
    /// The rule, cluster, version or document; empty if there is only one.
    pub of: &'a str,
    /// The value of the last label; empty if the metric has none.
    pub value: &'a str,
}

impl Series<'_> {
    /// The name with the values in it, such as `diana.rule.login.result.ok.requests`.
    #[must_use]
    pub fn name(&self) -> String {
        self.metric.series(self.of, self.value)
    }
}

impl Metric {
    /// The host's name of the series for this rule, cluster or version, and this value.
    fn series(&self, of: &str, value: &str) -> String {
        let mut name = String::with_capacity(self.name.len().saturating_add(of.len()));
        for (index, word) in self.name.split('.').enumerate() {
            if index > 0 {
                name.push('.');
            }
            name.push_str(match word {
                OF_RULE | OF_CLUSTER | OF_VERSION | OF_DOCUMENT => of,
                word if is_value(word) => value,
                word => word,
            });
        }
        name
    }

    /// The name that Prometheus shows, such as `diana_requests`, and its labels, such as `rule` and
    /// `result`.
    #[must_use]
    pub fn prometheus(&self) -> (String, Vec<&'static str>) {
        let (mut name, mut labels) = (Vec::new(), Vec::new());
        let mut words = self.name.split('.').peekable();
        while let Some(word) = words.next() {
            // The lists are rules, too: `rule.allow`.
            let is_label = word == "rule" || words.peek().is_some_and(|next| is_value(next));
            match is_label {
                true => labels.extend(words.next().map(|_| word)),
                false => name.push(word),
            }
        }
        (name.join("_"), labels)
    }
}

const OF_RULE: &str = "NAME";
const OF_CLUSTER: &str = "CLUSTER";
const OF_VERSION: &str = "VERSION";
const OF_DOCUMENT: &str = "FINGERPRINT";

/// Whether the word stands for a value.
fn is_value(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_uppercase())
}

/// Declares the values of a label: an enum, and the words that metrics show for it.
macro_rules! labels {
    ($($(#[$doc:meta])* $label:ident { $($value:ident = $word:literal),* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate) enum $label {
            $($value),*
        }

        impl $label {
            const WORDS: &[&str] = &[$($word),*];
        }

        impl From<$label> for usize {
            /// The value's place among its label's values.
            fn from(label: $label) -> usize {
                label as usize
            }
        }

        impl From<$label> for &'static str {
            /// The word that metrics show.
            fn from(label: $label) -> &'static str {
                match label {
                    $($label::$value => $word),*
                }
            }
        }
    )*};
}

labels! {
    /// What becomes of a request.
    OutcomeLabel {
        Passed = "passed", Delayed = "delayed", Refused = "refused", Denied = "denied", Allowed = "allowed",
        Error = "error"
    }
    /// What a rule says about a request.
    ResultLabel { Ok = "ok", Refused = "refused", Shadow = "shadow", Error = "error", Delayed = "delayed" }
    /// What the deny list says about a request.
    DeniedLabel { Refused = "refused", Shadow = "shadow" }
    /// The loss by an eviction.
    EvictionLabel { Lossless = "lossless", Lossy = "lossy", SetFull = "set_full" }
    /// The result of a poll of the document server.
    PollLabel { Fresh = "fresh", Unchanged = "unchanged", Refused = "refused", Failed = "failed" }
    /// What becomes of an operator's question: refused without the right token, limited if too many
    /// tokens from its address were wrong.
    QuestionLabel { Answered = "answered", Refused = "refused", Limited = "limited" }
    /// What an operator changes.
    ChangeLabel { Reset = "reset", Grant = "grant", Penalty = "penalty" }
}

/// Declares each metric in one line: its name in the filter, kind, what it exists for, host name,
/// values.
macro_rules! metrics {
    ($($id:ident: $kind:ident $each:ident $name:literal $values:expr;)*) => {
        /// The metrics, in the order of [`METRICS`].
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Id {
            $($id),*
        }

        /// All metrics.
        pub const METRICS: &[Metric] =
            &[$(Metric { kind: MetricKind::$kind, each: Each::$each, name: $name, values: $values }),*];
    };
}

metrics! {
    Decisions: Counter Configuration "diana.outcome.OUTCOME.decisions"
        OutcomeLabel::WORDS;
    Requests: Counter Rule "diana.rule.NAME.result.RESULT.requests"
        ResultLabel::WORDS;
    Allowed: Counter AllowList "diana.rule.allow.result.RESULT.requests" &["ok"];
    Denied: Counter DenyList "diana.rule.deny.result.RESULT.requests" DeniedLabel::WORDS;
    Degraded: Counter GlobalRule "diana.rule.NAME.degraded" &[];
    NearLimit: Counter NearRule "diana.rule.NAME.near_limit" &[];
    Over: Counter OverRule "diana.rule.NAME.over" &[];
    Limit: Gauge AdaptiveRule "diana.rule.NAME.limit" &[];
    Evictions: Counter Configuration "diana.kind.KIND.evictions" EvictionLabel::WORDS;
    LostSwaps: Counter Configuration "diana.lost_swaps" &[];
    SharedDataErrors: Counter Configuration "diana.shared_data_errors" &[];
    ForeignValues: Counter Configuration "diana.foreign_values" &[];
    CachedRefusals: Counter Configuration "diana.cached_refusals" &[];
    UnreadCosts: Counter Configuration "diana.unread_costs" &[];
    LostKeys: Counter RestrictedHost "diana.lost_keys" &[];
    LostRefusals: Counter RestrictedHost "diana.lost_refusals" &[];
    UnheldRequests: Counter Configuration "diana.unheld_requests" &[];
    Calls: Counter Cluster "diana.store.CLUSTER.calls" &[];
    FailedCalls: Counter Cluster "diana.store.CLUSTER.failed_calls" &[];
    Queries: Counter Cluster "diana.store.CLUSTER.queries" &[];
    DroppedRefunds: Counter Cluster "diana.store.CLUSTER.dropped_refunds" &[];
    StrayReplies: Counter Cluster "diana.store.CLUSTER.stray_replies" &[];
    CallDuration: Histogram Cluster "diana.store.CLUSTER.call_duration_us" &[];
    Replicas: Gauge Store "diana.replicas" &[];
    SecretFingerprint: Gauge Store "diana.secret_fingerprint" &[];
    WaitDuration: Histogram Configuration "diana.wait_duration_ms" &[];
    WaitingRequests: Gauge Configuration "diana.waiting_requests" &[];
    CellsUsed: Gauge Table "diana.rule.NAME.cells_used" &[];
    CellsRoom: Gauge Table "diana.rule.NAME.cells_room" &[];
    ConfigGeneration: Gauge Configuration "diana.config.generation" &[];
    ConfigSwitches: Counter Remote "diana.config.switches" &[];
    ConfigPolls: Counter Remote "diana.config.result.RESULT.polls" PollLabel::WORDS;
    ConfigInfo: Gauge Document "diana.fingerprint.FINGERPRINT.config_info" &[];
    InspectQuestions: Counter Inspect "diana.inspect.result.RESULT.questions"
        QuestionLabel::WORDS;
    InspectChanges: Counter Inspect "diana.inspect.result.RESULT.changes" ChangeLabel::WORDS;
    BuildInfo: Gauge Version "diana.version.VERSION.build_info" &[];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_series_and_a_name_with_labels() {
        let requests = METRICS.get(Id::Requests as usize).unwrap();
        assert_eq!(requests.series("login", "ok"), "diana.rule.login.result.ok.requests");
        assert_eq!(requests.prometheus(), ("diana_requests".into(), vec!["rule", "result"]));
        let denied = METRICS.get(Id::Denied as usize).unwrap();
        assert_eq!(denied.prometheus(), requests.prometheus());
        let generation = METRICS.get(Id::ConfigGeneration as usize).unwrap();
        assert_eq!(generation.series("", ""), "diana.config.generation");
        assert_eq!(generation.prometheus(), ("diana_config_generation".into(), vec![]));
    }

    #[test]
    fn values_and_words_in_capitals_agree() {
        for metric in METRICS {
            let of = [OF_RULE, OF_CLUSTER, OF_VERSION, OF_DOCUMENT];
            let words = metric.name.split('.').filter(|word| is_value(word));
            let (of, values): (Vec<&str>, Vec<&str>) = words.partition(|word| of.contains(word));
            assert_eq!(values.len(), usize::from(!metric.values.is_empty()), "{metric:?}");
            let is_many = matches!(
                metric.each,
                Each::Rule
                    | Each::GlobalRule
                    | Each::AdaptiveRule
                    | Each::NearRule
                    | Each::OverRule
                    | Each::Table
                    | Each::Cluster
                    | Each::Version
                    | Each::Document
            );
            assert_eq!(of.len(), usize::from(is_many), "{metric:?}");
        }
    }
}
