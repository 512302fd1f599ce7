//! Names in documents: each exists in the code.
//!
//! It does not know: whether what a document says of a name is true.

use super::text;
use diana::host::proxy_wasm::metrics::METRICS;
use std::collections::BTreeSet;

/// Files with the expressions that make labels of Envoy's statistics.
const TAGGED: [&str; 6] = [
    "envoy.yaml",
    "README.md",
    "gateway/src/bootstrap.rs",
    "examples/global-redis/envoy.yaml",
    "examples/rate-limit-service/envoy.yaml",
    "examples/remote-config/envoy.yaml",
];

#[test]
fn every_label_has_its_expression() {
    let labels: BTreeSet<&str> = METRICS.iter().flat_map(|metric| metric.prometheus().1).collect();
    for file in TAGGED {
        let text = text(file).replace('"', "");
        let tags: Vec<&str> =
            text.split("tag_name: ").skip(1).filter_map(|rest| rest.split(',').next()).collect();
        assert_eq!(tags.iter().copied().collect::<BTreeSet<&str>>(), labels, "{file}");
        assert_eq!(tags.len(), labels.len(), "{file}");
        for label in &labels {
            // Others may stand before a result.
            let before = if *label == "result" { r"\..*?" } else { "" };
            let expression = format!(r"^wasmcustom\.diana{before}(\.{label}\.([^.]+))\.");
            assert!(text.contains(&expression), "{file}: {expression}");
        }
    }
}
