//! The messages and hints about mistakes that users make often.

use diana_cli::check::report::{Fleet, Report};
use diana_cli::source::content::File;

/// `LINE: MESSAGE | HINT` of each finding in a YAML text.
fn found(text: &str) -> Vec<String> {
    let report = Report::of(File::new("a.yaml", text), Fleet::default());
    let shown = report.findings.iter().map(|finding| {
        let line = report.file.position(finding.range.start).line;
        format!("{line}: {} | {}", finding.message, finding.hint.as_deref().unwrap_or_default())
    });
    shown.collect()
}

/// The findings in a rule.
fn of_rule(rule: &str) -> Vec<String> {
    found(&format!("limits:\n  - url: /\n    rules:\n      - {{{rule}}}\n"))
}

#[test]
fn a_number_that_is_too_large_is_called_so() {
    let large =
        ["4: `5000000000` is larger than the largest value allowed, 1000000000 | write at most 1000000000"];
    assert_eq!(of_rule("rpu: 5000000000, unit: day"), large);
    assert_eq!(of_rule("rpu: '5000000000', unit: day"), large);
    assert!(of_rule("rpu: '50', unit: day")[0].ends_with("| leave out its quotes"));
}

#[test]
fn other_spellings_of_a_quota_have_hints() {
    let hint = |rule: &str| of_rule(rule).last().unwrap().split_once(" | ").unwrap().1.to_string();
    assert_eq!(of_rule("rpu: 1, unit: mins"), [""; 0]);
    let no_unit = "leave `unit` out, or write another `algo` to limit requests per unit; `max_hold` is";
    for unit in ["second", "30s", "60"] {
        assert!(hint(&format!("algo: C, rpu: 1, unit: {unit}")).starts_with(no_unit));
    }
    assert_eq!(hint("rpu: 1, unit: 60"), "write the unit as a span: `60s`");
    assert_eq!(hint("rpu: 100/minute"), "write `rpu: 100, unit: minute`");
    assert_eq!(
        hint("actor: header x-api-key, rpu: 1, unit: day"),
        "write `actor: x-api-key` and declare `actors: {x-api-key: {header: x-api-key}}`"
    );
    assert_eq!(hint("rpu: 1, unit:day"), "write a space after the colon of `unit`");
    assert_eq!(hint("rpu: '{{ .Values.rpu }}', unit: day"), "a template? render it first (`helm template`)");
}

#[test]
fn a_unit_in_a_capital_letter_has_a_hint() {
    let month = "a month is `unit: month` of `algo: W`, and `M` is a million in sizes";
    assert_eq!(of_rule("rpu: 1, unit: M"), [format!("4: unknown unit `M` | write `unit: minute`; {month}")]);
    let hint = |unit: &str| {
        of_rule(&format!("rpu: 1, unit: {unit}")).last().unwrap().split_once(" | ").unwrap().1.to_owned()
    };
    assert_eq!(hint("5M"), format!("write `unit: 5m`; {month}"));
    assert_eq!(hint("Month"), "write `algo: W`");
    assert_eq!(hint("D"), "write `unit: day`");
    assert_eq!(hint("S"), "write `unit: second`");
    assert_eq!(of_rule("rpu: 1, unit: m"), [""; 0]);
}

#[test]
fn names_that_are_nearly_right_have_hints() {
    let rule = "{actor: api-key, rpu: 1, unit: day}";
    let found = |actors: &str| found(&format!("limits:\n  - {{url: /, rules: [{rule}]}}\n{actors}"));
    assert_eq!(
        found("actors: {apikey: {header: x-api-key}}\n"),
        ["2: unknown actor `api-key` | did you mean `apikey`?"]
    );
    assert_eq!(
        found(""),
        [
            "2: unknown actor `api-key` | write `actor: api-key` and declare `actors: {api-key: {header: api-key}}`"
        ]
    );
    let found = self::found("limits: []\nplans: {header: x-plan}\n");
    assert_eq!(
        found,
        [
            "2: unknown key `plans` | did you mean `plan`, which says where a request shows its plan? `plans` with the \
          quotas belongs to a rule in `rules`"
        ]
    );
}

#[test]
fn a_name_that_two_rules_have_is_found_at_both() {
    let rule = "      - {name: a, rpu: 1, unit: day}\n";
    let limit = |url: &str| format!("  - url: {url}\n    rules:\n{rule}");
    let text = format!("limits:\n{}{}", limit("/a"), limit("/b"));
    assert_eq!(found(&text), ["7: the rule in line 4 has the name `a` already | "]);
    let json = r#"{"url": "/", "rules": [{"name": "a", "rpu": 1, "unit": "day"},
        {"name": "a", "rpu": 2, "unit": "day"}]}"#;
    assert_eq!(found(json), ["2: the rule in line 1 has the name `a` already | "]);
}

