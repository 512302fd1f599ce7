//! Bad replies: the active document stays, the reason is logged once, and the next good document is
//! accepted.

use super::{Remote, local, quota};
use gateway::config::cluster;
use gateway::{Config, Gateway, filter};
use serde_json::{Value, json};
use servers::{Documents, Fault};

/// The name, the body, and the text in the log.
type Bad = (&'static str, Vec<u8>, &'static str);

fn bad() -> Vec<Bad> {
    let with = |key: &str, value: Value| {
        let mut document = quota(1);
        document[key] = value;
        document.to_string().into_bytes()
    };
    let rule = |key: &str, value: Value| {
        let mut document = quota(1);
        document["limits"][0]["rules"][0][key] = value;
        document.to_string().into_bytes()
    };
    let whole = quota(1).to_string().into_bytes();
    let mut text = quota(1).to_string().replace("quota", "qu\u{1}ota").into_bytes();
    text.iter_mut().filter(|byte| **byte == 1).for_each(|byte| *byte = 0xff);
    let own = "a remote document cannot say ";
    vec![
        ("another syntax", b"limits:\n  - url: /\n".to_vec(), "not valid JSON"),
        ("a comma too many", whole.iter().chain(b",").copied().collect(), "not valid JSON"),
        ("a document that ends early", whole[..whole.len() / 2].to_vec(), "not valid JSON"),
        ("bytes that are no text", text, "not valid JSON"),
        ("nothing", Vec::new(), "the configuration is empty"),
        ("white space", b" \n\t\n".to_vec(), "the configuration is empty"),
        ("a page", b"<!doctype html><html><body>Please log in</body></html>".to_vec(), "not valid JSON"),
        ("too much", [&b" ".repeat(1 << 20)[..], &whole].concat(), "more than 1 MiB"),
        ("a key that nobody knows", with("limit", json!([])), "unknown key `limit`"),
        ("an algorithm that nobody knows", rule("algo", json!("guess")), "limits[0].rules[0].algo: "),
        (
            "a unit that nobody knows",
            rule("unit", json!("fortnight")),
            "limits[0].rules[0].unit: unknown unit",
        ),
        ("a quota below zero", rule("rpu", json!(-1)), "limits[0].rules[0].rpu: "),
        ("two mistakes", rule("rules", json!([])), "limits[0].rules[0]: unknown key `rules`"),
        ("where it comes from", with("remote", json!({"cluster": "x", "path": "/"})), own),
        ("where counts are kept", with("store", json!({"redis": {"cluster": "x"}})), own),
        ("how much memory is used", with("local", json!({"max_actors": 1})), own),
        ("an object that sets nothing", b"{}".to_vec(), "it sets nothing"),
        ("a list of nonsense", b"[1, null, \"x\"]".to_vec(), "[0]: "),
        ("a number", b"42".to_vec(), "expected "),
        ("a word", b"\"limits\"".to_vec(), "expected "),
        ("null", b"null".to_vec(), "expected "),
    ]
}

#[test]
fn a_bad_document_changes_nothing_and_is_logged_once() {
    let remote = Remote::start(json!({}));
    let mut clients = remote.connect();
    let mut active = 100_000;
    remote.documents.put(quota(active).to_string());
    remote.wait_for(&mut clients, active);
    // The server may have been polled before it had a document.
    let failed = remote.polls("failed");
    for (what, document, why) in bad() {
        let (switches, logged) = (remote.counted("config.switches"), remote.lines("refused: ").len());
        remote.documents.put(document);
        remote.wait_polls("refused", 1);
        // The same body again, with or without a matching tag.
        remote.wait("another poll", || {
            remote.documents.seen().iter().rev().take(2).all(|seen| seen.status == Some(304))
        });
        assert_eq!(clients.quotas(), [active; 4], "{what}");
        assert_eq!(remote.counted("config.generation"), active - 99_999, "{what}");
        let lines = remote.lines("remote configuration of cluster config refused: ");
        assert_eq!(lines.len(), logged + 1, "{what}: {lines:#?}");
        assert!(lines.last().is_some_and(|line| line.contains(why)), "{what}: {lines:#?}");
        assert!(remote.counted("config.switches") - switches <= 1, "{what}: the main thread may be late");
        active += 1;
        remote.documents.put(quota(active).to_string());
        remote.wait_for(&mut clients, active);
    }
    assert_eq!(remote.polls("failed"), failed);
    println!("{:#?}", remote.lines("refused: "));
}

