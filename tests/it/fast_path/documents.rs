//! Random documents and requests: those that a worker decides from memory, and their neighbours.

use diana_limiter::request::{Part, Values};
use proptest::prelude::*;
use proptest::sample::select;

/// A rule without its name. Some rules are not accepted.
fn rule() -> impl Strategy<Value = String> {
    let actor = select(vec![
        r#""all""#,
        r#""ip""#,
        r#""ip""#,
        r#""user""#,
        r#""user""#,
        r#"["user", "ip"]"#,
        r#"["key", "user"]"#,
        r#""key""#,
        r#""network""#,
        r#""host""#,
        r#""method""#,
        r#""route""#,
        r#""crumb""#,
    ]);
    let high = select(vec![
        r#""rpu": 1000000, "unit": "second""#,
        r#""rpu": 100000, "unit": "day""#,
        r#""rpu": 999983, "unit": "hour""#,
        r#""rpu": 1000, "unit": "second""#,
        r#""rpu": 400, "unit": "second", "algo": "W""#,
        r#""rpu": 100000, "unit": "minute", "algo": "W""#,
        r#""rpu": 100000, "unit": "minute", "algo": "SW""#,
        r#""rpu": 1000, "unit": "500ms", "algo": "SW""#,
    ]);
    let low = select(vec![
        r#""rpu": 3, "unit": "second""#,
        r#""rpu": 2, "unit": "hour", "algo": "W""#,
        r#""rpu": 0, "unit": "hour""#,
        r#""rpu": 5, "unit": "second", "algo": "SL""#,
        r#""rpu": 100, "unit": "second", "algo": "LB""#,
        r#""rpu": 2, "algo": "C""#,
    ]);
    let quota = prop_oneof![2 => high, 1 => low];
    let more = select(vec![
        r#", "cost": 3"#,
        r#", "cost": 0"#,
        r#", "cost": {"header": "x-cost", "max": 10}"#,
        r#", "mode": "shadow""#,
        r#", "enforce": "50%""#,
        r#", "enforce": "50%", "missing": "share""#,
        r#", "missing": "skip""#,
        r#", "missing": "share""#,
        r#", "missing": "deny""#,
        r#", "missing": "deny", "mode": "shadow""#,
        r#", "overrides": {"ann": {"rpu": 7}}"#,
        r#", "overrides": {"10.0.0.1": {"rpu": 500}}"#,
        r#", "penalty": {"after": 2, "for": "2s"}"#,
        r#", "plans": {"gold": {"rpu": 2000000}}"#,
        r#", "headroom": "10%""#,
        r#", "reject_delay": "1s""#,
    ]);
    let more = prop_oneof![2 => Just(""), 1 => more];
    (actor, quota, more).prop_map(|(actor, quota, more)| format!(r#"{{"actor": {actor}, {quota}{more}}}"#))
}

fn limit() -> impl Strategy<Value = String> {
    let url = select(vec!["/", "/", "/", "/api", "/api/*", "/{tenant}"]);
    let more = select(vec![
        "",
        "",
        "",
        "",
        r#", "methods": ["GET"]"#,
        r#", "headers": {"x-user-id": "ann"}"#,
        r#", "exclusive": true"#,
        r#", "priority": "high""#,
    ]);
    (url, prop::collection::vec(rule(), 1..4), more).prop_map(|(url, rules, more)| {
        format!(r#"{{"url": "{url}", "rules": [{}]{more}}}"#, rules.join(", "))
    })
}

/// A document. Some documents are not accepted.
pub fn document() -> impl Strategy<Value = String> {
    let top = select(vec![
        "",
        "",
        "",
        r#""ip": {"trusted_hops": 1}, "#,
        r#""deny": ["10.0.0.9"], "#,
        r#""enforce": "50%", "deny": ["10.0.0.9"], "#,
        r#""deny": {"addresses": ["10.0.0.2"], "mode": "shadow"}, "#,
        r#""allow": ["10.0.0.9"], "#,
        r#""local": {"max_actors": 16}, "#,
    ]);
    (top, prop::collection::vec(limit(), 1..4)).prop_map(|(top, limits)| {
        let limits = limits.join(", ");
        let plan = if limits.contains("plans") { r#""plan": {"header": "x-plan"}, "# } else { "" };
        format!(
            r#"{{"actors": {{"key": {{"header": "x-key"}}, "network": {{"ip": {{"v4_prefix": 24}}}},
                "route": {{"property": "route"}}, "crumb": {{"cookie": "id"}}}}, {plan}{top}"limits": [{limits}]}}"#
        )
    })
}

/// A request with up to two lines of each header.
pub fn request() -> impl Strategy<Value = Values> {
    let name = |names: &'static [&'static str]| select(names.to_vec());
    let users: &[&[&str]] =
        &[&[], &["ann"], &["ann"], &["bob"], &[""], &[" ann "], &["ann", "bob"], &["bob", "bob"]];
    let forwarded: &[&[&str]] =
        &[&[], &[], &["10.0.0.2"], &["x, 10.0.0.1:8"], &["none"], &["10.0.0.9", "10.0.0.1"]];
    let parts = (
        name(&[
            "10.0.0.1:0",
            "10.0.0.1:4711",
            "10.0.0.2",
            "10.0.0.9:1",
            "[2001:db8::1]:80",
            "2001:db8::2",
            "pipe",
            "",
        ]),
        select(users.to_vec()),
        select(forwarded.to_vec()),
        name(&["/", "/", "/api/1", "/api", "/%2fapi"]),
        name(&["GET", "GET", "POST"]),
        name(&["a.example", "A.example:80", "b.example"]),
        name(&["", "", "id=7", "id=8; x=1"]),
        name(&["", "", "2", "gold"]),
    );
    parts.prop_map(|(address, users, forwarded, path, method, host, cookie, word)| {
        let values =
            Values::default().with(Part::Path, path).with(Part::Method, method).with(Part::Host, host);
        let header = |name: &str| Part::Header(name.into());
        let mut values = values.with(Part::Property(vec!["route".into()]), host);
        if !address.is_empty() {
            values = values.with(Part::Address, address);
        }
        for (name, lines) in [("x-user-id", users), ("x-forwarded-for", forwarded)] {
            values = lines.iter().fold(values, |values, line| values.with(header(name), *line));
        }
        for name in ["x-cost", "x-plan", "x-key"] {
            if !word.is_empty() {
                values = values.with(header(name), word);
            }
        }
        if cookie.is_empty() { values } else { values.with(header("cookie"), cookie) }
    })
}
