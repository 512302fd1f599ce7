//! The HTML report of a replay, as text. `tests/report` looks at the report in a browser.

use crate::sample;
use diana_replay::report::html;
use diana_replay::summary::Summary;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn the_page_depends_on_the_summary_alone() {
    assert_eq!(html(&sample::summary()), html(&sample::summary()));
}

#[test]
fn the_page_names_no_other_file() {
    let page = html(&sample::summary());
    for reference in ["http:", "https:", "src=", "@import", "data:", "<link", "style=\"", " onclick"] {
        assert!(!page.contains(reference), "{reference}");
    }
    let inner = page.matches("url(\"#").count();
    assert_eq!(page.matches("url(").count(), inner, "only patterns of the page itself");
    assert_eq!(page.matches("href=\"").count(), page.matches("href=\"#").count());
}

#[test]
fn the_page_has_the_numbers_of_the_summary() {
    let summary = sample::summary();
    let page = html(&summary).replace('\u{a0}', " ");
    let expected = [
        "<h1><bdi>policy.yaml</bdi></h1>",
        "2026-03-02 00:00:00",
        "2026-03-08 23:59:59",
        "1,204,332",
        "99.9 % of the 18,300 actors have at most ",
        "policy-stricter.yaml",
        "the line ends within the quoted request",
        "The log has no header </bdi><code><bdi>x-trial</bdi></code>",
        "addresses of clients",
    ];
    for text in expected {
        assert!(page.contains(text), "{text}");
    }
    for rule in &summary.rules {
        for actor in &rule.top {
            assert!(page.contains(&format!("<bdi>{}</bdi>", actor.actor)), "{}", actor.actor);
        }
    }
}

