//! The actors that a rule counts: every source of an actor's value, tuples, overrides.

use super::check;

/// One request an hour for each value of `actor`, which is defined as `definition`.
fn each(definition: &str) -> String {
    format!(
        r#"{{"actors": {{"x": {definition}}}, "limits": [{{"url": "/", "rules": [
            {{"name": "x", "actor": "x", "rpu": 1, "unit": "hour", "missing": "skip"}}]}}]}}"#
    )
}

#[test]
fn an_actor_may_be_a_cookie_a_parameter_or_a_header() {
    check(
        &each(r#"{"cookie": "session"}"#),
        "0ms cookie=a=1;_session=s1   GET / -> pass x=0
         0ms cookie=session=\"s1\"    GET / -> refuse x
         0ms cookie=session=s2        GET / -> pass x=0
         0ms cookie=Session=s2        GET / -> pass none
         0ms                          GET / -> pass none",
    );
    check(
        &each(r#"{"query": "key"}"#),
        "0ms GET /a?key=k1        -> pass x=0
         0ms GET /b?z=0&key=%6b1  -> refuse x
         0ms GET /?key=k2         -> pass x=0
         0ms GET /?key=           -> pass none
         0ms GET /key=k1          -> pass none",
    );
    check(
        &each(r#"{"header": "X-Tenant"}"#),
        "0ms x-tenant=t1   GET / -> pass x=0
         0ms x-tenant=_t1_ GET / -> refuse x
         0ms x-tenant=T1   GET / -> pass x=0",
    );
}

#[test]
fn differing_header_lines_name_no_actor() {
    check(
        &each(r#"{"header": "x-tenant"}"#),
        "0ms x-tenant=t1                GET / -> pass x=0
         0ms x-tenant=t1 x-tenant=t1    GET / -> refuse x
         0ms x-tenant=zzz x-tenant=t1   GET / -> pass none
         0ms x-tenant=t1 x-tenant=      GET / -> pass none",
    );
    check(
        &each(r#"{"cookie": "session"}"#),
        "0ms cookie=a=1;_session=s1                   GET / -> pass x=0
         0ms cookie=a=1 cookie=session=s1             GET / -> refuse x
         0ms cookie=session=s1 cookie=session=\"s1\"   GET / -> refuse x
         0ms cookie=session=zzz cookie=session=s1     GET / -> pass none",
    );
    check(
        &each(r#"{"jwt": "sub"}"#),
        "0ms authorization=Bearer_e30.eyJzdWIiOiJhbGljZSJ9.c2ln GET / -> pass x=0
         0ms authorization=Bearer_e30.eyJzdWIiOiJib2IifQ.c2ln authorization=Bearer_e30.eyJzdWIiOiJhbGljZSJ9.c2ln GET / -> pass none",
    );
    // By default, requests without the actor are counted by client IP. Another line in front gains
    // nothing.
    check(
        r#"{"url": "/", "rules": [{"name": "user", "actor": "user", "rpu": 1, "unit": "hour"}]}"#,
        "0ms ip=10.0.0.1 user=ann                  GET / -> pass user=0
         0ms ip=10.0.0.1 x-user-id=zz1 user=ann    GET / -> pass user=0
         0ms ip=10.0.0.1 x-user-id=zz2 user=ann    GET / -> refuse user",
    );
}

#[test]
fn a_segment_counts_where_all_backends_read_the_same() {
    check(
        &each(r#"{"path": 2}"#),
        "0ms GET /users/42          -> pass x=0
         0ms GET /users/42/x;a=1    -> refuse x
         0ms GET /users/42;a=1      -> pass none
         0ms GET /users/42;a=2      -> pass none
         0ms GET /users/x/..;/42    -> pass none
         0ms GET /users/42%2fx      -> pass none
         0ms GET /users\\42         -> pass none
         0ms GET //users/42         -> pass none",
    );
}

#[test]
fn an_actor_may_be_a_named_segment_of_the_url() {
    let json = r#"[
        {"url": "/tenants/{tenant}/orders", "rules": [
            {"name": "tenant", "actor": {"segment": "tenant"}, "rpu": 2, "unit": "hour", "missing": "deny",
             "overrides": {"big%7eco": {"rpu": 9}}},
            {"name": "both", "actor": ["user", {"segment": "tenant"}], "rpu": 1, "unit": "hour", "missing": "skip"}]},
        {"url": "/tenants/*/orders/{order}", "rules": [
            {"name": "order", "actor": {"segment": "order"}, "rpu": 1, "unit": "hour"}]}]"#;
    check(
        json,
        "0ms user=ann GET /tenants/acme/orders       -> pass tenant=1 both=0
         0ms user=ann GET /tenants/%61cme//orders    -> refuse both
         0ms user=bob GET /tenants/acme/./orders?x   -> pass tenant=0 both=0
         0ms user=cyd GET /tenants/acme/orders       -> refuse tenant
         0ms user=ann GET /tenants/ACME/orders       -> pass tenant=1 both=0
         0ms          GET /tenants/big~co/orders     -> pass tenant=8
         0ms user=dan GET /tenants/x/orders/7        -> pass tenant=1 both=0 order=0
         0ms user=eve GET /tenants/y/orders/%37      -> refuse order
         0ms          GET /tenants/acme              -> pass none",
    );
}

/// A client must not be able to choose between keys, or reach a fresh key, by spelling.
#[test]
fn a_named_segment_is_that_of_the_readings_that_the_url_matches() {
    let json = r#"{"url": "/tenants/{tenant}/orders", "rules": [
        {"name": "tenant", "actor": {"segment": "tenant"}, "rpu": 1, "unit": "hour", "missing": "deny"}]}"#;
    check(
        json,
        r"0ms GET /tenants/acme/orders                     -> pass tenant=0
          0ms GET //x/tenants/acme/orders                  -> refuse tenant
          0ms GET /x/..;/tenants/acme/orders               -> refuse tenant
          0ms GET /tenants\acme/orders                     -> refuse tenant
          0ms GET /tenants/acme%2forders                   -> refuse tenant
          0ms GET /tenants/acme/orders;x=1                 -> refuse tenant
          0ms GET /tenants/acme;x=1/orders                 -> no-actor tenant
          0ms GET /tenants/acme/orders/..;/../eve/orders/x -> no-actor tenant
          0ms GET /tenants/eve/orders                      -> pass tenant=0",
    );
}

#[test]
fn a_defined_segment_has_its_place_in_each_url() {
    let json = r#"{"actors": {"who": {"segment": "tenant"}}, "limits": [
        {"url": "/v1/{tenant}", "rules": [{"name": "one", "actor": "who", "rpu": 1, "unit": "hour"}]},
        {"url": "/v2/*/{tenant}", "rules": [{"name": "two", "actor": "who", "rpu": 1, "unit": "hour"}]}]}"#;
    check(
        json,
        "0ms GET /v1/acme   -> pass one=0
         0ms GET /v1/acme/x -> refuse one
         0ms GET /v2/x/acme -> pass two=0
         0ms GET /v2/y/acme -> refuse two
         0ms GET /v2/x/eve  -> pass two=0",
    );
}

#[test]
fn an_actor_may_be_a_claim_of_a_token() {
    // {"sub":"alice"} and {"sub":"bob"}
    check(
        &each(r#"{"jwt": "sub"}"#),
        "0ms authorization=Bearer_e30.eyJzdWIiOiJhbGljZSJ9.c2ln  GET / -> pass x=0
         0ms authorization=bearer_e30.eyJzdWIiOiJhbGljZSJ9.b3Ro  GET / -> refuse x
         0ms authorization=Bearer_e30.eyJzdWIiOiJib2IifQ.c2ln    GET / -> pass x=0
         0ms authorization=Bearer_rubbish                        GET / -> pass none",
    );
}

#[test]
fn an_actor_may_be_a_segment_a_host_a_method_or_a_property() {
    check(
        &each(r#"{"path": 2}"#),
        "0ms GET /tenants/acme/a           -> pass x=0
         0ms GET /tenants//./%61cme/b?q=1  -> refuse x
         0ms GET /tenants/Acme             -> pass x=0
         0ms GET /tenants                  -> pass none",
    );
    check(
        &each(r#""host""#),
        "0ms host=api.example.com      GET / -> pass x=0
         0ms host=API.example.com.:443 GET / -> refuse x
         0ms host=www.example.com      GET / -> pass x=0",
    );
    check(
        &each(r#""method""#),
        "0ms GET  / -> pass x=0
         0ms GET  / -> refuse x
         0ms POST / -> pass x=0",
    );
    check(
        &each(r#"{"property": ["xds", "route_name"]}"#),
        "0ms property=xds.route_name=one GET / -> pass x=0
         0ms property=xds.route_name=one GET / -> refuse x
         0ms property=xds.route_name=two GET / -> pass x=0
         0ms property=xds.cluster=one    GET / -> pass none",
    );
}

#[test]
fn an_address_counts_by_its_network() {
    check(
        r#"{"url": "/", "rules": [{"name": "ip", "actor": "ip", "rpu": 1, "unit": "hour"}]}"#,
        "0ms ip=192.0.2.1:80               GET / -> pass
         0ms ip=192.0.2.1:81               GET / -> refuse ip
         0ms ip=::ffff:192.0.2.1           GET / -> refuse ip
         0ms ip=192.0.2.2                  GET / -> pass
         0ms ip=[2001:db8:0:1::1]:80       GET / -> pass
         0ms ip=2001:db8:0:1:ffff:ffff:ffff:ffff GET / -> refuse ip
         0ms ip=2001:db8:0:2::1            GET / -> pass
         0ms ip=10.0.0.1 x-forwarded-for=1.1.1.1 GET / -> pass
         0ms ip=10.0.0.1 x-forwarded-for=2.2.2.2 GET / -> refuse ip",
    );
    check(
        &each(r#"{"ip": {"v4_prefix": 24, "v6_prefix": 48}}"#),
        "0ms ip=192.0.2.1       GET / -> pass
         0ms ip=192.0.2.200     GET / -> refuse x
         0ms ip=192.0.3.1       GET / -> pass
         0ms ip=2001:db8:1:1::1 GET / -> pass
         0ms ip=2001:db8:1:2::1 GET / -> refuse x",
    );
}

#[test]
fn only_trusted_proxies_set_the_address() {
    check(
        r#"{"ip": {"trusted_hops": 2}, "limits": [{"url": "/", "rules": [
            {"name": "ip", "actor": "ip", "rpu": 1, "unit": "hour"}]}]}"#,
        "0ms ip=10.0.0.1 x-forwarded-for=192.0.2.1,10.0.0.9          GET / -> pass
         0ms ip=10.0.0.1 x-forwarded-for=6.6.6.6,_192.0.2.1,10.0.0.8 GET / -> refuse ip
         0ms ip=10.0.0.1 x-forwarded-for=7.7.7.7,_192.0.2.1,10.0.0.8 GET / -> refuse ip
         0ms ip=10.0.0.1 x-forwarded-for=192.0.2.2,10.0.0.9          GET / -> pass
         0ms ip=10.0.0.1 x-forwarded-for=192.0.2.1                   GET / -> pass
         0ms ip=10.0.0.1                                             GET / -> refuse ip",
    );
    // A client's own line comes first, and a proxy's last.
    check(
        r#"{"ip": {"trusted_hops": 1, "header": "x-client-ip"}, "limits": [{"url": "/", "rules": [
            {"name": "ip", "actor": "ip", "rpu": 1, "unit": "hour"}]}]}"#,
        "0ms ip=10.0.0.1 x-client-ip=192.0.2.1                     GET / -> pass
         0ms ip=10.0.0.1 x-client-ip=6.6.6.6 x-client-ip=192.0.2.1 GET / -> refuse ip
         0ms ip=10.0.0.1 x-client-ip=7.7.7.7,_8.8.8.8 x-client-ip=192.0.2.1 GET / -> refuse ip
         0ms ip=10.0.0.1 x-client-ip=192.0.2.1 x-client-ip=192.0.2.2 GET / -> pass",
    );
}

