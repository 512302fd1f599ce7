//! The configuration servers: their replies in all four dialects, and their faults.

use gateway::{Connection, Response};
use serde_json::{Value, json};
use servers::{Documents, Fault};
use std::time::{Duration, Instant};

const DOCUMENT: &str = r#"{"limits": []}"#;
/// `diana.json`, and the document, in base64.
const KEY: &str = "ZGlhbmEuanNvbg==";
const VALUE: &str = "eyJsaW1pdHMiOiBbXX0=";

fn with(document: &str) -> Documents {
    let documents = Documents::start().unwrap();
    documents.put(document.to_owned());
    documents
}

fn ask(documents: &Documents, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut connection = Connection::open(documents.address()).unwrap();
    connection.request(method, path, headers, body.as_bytes()).unwrap()
}

fn get(documents: &Documents, path: &str, headers: &[(&str, &str)]) -> Response {
    ask(documents, "GET", path, headers, "")
}

fn json_of(answer: &Response) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn a_file_has_a_tag_and_a_date() {
    let documents = with(DOCUMENT);
    let first = get(&documents, "/diana.json", &[]);
    assert_eq!((first.status, first.text().as_str()), (200, DOCUMENT));
    let (tag, date) = (first.header("etag").unwrap(), first.header("last-modified").unwrap());
    let again = |headers: &[(&str, &str)]| get(&documents, "/diana.json", headers).status;
    assert_eq!((again(&[("if-none-match", tag)]), again(&[("if-modified-since", date)])), (304, 304));
    assert_eq!(
        again(&[("if-none-match", "\"v0\""), ("if-modified-since", date)]),
        200,
        "the tag comes first"
    );
    documents.put("{}");
    assert_eq!((again(&[("if-none-match", tag)]), again(&[("if-modified-since", date)])), (200, 200));
    documents.drop_etag();
    assert!(get(&documents, "/diana.json", &[]).header("etag").is_none());
    assert_eq!(get(&documents, "/another.json", &[]).status, 404);
}

#[test]
fn consul_returns_a_value_raw_or_in_a_list() {
    let documents = Documents::start().unwrap();
    assert_eq!(get(&documents, "/v1/kv/diana.json", &[]).status, 404, "there is no such key");
    assert_eq!(ask(&documents, "PUT", "/v1/kv/diana.json", &[], DOCUMENT).text(), "true");
    let raw = get(&documents, "/v1/kv/diana.json?raw", &[]);
    assert_eq!((raw.status, raw.text().as_str(), raw.header("x-consul-index")), (200, DOCUMENT, Some("1")));
    let list = json_of(&get(&documents, "/v1/kv/diana.json", &[]));
    assert_eq!(
        (&list[0]["Key"], &list[0]["Value"], &list[0]["ModifyIndex"]),
        (&json!("diana.json"), &json!(VALUE), &json!(1))
    );
}

#[test]
fn nacos_returns_text_or_wraps_it() {
    let documents = with(DOCUMENT);
    let ask = |path: &str, group: &str| {
        get(&documents, &format!("{path}?dataId=diana.json&{group}=DEFAULT_GROUP"), &[])
    };
    assert_eq!(ask("/nacos/v1/cs/configs", "group").text(), DOCUMENT);
    let second = json_of(&ask("/nacos/v2/cs/config", "group"));
    assert_eq!(second, json!({"code": 0, "message": "success", "data": DOCUMENT}));
    assert_eq!(json_of(&ask("/nacos/v3/client/cs/config", "groupName"))["data"]["content"], DOCUMENT);
    assert_eq!(ask("/nacos/v1/cs/configs", "tenant").status, 404, "no group is none");
}

#[test]
fn etcd_returns_a_value_in_base64() {
    let documents = Documents::start().unwrap();
    let post = |path: &str, body: Value| json_of(&ask(&documents, "POST", path, &[], &body.to_string()));
    assert!(post("/v3/kv/range", json!({"key": KEY})).get("kvs").is_none(), "there is no such key");
    assert_eq!(post("/v3/kv/put", json!({"key": KEY, "value": VALUE}))["header"]["revision"], "1");
    let found = post("/v3/kv/range", json!({"key": KEY}));
    let entry = &found["kvs"][0];
    assert_eq!((&found["count"], &entry["key"], &entry["value"]), (&json!("1"), &json!(KEY), &json!(VALUE)));
    assert!(post("/v3/kv/range", json!({"key": "Zm9v"})).get("kvs").is_none());
}

#[test]
fn a_server_fails_as_configured_and_records_requests() {
    let mut documents = with(DOCUMENT);
    let ask = |documents: &Documents| {
        let mut connection = Connection::open(documents.address()).unwrap();
        connection.request("GET", "/diana.json", &[("x-who", "me")], b"").map(|answer| answer.status)
    };
    documents.fail(Fault::Status(301));
    let moved = get(&documents, "/diana.json", &[]);
    assert_eq!((moved.status, moved.header("location")), (301, Some("/moved/diana.json")));
    assert_eq!(get(&documents, "/moved/diana.json", &[]).text(), DOCUMENT);
    for fault in [Fault::HangUp, Fault::Cut] {
        documents.fail(fault.clone());
        assert!(ask(&documents).is_err(), "{fault:?}");
    }
    let late = Duration::from_millis(50);
    documents.fail(Fault::Late(late));
    let start = Instant::now();
    assert_eq!((ask(&documents).unwrap(), start.elapsed() >= late), (200, true));
    documents.kill();
    assert!(Connection::open(documents.address()).is_err(), "the port is closed");
    documents.fail(Fault::None);
    documents.restart().unwrap();
    assert_eq!(ask(&documents).unwrap(), 200);
    let seen = documents.seen();
    let statuses: Vec<_> = seen.iter().map(|seen| seen.status).collect();
    assert_eq!(statuses, [Some(301), Some(200), None, Some(200), Some(200), Some(200)]);
    let last = seen.last().unwrap();
    assert_eq!((last.path.as_str(), last.header("x-who")), ("/diana.json", Some("me")));
    assert_eq!(documents.requests(), seen.len());
}

/// Half of the announced body arrives.
#[test]
fn a_reply_is_cut_after_half_of_its_body() {
    use std::io::{Read, Write};
    let documents = with(DOCUMENT);
    documents.fail(Fault::Cut);
    let mut stream = std::net::TcpStream::connect(documents.address()).unwrap();
    stream.write_all(b"GET /diana.json HTTP/1.1\r\nhost: me\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.contains(&format!("content-length: {}\r\n", DOCUMENT.len())), "{reply}");
    assert!(reply.ends_with(&DOCUMENT[..DOCUMENT.len() / 2]), "{reply}");
}