/// The texts of the elements, with single spaces between them.
fn text(page: &str) -> String {
    let body = page.split("<body>").nth(1).unwrap().split("<script>").next().unwrap();
    let parts = body.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let words: Vec<_> = parts.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

#[test]
fn numbers_stand_beside_their_names() {
    let text = text(&html(&sample::summary()));
    let expected = [
        "Requests 1,204,332 1.99 per second Admitted at once 1,123,245 93.3 % Delayed 18,906 1.6 %",
        "Refused 62,181 5.2 % Refused in shadow 3,231 0.27 % Status 429 in the log 0 0 %",
        "per-address /api/ 56,879 120 per minute 5.2 % 310 per minute 0 1,088,410 29 of 18,300 Most refusals",
        "per-user-hourly shadow /api/ 0 3,000 per hour 0 % 3,600 per hour 3,231 1,088,410 7 of 7,910",
        "Delayed 18,906 at most 950 ms First refusal 2026-03-0",
        "120 per minute : this rule alone would refuse 56,879 requests ( 5.2 % ), 29 actors ( 0.16 % )",
        "120 per minute 56,879 5.2 % 29 0.16 %",
        "Quota now 120 per minute Lowest that refuses nothing 940 per minute",
        "Lowest that refuses up to 0.1 % 720 per minute Lowest that refuses up to 1 % 436 per minute",
        "203.0.113.4 8,962 6,846 940 4 Mar 15:05:59 4 Mar 14:32:44 4 Mar 15:38:08",
        "50 % 11 within the quota 90 % 26 within the quota 99 % 48 within the quota 99.9 % 254 above the quota and the burst",
        "Refused by both 60,937 73.5 % of the requests that either document refuses",
        "Newly refused 1,244 1.5 %",
        "Newly admitted 20,732 25.0 %",
        "Refused 62,181 81,669 −19,488 Refused in shadow 3,231 22,181 −18,950",
        "per-address 120 per minute 72 per minute 56,879 73,499",
        "Lines 1,204,346 Unreadable lines 14 < 0.01 % of the lines Logged too late 212",
        "edge-2/access.log.gz 4,417 - is no time",
    ];
    let missing: Vec<_> =
        expected.into_iter().filter(|part| !text.contains(&part.replace('<', "&lt;"))).collect();
    assert!(missing.is_empty(), "{missing:#?}\n{text}");
}

/// The rows of the timeline's table are the intervals, in order.
#[test]
fn the_tables_behind_the_charts_have_all_numbers() {
    let summary = sample::summary();
    let text = text(&html(&summary)).replace(',', "");
    let timeline = &summary.timeline;
    let busiest = timeline.intervals.iter().max_by_key(|interval| interval.refused).unwrap();
    let row = format!(" {} {} {} ", busiest.requests, busiest.refused, busiest.delayed);
    assert!(text.contains(&row), "{row}");
    let hour = summary.hours.iter().max_by_key(|hour| hour.requests).unwrap();
    assert!(text.contains(&format!("{} / {}", hour.requests, hour.refused)));
    assert_eq!(text.matches(" / ").count(), 7 * 24);
    for point in &summary.rules[0].what_if {
        assert!(text.contains(&format!("{} per minute {} ", point.rpu, point.refused)), "{point:?}");
    }
}

#[test]
fn a_short_log_has_no_hours_of_the_week_and_a_longer_one_only_its_weekdays() {
    let mut summary = sample::summary();
    summary.log.last_s = summary.log.first_s + 11_520.0;
    let short = html(&summary).replace('\u{a0}', " ");
    assert!(!short.contains("heat-requests") && !short.contains("Hours of the week"));
    assert!(short.contains("The log covers 3 h 12 min, less than a day"));
    summary.log.last_s = summary.log.first_s + 100_000.0;
    let two_days = html(&summary);
    assert_eq!(two_days.matches("class=\"shade-").count(), 2 * (2 * 24 + 7), "two days, and the legend");
    let table = two_days.split("Hours as a table").nth(2).unwrap().split("</table>").next().unwrap();
    assert!(table.contains("Mon") && table.contains("Tue") && !table.contains("Wed"));
}

#[test]
fn whole_seconds_are_stated_above_all_numbers() {
    let mut summary = sample::summary();
    let words = "All times in the log are whole seconds: bursts look larger or smaller than they were";
    assert!(!html(&summary).contains(words));
    summary.log.whole_seconds = true;
    let page = html(&summary);
    let (above, numbers) = page.split_once("id=\"comparison\"").unwrap();
    assert!(above.contains(words) && !numbers.contains(words));
}

#[test]
fn quotas_that_the_log_does_not_show_are_left_out() {
    let mut summary = sample::summary();
    let doubt =
        "The log does not show what other quotas of this rule would refuse: it covers only 1 min, less";
    let lowest = "Lowest that refuses nothing";
    let rules = text(&html(&summary)).matches(lowest).count();
    assert!(!text(&html(&summary)).contains(doubt));
    summary.rules[0].unit_s = 61.0;
    summary.log.last_s = summary.log.first_s + 60.0;
    summary.rules.truncate(1);
    let page = text(&html(&summary));
    assert!(rules > 0 && !page.contains(lowest) && page.matches(doubt).count() == 2, "{page}");
}

#[test]
fn an_address_in_place_of_an_actor_is_marked() {
    let mut summary = sample::summary();
    let words = "Requests without the actor count by address";
    assert!(!html(&summary).contains(words));
    summary.rules[1].top[3].is_address = true;
    let page = html(&summary);
    assert!(page.contains(words));
    let mark = "</bdi></code> <span class=\"badge\">address</span></th>";
    assert_eq!(page.matches(mark).count(), 1);
}

#[test]
fn a_suggestion_says_what_it_lacks() {
    let mut summary = sample::summary();
    let suggestion = summary.rules[0].suggestion.as_mut().unwrap();
    suggestion.caveat = Some("The log covers only 3 s, less than a day.".to_owned());
    suggestion.burst = Some(77);
    let page = text(&html(&summary));
    assert!(
        page.contains("Burst 77 The log covers only 3 s, less than a day. 99.9 % of the 18,300 actors"),
        "{page}"
    );
}

#[test]
fn a_suggestion_that_is_no_improvement_is_marked_where_it_stands() {
    let mut summary = sample::summary();
    assert!(!html(&summary).contains("no improvement"));
    let words = "This is lower than the quota now, which refuses nothing.";
    summary.rules[0].suggestion.as_mut().unwrap().compared = Some(words.to_owned());
    let page = text(&html(&summary));
    assert!(page.contains("310 per minute no improvement") && page.contains(words), "{page}");
}

#[test]
fn one_actor_is_no_actors() {
    let mut summary = sample::summary();
    let rpu = summary.rules[0].rpu;
    let now = summary.rules[0].what_if.iter_mut().find(|point| point.rpu == rpu).unwrap();
    (now.refused, now.refused_actors) = (1, 1);
    let page = text(&html(&summary));
    assert!(
        page.contains("this rule alone would refuse 1 request (") && page.contains("), 1 actor ("),
        "{page}"
    );
}

#[test]
fn a_burst_stays_while_the_slider_moves() {
    let mut summary = sample::summary();
    assert!(!html(&summary).contains("The burst stays"));
    summary.rules[0].burst = Some(7);
    let page = html(&summary);
    assert_eq!(page.matches(". The burst stays 7<").count(), 1);
    assert!(page.contains("The bucket never admits more than 7 requests at once."));
}

#[test]
fn a_rule_that_refuses_all_has_no_quotas_to_consider() {
    let mut summary = sample::summary();
    summary.rules.truncate(1);
    assert!(html(&summary).contains("Quotas to consider"));
    summary.rules[0].rpu = 0;
    assert!(!html(&summary).contains("Quotas to consider"));
}

#[test]
fn a_section_without_numbers_is_left_out() {
    let page = html(&Summary::default());
    assert!(page.contains("The document has no rules.") && page.contains("No requests."));
    assert!(!page.contains("id=\"comparison\""));
    let full = html(&sample::summary());
    assert!(full.contains("id=\"comparison\"") && full.contains("id=\"rule-4\""));
}

/// All ids are different, and every reference has its id.
#[test]
fn references_lead_to_ids() {
    let page = html(&sample::summary());
    let values = |name: &str| -> Vec<String> {
        let start = format!(" {name}=\"");
        let parts = page.split(&start).skip(1);
        parts.map(|part| part.split('"').next().unwrap().to_owned()).collect()
    };
    let ids = values("id");
    let mut different = ids.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), ids.len());
    let labels = ["aria-labelledby", "for"].into_iter().flat_map(values);
    let labels: Vec<_> =
        labels.flat_map(|ids| ids.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let links = values("href").into_iter().map(|link| link.trim_start_matches('#').to_owned());
    for reference in labels.into_iter().chain(links) {
        assert!(ids.contains(&reference), "{reference}");
    }
}

