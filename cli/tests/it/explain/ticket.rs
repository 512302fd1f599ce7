//! Tickets of refusals, as an operator reads them.

use super::arguments;
use crate::replay::Folder;
use diana_base::time::{Span, Time};
use diana_cli::explain::{self, TicketView};
use diana_limiter::policy::ActorSource;
use diana_response::{TicketKey, TicketReason, TicketRecord};

const SECRET: &str = "0123456789abcdef";
const DOCUMENT: &str = r#"{"limits": [
    {"url": "/", "rules": [{"name": "per-user", "actor": "user", "rpu": 100, "unit": "minute"}, {"rpu": 9, "unit": "hour"}]}],
    "tickets": {"secret": "fedcba9876543210", "previous_secret": "0123456789abcdef"}}"#;

fn sealed(record: &TicketRecord) -> String {
    TicketKey::new(SECRET).seal(record)
}

/// A refusal of `ann` under [`DOCUMENT`].
fn refusal() -> TicketRecord {
    TicketRecord {
        source: Some(ActorSource::Actor),
        at: Time::from_ns(1_769_860_800_123_000_000),
        rule: TicketRecord::rule_hash("per-user"),
        quota: 100,
        unit: Span::from_secs(60),
        used: 100,
        wait: Some(Span::from_ms(600)),
        document: diana_config::compile(DOCUMENT.as_bytes()).unwrap().fingerprint,
        gateway: 7,
        actor: TicketKey::new(SECRET).actor("ann"),
        ..TicketRecord::new(TicketReason::Quota)
    }
}

fn read(document: &str, ticket: &str, words: &[&str]) -> Result<TicketView, String> {
    let args = arguments(&[&["--ticket", ticket], words].concat());
    explain::read_ticket(&args, ticket, document.as_bytes()).map_err(|error| error.to_string())
}

fn text(record: &TicketRecord, words: &[&str]) -> String {
    explain::ticket_text(&read(DOCUMENT, &sealed(record), words).unwrap())
}

#[test]
fn a_ticket_says_which_rule_refused_whom() {
    let shown = text(&refusal(), &["--actor", "ann"]);
    let fingerprint = format!("{:016x}", refusal().document);
    let expected = format!(
        "2026-01-31T12:00:00.123Z  refused by the quota of per-user  limits[0].rules[0] on /\n\
        \x20 used      100 of 100 per 60 s\n\
        \x20 wait      600 ms\n\
        \x20 actor     the given one\n\
        \x20 gateway   7\n\
        \x20 document  this one, {fingerprint}\n"
    );
    assert_eq!(shown, expected);
    assert!(text(&refusal(), &["--actor", "bob"]).contains("actor     not the given one\n"));
    assert!(text(&refusal(), &["--actor", "ann", "--actor", "192.0.2.7"]).contains("not the given one"));
    assert!(!text(&refusal(), &[]).contains("actor "));
    let view = read(DOCUMENT, &format!(" {}\n", sealed(&refusal())), &[]).unwrap();
    assert_eq!((view.rule.unwrap().place.as_str(), view.is_given_actor), ("limits[0].rules[0]", None));
}

