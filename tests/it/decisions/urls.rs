//! Which limits apply to a path: overlapping limits, exclusive limits, and other spellings of a
//! path.

use super::check;

#[test]
fn the_less_specific_limit_is_checked_first() {
    let json = r#"[
        {"url": "/sample/*/x", "rules": [{"name": "any", "rpu": 9, "unit": "hour"}]},
        {"url": "/sample", "rules": [{"name": "sample", "rpu": 2, "unit": "hour"}]},
        {"url": "=/sample", "rules": [{"name": "just", "rpu": 9, "unit": "hour"}]},
        {"url": "/", "methods": ["GET"], "rules": [{"name": "reads", "rpu": 9, "unit": "hour"}]},
        {"url": "/", "rules": [{"name": "root", "rpu": 3, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms GET  /sample     -> pass root=2 reads=8 sample=1 just=8
         0ms POST /sample/1/x -> pass root=1 sample=0 any=8
         0ms w1 POST /sample/1/y -> refuse sample root=1 sample=refused
         0ms POST /samples    -> pass root=0
         0ms w2 GET  /sample/1/x -> refuse sample root=refused reads=8 sample=refused any=8",
    );
}

#[test]
fn an_exclusive_limit_switches_off_less_specific_ones() {
    let json = r#"[
        {"url": "/", "rules": [{"name": "root", "rpu": 1, "unit": "hour"}]},
        {"url": "/api", "rules": [{"name": "api", "rpu": 8, "unit": "hour"}], "exclusive": true},
        {"url": "/api", "rules": [{"name": "peer", "rpu": 8, "unit": "hour"}]},
        {"url": "/api/x", "rules": [{"name": "x", "rpu": 8, "unit": "hour"}]},
        {"url": "=/health", "exclusive": true}]"#;
    check(
        json,
        "0ms    GET /        -> pass root=0
         0ms    GET /        -> refuse root
         0ms    GET /api     -> pass api=7 peer=7
         0ms    GET /api/x   -> pass api=6 peer=6 x=7
         0ms 9x GET /health  -> pass none
         0ms    GET /health/ -> pass none
         0ms    GET /health/a -> refuse root",
    );
}

#[test]
fn of_two_exclusive_limits_the_more_specific_one_counts() {
    let json = r#"[
        {"url": "/", "rules": [{"name": "root", "rpu": 9, "unit": "hour"}]},
        {"url": "/a", "exclusive": true, "rules": [{"name": "a", "rpu": 9, "unit": "hour"}]},
        {"url": "/a/b", "rules": [{"name": "b", "rpu": 9, "unit": "hour"}]},
        {"url": "/a/b/c", "exclusive": true, "rules": [{"name": "c", "rpu": 9, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms GET /a     -> pass a=8
         0ms GET /a/b   -> pass a=7 b=8
         0ms GET /a/b/c -> pass c=8
         0ms GET /z     -> pass root=8",
    );
}

#[test]
fn an_exclusive_limit_that_does_not_match_switches_nothing_off() {
    let json = r#"[
        {"url": "/", "rules": [{"name": "free", "rpu": 9, "unit": "hour"}]},
        {"url": "/", "headers": {"x-plan": "pro"}, "exclusive": true,
         "rules": [{"name": "pro", "rpu": 9, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms x-plan=pro  GET / -> pass pro=8
         0ms x-plan=free GET / -> pass free=8
         0ms             GET / -> pass free=7",
    );
}

#[test]
fn several_urls_of_one_limit_have_one_count() {
    let json = r#"[
        {"url": ["/login", "/oauth/token", "=/reset"], "rules": [{"name": "log-in", "rpu": 3, "unit": "hour"}]},
        {"url": "/", "rules": [{"name": "root", "rpu": 9, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms POST /login            -> pass root=8 log-in=2
         0ms POST //oauth/./token/x -> pass root=7 log-in=1
         0ms POST /reset/x          -> pass root=6
         0ms POST /oauth            -> pass root=5
         0ms POST /reset/           -> pass root=4 log-in=0
         0ms w1 POST /login/x       -> refuse log-in root=4 log-in=refused",
    );
}

/// A path on which backends disagree matches one url in each reading.
#[test]
fn a_limit_whose_urls_overlap_matches_once() {
    let json = r#"[
        {"url": ["/", "/api", "/api/*", "=/api/x"], "rules": [{"name": "all", "rpu": 9, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms GET /api/x         -> pass all=8
         0ms GET /api/..;/api/x -> pass all=7
         0ms GET /x/..%2fapi    -> pass all=6
         0ms GET /              -> pass all=5",
    );
}

#[test]
fn the_most_specific_url_that_matches_decides_the_order_and_what_is_switched_off() {
    let json = r#"[
        {"url": ["=/a/b", "/c"], "exclusive": true, "rules": [{"name": "two", "rpu": 9, "unit": "hour"}]},
        {"url": ["/a", "/c/d/e"], "rules": [{"name": "other", "rpu": 9, "unit": "hour"}]},
        {"url": ["/", "/a/b/c"], "rules": [{"name": "wide", "rpu": 9, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms GET /a/b     -> pass two=8
         0ms GET /a       -> pass wide=8 other=8
         0ms GET /c       -> pass two=7
         0ms GET /c/d/e   -> pass two=6 other=7
         0ms GET /a/b/c   -> pass other=6 wide=7
         0ms GET /a/b;x=1 -> pass wide=6 other=5 two=5",
    );
}

#[test]
fn an_exclusive_limit_of_several_urls_does_not_switch_itself_off() {
    let json = r#"[
        {"url": "/", "rules": [{"name": "root", "rpu": 9, "unit": "hour"}]},
        {"url": ["/", "/open"], "methods": "GET", "exclusive": true}]"#;
    check(
        json,
        "0ms GET /open  -> pass none
         0ms GET /      -> pass none
         0ms POST /open -> pass root=8",
    );
}

#[test]
fn a_segment_is_named_in_each_url() {
    let json = r#"[
        {"url": ["/tenants/{t}", "/v2/*/{t}"], "rules": [
            {"name": "tenant", "actor": {"segment": "t"}, "rpu": 3, "unit": "hour", "missing": "deny"}]}]"#;
    check(
        json,
        "0ms GET /tenants/acme   -> pass tenant=2
         0ms GET /v2/x/acme/y    -> pass tenant=1
         0ms GET /v2/x/eve       -> pass tenant=2
         0ms GET //v2/y/%61cme   -> pass tenant=0
         0ms GET /tenants/acme/x -> refuse tenant",
    );
}

#[test]
fn a_segment_with_a_type_leaves_the_others_to_their_limits() {
    let json = r#"[
        {"url": "/product/*", "rules": [{"name": "any", "rpu": 9, "unit": "hour"}]},
        {"url": "/product/{id:int}", "exclusive": true, "rules": [
            {"name": "number", "actor": {"segment": "id"}, "rpu": 2, "unit": "hour", "missing": "deny"}]},
        {"url": "/product/{slug:[a-z]+}", "rules": [{"name": "slug", "rpu": 9, "unit": "hour"}]},
        {"url": "/product/list", "exclusive": true, "rules": [{"name": "list", "rpu": 9, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms GET /product/list      -> pass list=8
         0ms GET /product/7         -> pass number=1
         0ms GET /product/%37/x     -> pass number=0
         0ms GET /product/8         -> pass number=1
         0ms GET /product/shoes     -> pass any=8 slug=8
         0ms GET /product/+7        -> pass any=7
         0ms GET /product/007       -> pass any=6
         0ms GET /product/%207      -> pass any=5
         0ms GET /product/list;x=1  -> pass any=4 list=7
         0ms GET /product/7;x=1     -> refuse number any=4 number=refused",
    );
}

/// Nobody reads what is too long, so it may be what an expression matches, and frees from nothing.
#[test]
fn a_segment_that_is_too_long_for_an_expression_is_limited() {
    let json = r#"[
        {"url": "/", "rules": [{"name": "all", "rpu": 9, "unit": "hour"}]},
        {"url": "/{x:a+}", "rules": [{"name": "typed", "rpu": 9, "unit": "hour"}]},
        {"url": "/{x:b+}", "exclusive": true}]"#;
    let long = "c".repeat(4_097);
    check(
        json,
        &format!(
            "0ms GET /b      -> pass none
             0ms GET /c      -> pass all=8
             0ms GET /{long} -> pass all=7 typed=8"
        ),
    );
}

/// A UUID is one actor in any case.
#[test]
fn no_spelling_of_a_uuid_is_another_actor() {
    let json = r#"{"url": "/files/{id:uuid}", "rules": [
        {"name": "file", "actor": {"segment": "id"}, "rpu": 2, "unit": "hour",
         "overrides": {"00000000-0000-0000-0000-00000000000A": {"rpu": 5}}}]}"#;
    check(
        json,
        "0ms GET /files/0fa5b3de-1c2d-4b6a-9e8f-00112233445a   -> pass file=1
         0ms GET /files/0FA5B3DE-1C2D-4B6A-9E8F-00112233445A/x -> pass file=0
         0ms GET /files/0fa5b3de-1c2d-4b6a-9E8F-0011223344%35a -> refuse file
         0ms GET /files/00000000-0000-0000-0000-00000000000a   -> pass file=4",
    );
}

/// Backends fold `ſ` and the Kelvin sign, or they do not: each spelling is limited.
#[test]
fn no_case_evades_a_limit_for_a_backend_that_ignores_it() {
    let json = r#"{"case_sensitive": false, "limits": [
        {"url": "/Tasks", "rules": [{"name": "tasks", "rpu": 1, "unit": "hour"}]},
        {"url": "=/tasks/OPEN", "rules": [{"name": "open", "rpu": 9, "unit": "hour"}], "case_sensitive": true}]}"#;
    let mut script = String::from("0ms GET /tasks -> pass tasks=0\n");
    for target in [
        "/Tasks/x",
        "/TASKS",
        "//tAsKs/",
        "/%54a%53ks;A=1",
        "/x/..;/TASKS",
        "/X%2F..%2FTASKS",
        r"/x\..\TASKS",
        "//HOST/TASKS",
        "http://a/TASKS?q",
        "/taſks",
        "/TA%C5%BFKS",
        "/tas\u{212a}s",
        "/ta%c5%bf%e2%84%aaſ",
        "/\u{212a}/..;/ta%C5%BFKS",
    ] {
        script += &format!("0ms GET {target} -> refuse tasks tasks=refused\n");
    }
    script += "0ms GET /TASK -> pass none
               0ms GET /ta%25C5%25BFks -> pass none
               1h w1 GET /tasks/OPEN -> pass tasks=0 open=8
               2h w2 GET /tasks/Open -> pass tasks=0";
    check(json, &script);
}

#[test]
fn an_exclusive_limit_in_any_case_frees_no_other_path() {
    let json = r#"[
        {"url": "/", "rules": [{"name": "root", "rpu": 9, "unit": "hour"}]},
        {"url": "/ask", "case_sensitive": false, "exclusive": true},
        {"url": "/ASK/x", "rules": [{"name": "exact", "rpu": 9, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms GET /ask      -> pass none
         0ms GET /Ask/%58  -> pass none
         0ms GET /ASK/x    -> pass exact=8
         0ms GET /aſk      -> pass root=8
         0ms GET /as\u{212a} -> pass root=7
         0ms GET /x        -> pass root=6",
    );
}

#[test]
fn actors_of_the_path_are_the_same_in_any_case() {
    let json = r#"{
        "case_sensitive": false,
        "actors": {"first": {"path": 1}},
        "deny": [{"first": "Closed"}],
        "limits": [
            {"url": "/t/{t}", "rules": [
                {"name": "tenant", "actor": {"segment": "t"}, "rpu": 2, "unit": "hour", "missing": "deny",
                 "overrides": {"BIG": {"rpu": 9}}}]},
            {"url": "/{x:[A-Z]+}/p", "rules": [{"name": "typed", "actor": "first", "rpu": 2, "unit": "hour"}]},
            {"url": "/e/*", "case_sensitive": true, "rules": [
                {"name": "exact", "actor": "first", "rpu": 2, "unit": "hour"}]}]}"#;
    check(
        json,
        "0ms GET /t/acme     -> pass tenant=1
         0ms GET /T/ACME/x   -> pass tenant=0
         0ms GET /t/%41cme   -> refuse tenant tenant=refused
         0ms GET /t/Big      -> pass tenant=8
         0ms GET /t/ſam      -> no-actor tenant tenant=refused
         0ms GET /CLOSED/x   -> denied
         0ms GET /One/P      -> pass typed=1
         0ms GET /oNE/p      -> pass typed=0
         0ms GET /e/x        -> pass exact=1
         0ms GET /E/x        -> pass none",
    );
}

#[test]
fn no_spelling_evades_a_limit() {
    let json = r#"{"url": "/admin/caf%c3%a9", "rules": [{"name": "admin", "rpu": 1, "unit": "hour"}]}"#;
    let mut script = String::from("0ms GET /admin/café -> pass\n");
    for target in [
        "//admin///caf%C3%A9",
        "/./admin/./caf%c3%A9/.",
        "/%61dmin/caf%C3%A9",
        "/%61%64%6D%69%6e/%63af%C3%A9/",
        "/x/../admin/café?q=/other",
        "/x/%2e%2e/admin/café#f",
        "/x/%2E%2E/admin/y/.%2e/café",
        "/../../admin/café",
        "/x/..;/admin/café",
        "/x/..;a=1/admin;b/café;c",
        "/admin%2Fcafé",
        "/admin%2fcafé",
        "/admin\\café",
        "/admin%5Ccafé/below",
        "http://any.example/admin/café",
        "/admin/café/below/../..;x/café",
        "//x/admin/café",
        "///x/admin/café",
        "/\\x/admin/café",
        "//x;a/y/..;/admin%2Fcafé",
    ] {
        script.push_str(&format!("0ms GET {target} -> refuse admin\n"));
    }
    for target in [
        "/x/admin/café",
        "/x//admin/café",
        "/Admin/café",
        "/admin/cafés",
        "/admin/café/..",
        "/%2561dmin/café",
        "/admin",
        "/",
    ] {
        script.push_str(&format!("0ms GET {target} -> pass none\n"));
    }
    check(json, &script);
}

#[test]
fn a_root_limit_applies_to_every_path() {
    let json = r#"{"url": "/", "rules": [{"name": "root", "rpu": 1, "unit": "hour"}]}"#;
    check(
        json,
        "0ms GET / -> pass
         0ms OPTIONS * -> refuse root
         0ms GET /%zz/% -> refuse root
         0ms GET -> refuse root
         0ms CONNECT example.com:443 -> refuse root",
    );
}

#[test]
fn a_limit_that_applies_in_any_reading_applies() {
    let limit = |url: &str| {
        format!(
            r#"{{"url": "{url}", "rules": [{{"name": "{}", "rpu": 9, "unit": "hour"}}]}}"#,
            url.replace(['/', '*', ':', '%'], "-").trim_matches('-')
        )
    };
    let urls = ["/admin", "/x", "/a%2fb", "/a/b", "/v1/m:run"].map(limit);
    check(
        &format!("[{}]", urls.join(", ")),
        r"0ms GET /x/..;/admin -> pass admin=8 x=8
          0ms GET /x/..%5cadmin -> pass admin=7 x=7
          0ms GET /x/..;\y/admin -> pass admin=6 x=6
          0ms GET /admin;a=1 -> pass admin=5
          0ms GET /a%2Fb -> pass a-2fb=8 a-b=8
          0ms GET /v1/m%3Arun;x -> pass v1-m-run=8
          0ms GET //v1/admin -> pass admin=4
          0ms GET /%2561dmin -> pass none",
    );
}

/// A limit that is exclusive for one backend must not switch off a limit of another one.
#[test]
fn an_exclusive_limit_switches_nothing_off_in_another_reading() {
    let json = r#"[
        {"url": "/", "rules": [{"name": "all", "rpu": 1, "unit": "hour"}]},
        {"url": "/health", "exclusive": true}]"#;
    check(
        json,
        r"0ms GET /health -> pass none
          0ms GET /health/live;x=1 -> pass none
          0ms GET /hello -> pass all=0
          0ms GET /health/..;/hello -> refuse all
          0ms GET /hello/..%2fhealth -> refuse all
          0ms GET /hello;/../health -> pass none",
    );
}
