//! The marks of soft limits, as the filter sets them in a host.

use super::gateway::Gateway;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

const RULES: &str = r#"{"access_log": "all", "near_limit": "1%", "limits": [{"url": "/", "rules": [
    {"name": "a", "actor": "user", "algo": "W", "rpu": 4, "unit": "day",
        "over": [{"at": "25%", "request_header": {"x-a": "1", "x-both": "a"}}, {"at": "75%", "request_header": {"x-a": "2"}}]},
    {"name": "b", "actor": "user", "algo": "W", "rpu": 2, "unit": "day",
        "over": {"at": "100%", "admit": true, "request_header": {"x-both": "b"}}}]}]}"#;

#[test]
fn a_request_gets_the_marks_of_all_thresholds_the_highest_last() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, RULES);
    let ask = || {
        let user = (Part::Header("x-user-id".into()), b"ann".to_vec());
        let request = gateway.vms[0].ask(vec![(Part::Path, b"/".to_vec()), user]);
        let record = &gateway.world.records.borrow()[request];
        let marks = record.marks.iter().map(|(name, value)| format!("{name}={value}"));
        let over = record.attributes.iter().find(|(name, _)| name == "diana.over");
        (marks.collect::<Vec<_>>().join(" "), over.map_or(String::new(), |(_, value)| value.clone()))
    };
    let shown = |marks: &str, over: &str| (marks.to_owned(), over.to_owned());
    assert_eq!(ask(), shown("", ""));
    assert_eq!(ask(), shown("x-a=1 x-both=a", "a:25"));
    assert_eq!(ask(), shown("x-a=1 x-both=a x-both=b", "a:25,b:100"));
    assert_eq!(ask(), shown("x-a=1 x-both=a x-a=2 x-both=b", "a:25,a:75,b:100"));
    assert_eq!(ask(), shown("", ""), "refused by `a`");
}