#[test]
fn the_sample_agrees_with_itself() {
    let summary = sample::summary();
    let sum = |of: fn(&diana_replay::summary::Interval) -> u64| -> u64 {
        summary.timeline.intervals.iter().map(of).sum()
    };
    let totals = summary.totals;
    assert_eq!(sum(|interval| interval.requests), totals.requests);
    assert_eq!(sum(|interval| interval.refused), totals.refused);
    assert_eq!(sum(|interval| interval.delayed), totals.delayed);
    assert_eq!(totals.admitted + totals.refused + totals.delayed, totals.requests);
    assert_eq!((summary.rules.len(), summary.rules[0].top.len()), (4, 50));
    for rule in &summary.rules {
        assert_eq!(rule.refusals.iter().sum::<u64>(), rule.refused, "{}", rule.name);
        assert!(rule.what_if.is_sorted_by(|one, next| one.rpu < next.rpu && one.refused >= next.refused));
        assert!(rule.what_if.iter().all(|point| point.refused < rule.checked), "{}", rule.name);
    }
}

#[test]
fn the_pictures_of_the_documents_are_small() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/assets");
    for scheme in ["light", "dark"] {
        let bytes = fs::read(assets.join(format!("replay-{scheme}.png"))).unwrap();
        assert_eq!(&bytes[12..16], b"IHDR");
        assert_eq!(u32::from_be_bytes(bytes[16..20].try_into().unwrap()), 1200, "pixels wide");
        assert!(bytes.len() <= 150_000, "{}", bytes.len());
    }
}

/// Numbers that no log has, in all places, and lists that do not fit together.
fn changed(value: &mut Value, draw: &mut impl FnMut() -> u8) {
    match value {
        Value::Number(number) => {
            let extreme = match draw() % 8 {
                0 => json!(0),
                1 => json!(1),
                // Lists of numbers of the type `u64` have no fractions and no negative numbers.
                2 if number.is_f64() => json!(-1e300),
                3 if number.is_f64() => json!(1e300),
                4 if number.as_u64().is_none_or(|number| number > 23) => json!(u64::MAX),
                _ => return,
            };
            *value = extreme;
        }
        Value::Array(values) => {
            let length = match draw() % 6 {
                0 => 0,
                1 => 1,
                _ => 9,
            };
            values.truncate(length);
            values.iter_mut().for_each(|value| changed(value, draw));
        }
        Value::Object(fields) => fields.values_mut().for_each(|value| changed(value, draw)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_summary_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 64)) {
        let mut value = serde_json::to_value(sample::summary()).unwrap();
        let mut cycle = bytes.iter().cycle().copied();
        changed(&mut value, &mut || cycle.next().unwrap());
        let summary: Summary = serde_json::from_value(value).unwrap();
        let page = html(&summary);
        prop_assert!(page.ends_with("</html>"));
        // `NaN` and infinity are no places in a chart.
        for wrong in ["NaN", "inf%", "=\"inf", "-inf"] {
            prop_assert!(!page.contains(wrong), "{}", wrong);
        }
    }
}
