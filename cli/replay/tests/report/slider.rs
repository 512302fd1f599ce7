//! The slider over quotas, by keyboard and by its buttons, and the readout of the timeline.

use crate::browser::Browser;
use crate::sample;
use diana_replay::report::html;
use diana_replay::summary::WhatIf;
use serde_json::{Value, json};
use thirtyfour::Key;

/// The sentence, what a screen reader says, and the place of the marker.
fn shown(browser: &Browser) -> (String, String, f64) {
    let shown = browser.run(
        "const panel = document.querySelector('#rule-1 .what-if');
         return [
           panel.querySelector('.would').innerText,
           panel.querySelector('input').getAttribute('aria-valuetext'),
           parseFloat(panel.querySelector('.requests-dot[cx$=\"%\"]').getAttribute('cx')),
         ]",
    );
    let text = |index: usize| shown[index].as_str().unwrap().replace('\u{a0}', " ");
    (text(0), text(1), shown[2].as_f64().unwrap())
}

/// A number below a million with its digits in groups.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    match digits.len() {
        0..=3 => digits,
        length => format!("{},{}", &digits[..length - 3], &digits[length - 3..]),
    }
}

/// The beginning of the sentence, from the numbers of the summary.
fn expected(point: &WhatIf) -> String {
    format!("{} per minute: this rule alone would refuse {} requests", point.rpu, grouped(point.refused))
}

#[test]
fn the_keyboard_moves_the_slider() {
    let summary = sample::summary();
    let rule = &summary.rules[0];
    let now = rule.what_if.iter().position(|point| point.rpu == rule.rpu).unwrap();
    let last = rule.what_if.len() - 1;
    let browser = Browser::start();
    browser.open(&html(&summary));
    let mut places = Vec::new();
    let moves: [(&[Key], usize); 5] = [
        (&[], now),
        (&[Key::Right], now + 1),
        (&[Key::Left, Key::Left], now - 1),
        (&[Key::Home], 0),
        (&[Key::End], last),
    ];
    for (keys, index) in moves {
        browser.press("#rule-1-slider", keys);
        let (sentence, spoken, place) = shown(&browser);
        let expected = expected(&rule.what_if[index]);
        assert!(sentence.starts_with(&expected), "{sentence}\n{expected}");
        assert!(spoken.starts_with(&expected), "{spoken}\n{expected}");
        let actors = format!("{} actors", grouped(rule.what_if[index].refused_actors));
        assert!(sentence.contains(&actors), "{sentence}\n{actors}");
        places.push((index, place));
    }
    places.sort_unstable_by_key(|(index, _)| *index);
    assert!(places.is_sorted_by(|one, next| one.1 < next.1), "{places:?}");
    // The slider of the first rule moves nothing of the second.
    let second = browser.run("return document.querySelector('#rule-2 .would').innerText");
    assert!(second.as_str().unwrap().starts_with("6 per minute"), "{second}");
}

#[test]
fn a_button_moves_the_slider() {
    let summary = sample::summary();
    let rule = &summary.rules[0];
    let browser = Browser::start();
    browser.open(&html(&summary));
    let pressed = "return [...document.querySelectorAll('#rule-1 .marks button')]
        .map((button) => button.getAttribute('aria-pressed') === 'true')";
    assert_eq!(browser.run(pressed), json!([true, false, false, false, false]));
    browser.click("#rule-1 .suggestion button");
    let suggested = rule.suggestion.as_ref().unwrap().rpu;
    let point = rule.what_if.iter().find(|point| point.rpu == suggested).unwrap();
    let (sentence, ..) = shown(&browser);
    assert!(sentence.starts_with(&expected(point)), "{sentence}");
    assert_eq!(browser.run(pressed), json!([false, false, false, false, true]));
}

#[test]
fn the_pointer_reads_the_timeline() {
    let browser = Browser::start();
    browser.open(&html(&sample::summary()));
    let readout = |share: f64| -> Value {
        browser.run(&format!(
            "const panel = document.querySelector('[data-cursor]');
             const plot = panel.querySelector('.plot');
             const {{left, top, width}} = plot.getBoundingClientRect();
             plot.dispatchEvent(new PointerEvent('pointermove', {{clientX: left + width * {share}, clientY: top + 9}}));
             return panel.querySelector('.readout').textContent"
        ))
    };
    let summary = sample::summary();
    let first = &summary.timeline.intervals[0];
    let start = readout(0.0005);
    assert!(start.as_str().unwrap().starts_with("Mon 2026-03-02 00:00: "), "{start}");
    let refused = format!("· {} refused · ", first.refused);
    assert!(start.as_str().unwrap().contains(&refused), "{start}");
    let second = readout(1.7 / 336.0);
    assert!(second.as_str().unwrap().starts_with("Mon 2026-03-02 00:30: "), "{second}");
    let end = readout(0.9995);
    assert!(end.as_str().unwrap().starts_with("Sun 2026-03-08 23:30: "), "{end}");
}
