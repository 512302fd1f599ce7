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
    let mut script = format!(
        "0ms {fine} POST / -> pass all=8\n0ms {fine} PUT /a -> pass all=7\n0ms {fine} Post / -> pass all=6\n"
    );
    for request in [
        format!("{fine} GET"),
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
    script.push_str(&format!("0ms {below} POST / -> pass all=5\n"));
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
             0ms x-plan=_free__            GET / -> pass all=5
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
         0ms head / -> refuse all
         0ms POST / -> pass none",
    );
    check(
        &of(r#""HEAD""#),
        "0ms HEAD / -> pass all=1
         0ms GET  / -> pass none",
    );
}

/// However a client spells, repeats or hides what the limit excludes.
#[test]
fn what_is_not_excluded_is_limited() {
    check(
        &with(r#""methods": {"not": ["GET", "OPTIONS"]}"#),
        "0ms GET      / -> pass none
         0ms HEAD     / -> pass none
         0ms OPTIONS  / -> pass none
         0ms PROPFIND / -> pass all=8
         0ms QUERY    / -> pass all=7
         0ms get      / -> pass all=6
         0ms hEAD     / -> pass all=5",
    );
    check(
        &freed_by(r#""methods": {"not": "POST"}"#),
        "0ms GET  / -> pass none
         0ms post / -> pass all=8
         0ms POST / -> pass all=7",
    );
    check(
        &with(r#""hosts": {"not": "intern.example"}"#),
        "0ms host=intern.example     GET / -> pass none
         0ms host=Intern.example.:80 GET / -> pass none
         0ms host=a.intern.example   GET / -> pass all=8
         0ms host=intern.example..   GET / -> pass all=7
         0ms                         GET / -> pass all=6",
    );
    check(
        &freed_by(r#""hosts": {"not": "api.example"}"#),
        "0ms host=www.example    GET / -> pass none
         0ms host=api.example    GET / -> pass all=8
         0ms host=x@api.example  GET / -> pass all=7
         0ms host=api.example..  GET / -> pass all=6
         0ms                     GET / -> pass all=5",
    );
    check(
        &with(r#""headers": {"x-plan": {"not": ["gold", {"prefix": "staff-"}]}}"#),
        "0ms x-plan=gold               GET / -> pass none
         0ms x-plan=staff-7            GET / -> pass none
         0ms x-plan=gold x-plan=gold   GET / -> pass none
         0ms x-plan=Gold               GET / -> pass all=8
         0ms x-plan=gold x-plan=free   GET / -> pass all=7
         0ms x-plan=                   GET / -> pass all=6
         0ms                           GET / -> pass all=5",
    );
    check(
        &freed_by(r#""headers": {"x-plan": {"not": "free"}}"#),
        "0ms x-plan=gold             GET / -> pass none
         0ms x-plan=gold x-plan=free GET / -> pass all=8
         0ms x-plan=free             GET / -> pass all=7
         0ms                         GET / -> pass all=6",
    );
    check(
        &with(r#""query": {"format": {"not": "csv"}}"#),
        "0ms GET /?format=c%73v             -> pass none
         0ms GET /?format=csv&format=xml -> pass all=8
         0ms GET /?Format=csv            -> pass all=7",
    );
}

#[test]
fn a_condition_may_be_on_the_networks_of_clients() {
    let networks = r#""ip": ["10.0.0.0/8", "192.168.7.0/24", "2001:db8::7"]"#;
    check(
        &with(networks),
        "0ms ip=10.1.2.3         GET / -> pass all=8
         0ms ip=::ffff:10.1.2.3  GET / -> pass all=7
         0ms ip=2001:db8::7      GET / -> pass all=6
         0ms ip=2001:db8::8      GET / -> pass none
         0ms ip=192.168.8.1      GET / -> pass none
         0ms ip=pipe             GET / -> pass all=5",
    );
    check(
        &freed_by(networks),
        "0ms ip=::ffff:10.1.2.3  GET / -> pass none
         0ms ip=2001:db8::8      GET / -> pass all=8
         0ms ip=pipe             GET / -> pass all=7",
    );
    check(
        &freed_by(r#""ip": {"not": "192.168.7.0/24"}"#),
        "0ms ip=192.168.8.1      GET / -> pass none
         0ms ip=192.168.7.1      GET / -> pass all=8
         0ms ip=::ffff:c0a8:701  GET / -> pass all=7
         0ms ip=pipe             GET / -> pass all=6",
    );
    // A client writes only the beginning of the header.
    check(
        r#"{"ip": {"trusted_hops": 1}, "limits": [
            {"url": "/", "rules": [{"name": "all", "rpu": 9, "unit": "hour"}]},
            {"url": "/", "ip": "10.0.0.0/8", "exclusive": true}]}"#,
        "0ms ip=1.2.3.4 x-forwarded-for=10.0.0.1          GET / -> pass none
         0ms ip=1.2.3.4 x-forwarded-for=10.0.0.1,5.6.7.8  GET / -> pass all=8
         0ms ip=1.2.3.4                                   GET / -> pass all=7",
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

/// A limit on `/` with this condition and nine requests an hour.
fn with(condition: &str) -> String {
    format!(r#"{{"url": "/", {condition}, "rules": [{{"name": "all", "rpu": 9, "unit": "hour"}}]}}"#)
}

/// The same limit without a condition, beside an exclusive one with the condition.
fn freed_by(condition: &str) -> String {
    let all = with(r#""exclusive": false"#);
    format!(r#"[{all}, {{"url": "/", {condition}, "exclusive": true}}]"#)
}

#[test]
fn a_condition_may_be_on_a_query_parameter() {
    let json = with(r#""query": {"format": {"regex": "csv|xml"}, "page": {"present": false}}"#);
    check(
        &json,
        "0ms GET /?format=csv                -> pass all=8
         0ms GET /a?x=1&f%6frmat=%78ml       -> pass all=7
         0ms GET /?format=json&format=csv    -> pass all=6
         0ms GET /?format=csv&format=json    -> pass all=5
         0ms GET /?format=json               -> pass none
         0ms GET /?format=csv&page=1         -> pass none
         0ms GET /?format=csv&page           -> pass none
         0ms GET /?Format=csv                -> pass none
         0ms GET /format=csv                 -> pass none",
    );
    check(
        &freed_by(r#""query": {"format": "csv"}"#),
        "0ms GET /?format=csv             -> pass none
         0ms GET /?format=csv&format=%63sv -> pass none
         0ms GET /?format=csv&format=json -> pass all=8
         0ms GET /                        -> pass all=7",
    );
}

#[test]
fn a_condition_may_be_on_a_claim() {
    // {"plan":"free"} and {"plan":"pro"}
    check(
        &with(r#""jwt": {"plan": "free"}"#),
        "0ms authorization=Bearer_e30.eyJwbGFuIjoiZnJlZSJ9.c2ln GET / -> pass all=8
         0ms authorization=Bearer_e30.eyJwbGFuIjoicHJvIn0.c2ln     GET / -> pass none
         0ms GET / -> pass none
         0ms authorization=Bearer_rubbish GET / -> pass none
         0ms authorization=x authorization=Bearer_e30.eyJwbGFuIjoiZnJlZSJ9.c2ln GET / -> pass all=7
         0ms authorization=Bearer_e30.eyJwbGFuIjoiZnJlZSJ9.c2ln authorization=Bearer_e30.eyJwbGFuIjoicHJvIn0.c2ln GET / -> pass all=6",
    );
    check(
        &with(r#""jwt": {"plan": {"present": false}}"#),
        "0ms GET / -> pass all=8
         0ms authorization=Bearer_rubbish GET / -> pass all=7
         0ms authorization=Bearer_e30.eyJwbGFuIjoiZnJlZSJ9.c2ln GET / -> pass none
         0ms authorization=x authorization=Bearer_e30.eyJwbGFuIjoiZnJlZSJ9.c2ln GET / -> pass all=6",
    );
    check(
        &freed_by(r#""jwt": {"plan": "pro"}"#),
        "0ms authorization=Bearer_e30.eyJwbGFuIjoicHJvIn0.c2ln GET / -> pass none
         0ms authorization=Bearer_e30.eyJwbGFuIjoicHJvIn0.c2ln authorization=Bearer_e30.eyJwbGFuIjoiZnJlZSJ9.c2ln GET / -> pass all=8
         0ms authorization=Bearer_e30.eyJwbGFuIjoicHJvIn0.c2ln authorization=x GET / -> pass all=7
         0ms authorization=Bearer_e30.eyJwbGFuIjoiZnJlZSJ9.c2ln GET / -> pass all=6",
    );
}

#[test]
fn a_condition_may_be_on_a_property_of_the_host() {
    check(
        &with(r#""property": {"xds.route_name": {"prefix": "up"}, "plugin_name": {"present": false}}"#),
        "0ms property=xds.route_name=upload GET / -> pass all=8
         0ms property=xds.route_name=down   GET / -> pass none
         0ms property=xds.route_name=upload property=plugin_name=x GET / -> pass none
         0ms GET / -> pass none",
    );
}

#[test]
fn a_condition_may_be_on_the_declared_size_of_the_body() {
    check(
        &with(r#""body_size": {"min": 1, "max": "1Ki"}"#),
        "0ms size=1    POST / -> pass all=8
         0ms size=1024 POST / -> pass all=7
         0ms size=1025 POST / -> pass none
         0ms size=0    GET  / -> pass none
         0ms           POST / -> pass all=6",
    );
    // An unknown size frees nothing.
    check(
        &freed_by(r#""body_size": {"max": "1Ki"}"#),
        "0ms size=1024 POST / -> pass none
         0ms size=0    GET  / -> pass none
         0ms size=1025 POST / -> pass all=8
         0ms           POST / -> pass all=7",
    );
    // Beside a condition on a header, the filter reads all headers at once.
    check(
        &with(r#""body_size": {"min": "1k"}, "headers": {"x-plan": "free"}"#),
        "0ms x-plan=free size=1000 POST / -> pass all=8
         0ms x-plan=free size=999  POST / -> pass none
         0ms x-plan=free size=0    GET  / -> pass none
         0ms x-plan=free           POST / -> pass all=7
         0ms size=1000             POST / -> pass none",
    );
}

#[test]
fn a_limit_with_more_conditions_is_more_specific() {
    let rule = |name: &str| format!(r#""rules": [{{"name": "{name}", "rpu": 9, "unit": "hour"}}]"#);
    let json = format!(
        r#"[{{"url": "/", "exclusive": true, "query": {{"a": "1"}}, "body_size": {{"min": 1}}, {}}},
            {{"url": "/", "query": {{"a": "1"}}, {}}}]"#,
        rule("both"),
        rule("one")
    );
    check(
        &json,
        "0ms size=1 GET /?a=1 -> pass both=8
         0ms size=0 GET /?a=1 -> pass one=8
         0ms        GET /?a=1 -> pass one=7 both=7",
    );
}