/// A bad reply is no contact either: a server without a good reply for `max_stale` counts as down.
#[test]
fn a_reply_with_another_status_changes_nothing() {
    let remote = Remote::start(json!({}));
    let mut clients = remote.connect();
    let mut active = 100_000;
    remote.documents.put(quota(active).to_string());
    remote.wait_for(&mut clients, active);
    let statuses = [301, 302, 307, 308, 400, 401, 403, 404, 500, 502, 503];
    let faults =
        statuses.map(|status| (Fault::Status(status), format!("cannot be fetched: status {status}")));
    for (fault, why) in faults.into_iter().chain([(Fault::Cut, "cannot be fetched: ".into())]) {
        let logged = remote.lines("cannot be fetched: ").len();
        remote.documents.put(quota(1).to_string());
        remote.documents.fail(fault.clone());
        remote.wait_polls("failed", 2);
        assert_eq!(clients.quotas(), [active; 4], "{fault:?}");
        let lines = remote.lines("cannot be fetched: ");
        assert!(lines.len() == logged + 1 && lines[logged].contains(&why), "{fault:?}: {lines:#?}");
        active += 1;
        remote.documents.put(quota(active).to_string());
        remote.documents.fail(Fault::None);
        remote.wait_for(&mut clients, active);
    }
    assert!(
        remote.documents.seen().iter().all(|seen| !seen.path.starts_with("/moved")),
        "no poll follows the redirection"
    );
    assert_eq!(remote.polls("refused"), 0);
}

#[test]
fn a_reply_without_the_document_changes_nothing() {
    let remote = Remote::start(json!({"pointer": "/data/0", "encoding": "base64"}));
    let mut clients = remote.connect();
    let wrap = |text: &str| json!({"data": [text]}).to_string();
    // `{"limits": []}`, and the beginning of it.
    let (good, short) = ("eyJsaW1pdHMiOiBbXX0=", "eyJsaW1pdHMiOiBb");
    for (document, why) in [
        ("<html>".to_owned(), "not JSON, in which `pointer` could point"),
        (json!({"data": {"1": good}}).to_string(), "nothing where `pointer` points"),
        (wrap("{\"limits\": []}"), "no base64 where `encoding` expects it"),
        (wrap(short), "not valid JSON"),
    ] {
        let logged = remote.lines("refused: ").len();
        remote.documents.put(document.clone());
        remote
            .wait("the reason", || remote.lines(why).len() == 1 || remote.lines("refused: ").len() > logged);
        let lines = remote.lines("refused: ");
        assert!(lines.len() == logged + 1 && lines[logged].contains(why), "{document}: {lines:#?}");
        assert_eq!(clients.quotas(), [super::LOCAL; 4], "{document}");
    }
    remote.documents.put(wrap(good));
    remote.wait("the document", || {
        clients.get("/").iter().all(|answer| answer.header("ratelimit-policy").is_none())
    });
}

#[test]
fn a_document_that_needs_removed_callbacks() {
    let documents = Documents::start().unwrap();
    let mut document = local(&json!({}));
    document["headers"] = json!("off");
    let capabilities = filter::capabilities(filter::filter().unwrap()).unwrap();
    let mut config = Config { capabilities, ..Config::new(document) };
    config.clusters.push(cluster("config", documents.address(), false));
    let remote = Remote { gateway: Gateway::start(config).unwrap(), documents };
    let with_headers = |headers: &str| {
        let mut document = quota(0);
        document["headers"] = json!(headers);
        document.to_string()
    };
    remote.documents.put(with_headers("ietf"));
    remote.wait_polls("refused", 1);
    let lines = remote.lines("refused: headers: the filter adds none to responses");
    assert_eq!(lines.len(), 1, "{}", remote.gateway.logs());
    assert_eq!(remote.gateway.get("/", &[]).unwrap().status, 200);
    remote.documents.put(with_headers("off"));
    remote.wait("the document", || remote.gateway.get("/", &[]).unwrap().status == 429);
}

/// Its compilation takes longer than the server's claim lasts. Nobody compiles it again, and the
/// reason is in the log.
#[test]
fn a_document_of_nothing_but_mistakes_is_judged_once() {
    let remote = Remote::start(json!({"interval": "1s", "timeout": "100ms"}));
    let mut clients = remote.connect();
    let keys: Vec<String> = (0..65_000).map(|number| format!(r#""key {number}": 1"#)).collect();
    remote.documents.put(format!("{{{}}}", keys.join(",")));
    remote.wait("the reason", || {
        remote.lines("refused: more than 1000 mistakes: (1) unknown key `key 0`").len() == 1
    });
    remote.wait_polls("refused", 2);
    assert_eq!(clients.quotas(), [super::LOCAL; 4]);
    assert_eq!(remote.lines("refused: ").len(), 1);
}