#[test]
fn every_reason_has_words() {
    let plain = |reason| TicketRecord { reason, ..refusal() };
    for (record, expected) in [
        (plain(TicketReason::Penalty), "refused by the penalty of per-user  limits[0].rules[0] on /\n"),
        (plain(TicketReason::Fallback), "refused by the gateway's own share, without the store, of per-user"),
        (plain(TicketReason::StoreDown), "refused while the store was down, by `on_error: deny` of per-user"),
        (plain(TicketReason::NoActor), "refused without the actor, by `missing: deny` of per-user"),
        (TicketRecord::new(TicketReason::DenyList), "1970-01-01T00:00:00Z  refused by the deny list\n"),
        (
            TicketRecord::new(TicketReason::DenyList),
            "  document  another one, or another version, 0000000000000000",
        ),
        (TicketRecord::new(TicketReason::DenyList), "  wait      no wait helps\n"),
        (TicketRecord { rule: 1, ..refusal() }, "by the quota of a rule that the document does not have\n"),
        (
            TicketRecord { rule: TicketRecord::rule_hash("root-1"), ..refusal() },
            "refused by the quota of root-1  limits[0].rules[1]",
        ),
        (TicketRecord { unit: Span::ZERO, ..refusal() }, "100 of 100 in flight\n"),
        (
            TicketRecord { source: Some(ActorSource::Shared), actor: 0, ..refusal() },
            "actor     counted with all such requests (`missing: share`)\n",
        ),
    ] {
        let shown = text(&record, &["--actor", "ann"]);
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    let by_address = TicketRecord { source: Some(ActorSource::Address), ..refusal() };
    let shown = text(&by_address, &["--actor", "ann"]);
    assert!(shown.contains("actor     counted by ip (`missing: ip`), the given one\n"), "{shown}");
}

#[test]
fn what_is_no_ticket_of_these_keys_is_refused_without_details() {
    let ticket = sealed(&refusal());
    let forged = format!("{}A", &ticket[..103]);
    let forged = if forged == ticket { format!("{}B", &ticket[..103]) } else { forged };
    let other = TicketKey::new("a key of somebody else").seal(&refusal());
    for ticket in [forged, other, "A".repeat(104)] {
        let why = "--ticket: no key decrypts it: another key made it, or it was changed";
        assert_eq!(read(DOCUMENT, &ticket, &["--actor", "ann"]).unwrap_err(), why);
    }
    let long = "--ticket: a ticket has 104 characters, found 105";
    assert_eq!(read(DOCUMENT, &(ticket.clone() + "A"), &[]).unwrap_err(), long);
    let marks = "--ticket: a ticket has only letters, digits, `-` and `_`";
    assert_eq!(read(DOCUMENT, &ticket.replacen(&ticket[..1], "=", 1), &[]).unwrap_err(), marks);
}

#[test]
fn the_secret_may_be_in_a_file() {
    let folder = Folder::new("explain-ticket");
    let file = folder.file("secret", &format!("{SECRET}\n"));
    let without = r#"{"limits": []}"#;
    let view = read(without, &sealed(&refusal()), &["--secret-file", &file]).unwrap();
    assert_eq!((view.rule.is_none(), view.is_same_document), (true, false));
    let error = read(without, &sealed(&refusal()), &[]).unwrap_err();
    assert_eq!(
        error,
        "the document has no `tickets`: name a file with their secret, as in `--secret-file FILE`"
    );
    let short = folder.file("short", "0123456789abcde\n");
    let error = read(without, &sealed(&refusal()), &["--secret-file", &short]).unwrap_err();
    assert!(error.ends_with("has no text of at least 16 letters"), "{error}");
    let unset = r#"{"limits": [], "tickets": {"secret": {"env": "DIANA_NO_SUCH_VARIABLE"}}}"#;
    let error = read(unset, &sealed(&refusal()), &[]).unwrap_err();
    assert!(error.contains("is the variable `DIANA_NO_SUCH_VARIABLE`, which is not set here"), "{error}");
    assert!(read(unset, &sealed(&refusal()), &["--secret-file", &file]).is_ok());
}

#[test]
fn a_ticket_takes_the_place_of_a_request() {
    use clap::Parser;
    let parse = |words: &[&str]| {
        let words = [&["diana", "explain", "limits.yaml"], words].concat();
        diana_cli::Arguments::try_parse_from(words).map(drop).is_ok()
    };
    assert!(parse(&["--ticket", "-A_"]), "a ticket may begin with a dash");
    for other in [&["--url", "/"][..], &["--log", "a", "--line", "1"], &["--all"], &["--times", "2"]] {
        assert!(!parse(&[&["--ticket", "A"], other].concat()), "{other:?}");
    }
    assert!(!parse(&["--url", "/", "--actor", "ann"]));
}
