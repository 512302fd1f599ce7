//! Conditions: what a limit requires beside its url.

use super::check;

#[test]
fn methods_hosts_and_headers_have_to_match() {
    let json = r#"{"url": "/", "methods": ["POST", "PUT"], "hosts": ["api.example.com", "*.example.org"],
        "headers": {"x-plan": "free", "x-beta": {"present": false}, "x-app": {"prefix": "ios-"},
                    "x-version": {"regex": "1\\.[0-9]+"}},
        "rules": [{"name": "all", "rpu": 9, "unit": "hour"}]}"#;
    let fine = "host=api.example.com x-plan=free x-app=ios-17 x-version=1.2";
    let other = |from: &str, to: &str| fine.replace(from, to);
    let mut script = format!("0ms {fine} POST / -> pass all=8\n0ms {fine} PUT /a -> pass all=7\n");
    for request in [
        format!("{fine} GET"),
        format!("{fine} Post"),
        format!("{fine} x-beta=1 POST"),
        format!("{} POST", other("api", "www")),
        format!("{} POST", other("api.example.com", "example.org")),
        format!("{} POST", other("host=api.example.com", "")),
        format!("{} POST", other("free", "Free")),
        format!("{} POST", other("x-plan=free", "")),
        format!("{} POST", other("ios", "web")),
        format!("{} POST", other("1.2", "1.2.3")),
    ] {
        script.push_str(&format!("0ms {request} / -> pass none\n"));
    }
    let below = other("api.example.com", "A.B.example.org:8443");
    script.push_str(&format!("0ms {below} POST / -> pass all=6\n"));
    check(json, &script);
}

#[test]
fn an_added_header_line_evades_no_condition() {
    let with = |condition: &str| {
        format!(
            r#"{{"url": "/", "headers": {{"x-plan": {condition}}},
                "rules": [{{"name": "all", "rpu": 9, "unit": "hour"}}]}}"#
        )
    };
    for condition in [r#""free""#, r#"{"prefix": "fr"}"#, r#"{"regex": "fre*"}"#] {
        check(
            &with(condition),
            "0ms x-plan=free               GET / -> pass all=8
             0ms x-plan=zzz x-plan=free    GET / -> pass all=7
             0ms x-plan=free x-plan=zzz    GET / -> pass all=6
             0ms x-plan=zzz x-plan=zz      GET / -> pass none
             0ms                           GET / -> pass none",
        );
    }
    check(
        &with(r#"{"present": false}"#),
        "0ms                        GET / -> pass all=8
         0ms x-plan= x-plan=free    GET / -> pass none",
    );
}

#[test]
fn head_is_get_without_the_body() {
    let of = |methods: &str| {
        format!(
            r#"{{"url": "/", "methods": {methods}, "rules": [{{"name": "all", "rpu": 2, "unit": "hour"}}]}}"#
        )
    };
    check(
        &of(r#"["GET"]"#),
        "0ms GET  / -> pass all=1
         0ms HEAD / -> pass all=0
         0ms HEAD / -> refuse all
         0ms POST / -> pass none
         0ms head / -> pass none",
    );
    check(
        &of(r#""HEAD""#),
        "0ms HEAD / -> pass all=1
         0ms GET  / -> pass none",
    );
}

/// A client may add a line that claims the identity of somebody without a limit.
#[test]
fn one_header_line_frees_nobody() {
    let json = r#"[{"url": "/", "rules": [{"name": "all", "rpu": 9, "unit": "hour"}]},
        {"url": "/", "exclusive": true, "headers": {"x-plan": "pro"}}]"#;
    check(
        json,
        "0ms x-plan=pro GET / -> pass none
         0ms x-plan=pro x-plan=pro GET / -> pass none
         0ms x-plan=pro x-plan=free GET / -> pass all=8
         0ms x-plan=free GET / -> pass all=7",
    );
}