#[test]
fn a_tuple_counts_each_combination() {
    check(
        r#"{"url": "/", "rules": [
            {"name": "pair", "actor": ["user", "device"], "rpu": 1, "unit": "hour"}]}"#,
        "0ms user=ann device=phone  GET / -> pass
         0ms user=ann device=phone  GET / -> refuse pair
         0ms user=ann device=tablet GET / -> pass
         0ms user=bob device=phone  GET / -> pass
         0ms user=phone device=ann  GET / -> pass
         0ms user=annp device=hone  GET / -> pass",
    );
}

#[test]
fn an_override_counts_one_actor_differently() {
    check(
        r#"{"url": "/", "rules": [{"name": "user", "actor": "user", "rpu": 2, "unit": "hour",
            "overrides": {"vip": {"rpu": 4, "burst": 6}, "bot": {"rpu": 0}, "10.0.0.1": {"rpu": 0}}}]}"#,
        "0ms    user=ann GET / -> pass user=1
         0ms    user=vip GET / -> pass user=5
         0ms 5x user=vip GET / -> pass
         0ms    user=vip GET / -> refuse user retry=15m
         15m    user=vip GET / -> pass user=0
         15m 3x user=bot GET / -> refuse user retry=never
         1d     user=bot GET / -> refuse user retry=never
         1d     user=Vip GET / -> pass user=1
         1d     ip=10.0.0.1 GET / -> pass user=1
         1d     user=10.0.0.1 GET / -> refuse user retry=never",
    );
    check(
        r#"{"url": "/", "rules": [{"name": "pair", "actor": ["user", "device"], "rpu": 1, "unit": "hour",
            "overrides": {"ann, phone": {"rpu": 3}, "ann, car": {"rpu": 0}}}]}"#,
        "0ms user=ann device=phone  GET / -> pass pair=2
         0ms user=ann device=car    GET / -> refuse pair retry=never
         0ms user=ann device=tablet GET / -> pass pair=0
         0ms user=phone device=ann  GET / -> pass pair=0",
    );
}

#[test]
fn all_requests_share_one_cell() {
    check(
        r#"{"url": "/", "rules": [{"name": "all", "actor": "all", "rpu": 2, "unit": "hour"}]}"#,
        "0ms user=ann ip=10.0.0.1 GET /  -> pass all=1
         0ms user=bob ip=10.0.0.2 GET /b -> pass all=0
         0ms                      GET /  -> refuse all retry=30m",
    );
    check(
        r#"{"url": "/", "rules": [{"name": "account", "actor": "account", "rpu": 1, "unit": "hour"},
                                  {"name": "user", "actor": "user", "rpu": 2, "unit": "hour"}]}"#,
        "0ms user=ann GET / -> pass account=0 user=1
         0ms user=ann GET / -> refuse account account=refused user=1",
    );
}