#[test]
fn what_is_no_yaml_is_explained_at_its_cause() {
    let limit = |lines: &str| found(&format!("limits:\n  - url: /\n{lines}\n"));
    for (lines, expected) in [
        ("    rules:\n      -actor: ip\n        rpu: 1", "4: no space after `-` | write a space after `-`"),
        ("    rules\n      - {actor: ip}", "3: no colon after `rules` | write `rules:`"),
        (
            "    rules:\n      - {actor: ip\n      - {actor: ip}",
            "4: `{` is not closed in this line | write `}` at the end of the line",
        ),
        ("    hosts: \"a\n    rules: []", "3: the quote is not closed | write \" at the end of the value"),
        ("    hosts: *\n    rules: []", "3: no plain text begins with `*` | put it in quotes"),
        ("    hosts: a: b\n    rules: []", "3: a value with a colon and a space | put it in quotes"),
        ("    rules: [{actor: ip rpu: 1}]", "3: no comma before `rpu` | write a comma"),
        ("    rules:\n      - {actor: ip},", "4: a comma after a value | remove the comma"),
        ("    hosts: \"\\d\"", "3: `\\d` is no escape in double quotes | write single quotes"),
        ("   rules: []", "3: an indentation of 3 spaces continues no line above | write 4, as in line 2"),
        ("    rules: []]", "3: a bracket closes nothing | remove the bracket"),
        ("    hosts: \"a\" b", "3: text follows the closing quote | put the whole value in quotes"),
    ] {
        let expected = expected.replacen(": ", ": not valid YAML: ", 1);
        assert_eq!(limit(lines), [expected], "{lines}");
    }
}

#[test]
fn lists_and_objects_that_are_confused_have_hints() {
    let rule = "{rpu: 1, unit: day}";
    let found = |text: &str| found(&text.replace("RULE", rule));
    assert_eq!(
        found("limits:\n  url: /\n  rules:\n    - RULE\n"),
        ["1: expected a list, found an object | missing `- `? write `- ` before `url`"]
    );
    assert_eq!(
        found("limits:\n  - url: /\n    rules: RULE\n"),
        ["3: expected a list, found an object | missing `- `? write `- ` before `rpu`"]
    );
    assert_eq!(
        found("limits:\n  - url: /\n    rules:\n      -name: a\n"),
        ["3: expected a list, found an object | write a space between `-` and `name`"]
    );
    assert_eq!(
        found("limits:\n  - url: [/api, ^/v2, /api/]\n    rules: [RULE]\n"),
        [
            "2: a pattern begins with `/` or `=/`, found `^/v2` | write `/v2`, and narrow it by \
          `property: {request.url_path: {regex: …}}`, which compares the path as it was sent: `%61` is no `a` there",
            "2: another url of the limit matches the same paths: leave this out | "
        ]
    );
}

#[test]
fn a_file_of_another_program_is_no_document() {
    let [finding] = &found("a: 1\nb: {c: 2}\n")[..] else { panic!("one finding") };
    assert!(finding.starts_with("1: no Diana document: "), "{finding}");
    assert_eq!(found("a: 1\nmode: shadow\n").len(), 2, "`limits` is missing, and `a` is unknown");
    assert!(found("limts: 1\n").iter().all(|finding| !finding.contains("no Diana document")));
    assert_eq!(found("{}\n"), ["1: `limits` is missing | "]);
}

#[test]
fn indentation_is_named() {
    let rules = |text: &str| found(&text.replace("RULE", "{rpu: 1, unit: day}"));
    assert_eq!(
        rules("limits:\n  - url: /\n\t  rules: [RULE]\n"),
        ["3: not valid YAML: a tab in the indentation: YAML indents by spaces | write spaces instead"]
    );
    let shown = rules("limits:\n  - url: /\n\u{a0}\u{a0}  rules: [RULE]\n");
    assert_eq!(
        shown.last().unwrap(),
        "3: a no-break space (U+00A0) stands before `rules` | YAML indents by spaces: write spaces instead"
    );
    assert_eq!(
        found("limits:\n  - url: /\n    rules:\n      - actor:user\n        rpu: 1\n"),
        ["4: not valid YAML: no space after the colon of `actor` | write a space after the colon"]
    );
    assert_eq!(
        found("limits:\n  - url: /\n    rules: [{rpu: {{ .Values.rpu }}, unit: day}]\n"),
        ["3: not valid YAML: `{{` begins no value | a template? render it first (`helm template`)"]
    );
}

#[test]
fn other_spellings_of_a_typed_segment_are_counted_or_there_is_a_warning() {
    let check = |urls: &[&str]| {
        let limit = |(at, url): (usize, &&str)| {
            "  - {url: URL, rules: [{actor: ip, rpu: RPU, unit: day}]}\n"
                .replace("URL", url)
                .replace("RPU", &(at + 1).to_string())
        };
        found(&format!("limits:\n{}", urls.iter().enumerate().map(limit).collect::<String>()))
    };
    let warning = "2: `+7`, `007` and `%207` are numbers to many backends, and evade the limit | \
                   add a limit on `/product/*`, which counts them";
    for alone in [
        &["\"/product/{id:int}\""][..],
        &["\"/product/{id:int}\"", "/product/list"],
        &["\"/product/{id:int}\"", "/"],
        &["\"/product/{id:int}\"", "/product/*, methods: GET"],
    ] {
        assert_eq!(check(alone).first().map(String::as_str), Some(warning), "{alone:?}");
    }
    for counted in ["/product/*", "\"/{a}/{b}\"", "[/a, \"/product/{slug}\"]"] {
        assert_eq!(check(&["\"/product/{id:int}\"", counted]), [""; 0], "{counted}");
    }
    let uuid = "2: 32 digits without hyphens are a UUID to many backends, and evade the limit | \
                add a limit on `=/*/x`, which counts them";
    assert_eq!(check(&["\"=/{id:uuid}/x\""]), [uuid]);
    assert_eq!(check(&["\"/{slug:[a-z]+}\""]), [""; 0]);
}
