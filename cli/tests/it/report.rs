//! The HTML report of a replay, as text. `tests/report` looks at the report in a browser.

use crate::sample;
use diana_cli::replay::report::html;
use diana_cli::replay::summary::Summary;

#[test]
fn dump() {
    std::fs::write("/tmp/sample.html", html(&sample::summary())).unwrap();
    let s: Summary = sample::summary();
    eprintln!("{:#?} {}", s.totals, html(&s).len());
    for r in &s.rules {
        eprintln!(
            "{} {} {} {} {:?} {:?} {:?} n={}",
            r.name,
            r.judged,
            r.refused,
            r.refused_actors,
            r.least,
            r.suggestion.as_ref().unwrap().rpu,
            r.peaks,
            r.what_if.len()
        );
        eprintln!("{:?}", r.what_if.iter().map(|w| (w.rpu, w.refused, w.refused_actors)).collect::<Vec<_>>());
    }
}
