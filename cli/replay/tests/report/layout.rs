//! The report on screens of all sizes, on paper, without the script, and in both colours.

use crate::browser::Browser;
use crate::page::hostile;
use crate::sample;
use diana_replay::report::html;
use diana_replay::summary::Summary;
use serde_json::{Value, json};

/// How far the page is wider than the window, in pixels.
const TOO_WIDE: &str = "return document.documentElement.scrollWidth - innerWidth";

#[test]
fn the_page_is_never_wider_than_the_window() {
    let browser = Browser::start();
    let quiet = Summary::default();
    for (name, summary) in [("sample", sample::summary()), ("hostile", hostile()), ("empty", quiet)] {
        let page = html(&summary);
        for width in [320, 360, 768, 1200, 2000] {
            browser.look(width, 740, "light");
            browser.open(&page);
            browser.run("for (const details of document.querySelectorAll('details')) details.open = true");
            assert_eq!(browser.run(TOO_WIDE), json!(0), "{name}, {width}");
        }
    }
}

/// A phone shows the tables without scrolling to the side.
#[test]
fn tables_fit_a_phone() {
    let browser = Browser::start();
    browser.look(360, 740, "light");
    browser.open(&html(&sample::summary()));
    let too_wide = browser.run(
        "const boxes = [...document.querySelectorAll('.scroll')].filter((box) => box.getClientRects().length);
         return boxes.filter((box) => box.scrollWidth > box.clientWidth)
           .map((box) => box.getAttribute('aria-label') + ' ' + (box.scrollWidth - box.clientWidth))",
    );
    assert_eq!(too_wide, json!([]));
}

#[test]
fn labels_of_charts_do_not_overlap() {
    let browser = Browser::start();
    browser.open(&html(&sample::summary()));
    for width in [320, 360, 768, 1200] {
        browser.look(width, 740, "light");
        let overlaps = browser.run(
            "const found = [];
             for (const plot of document.querySelectorAll('.plot')) {
               const labels = [...plot.querySelectorAll('.label')].filter((label) => label.getClientRects().length);
               const boxes = labels.map((label) => [label.textContent, label.getBoundingClientRect()]);
               const panel = plot.closest('.panel').getBoundingClientRect();
               for (const [index, [text, box]] of boxes.entries()) {
                 if (box.left < panel.left || box.right > panel.right) found.push(text + ' leaves its panel');
                 for (const [other, beside] of boxes.slice(index + 1)) {
                   const apart = box.right <= beside.left || beside.right <= box.left
                     || box.bottom <= beside.top + 2 || beside.bottom <= box.top + 2;
                   if (!apart) found.push(text + ' | ' + other);
                 }
               }
             }
             return found",
        );
        assert_eq!(overlaps, json!([]), "{width}");
    }
}

#[test]
fn the_switch_wins_over_the_system() {
    let browser = Browser::start();
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let (light, dark) = (json!("rgb(246, 247, 249)"), json!("rgb(14, 17, 22)"));
    browser.look(1200, 900, "dark");
    browser.open(&html(&sample::summary()));
    assert_eq!(browser.run(ground), dark);
    browser.click("#theme-light + label");
    assert_eq!(browser.run(ground), light);
    browser.press("#theme-light", &[thirtyfour::Key::Right]);
    browser.look(1200, 900, "light");
    assert_eq!(browser.run(ground), dark, "the arrow keys choose, too");
}

#[test]
fn paper_is_light_and_has_all_numbers() {
    let browser = Browser::start();
    // An A4 page between its margins.
    browser.look(718, 1000, "dark");
    browser.open(&html(&sample::summary()));
    browser.media("print", &[("prefers-color-scheme", "dark")]);
    let print = browser.run(
        "const shown = (selector) => document.querySelector(selector).getClientRects().length > 0;
         const scroll = document.querySelector('.actors').closest('.scroll');
         return [
           getComputedStyle(document.querySelector('.panel')).backgroundColor,
           shown('.theme'), shown('.sections'), shown('.slider'), shown('.would'),
           document.querySelector('.what-if .numbers td').checkVisibility({contentVisibilityAuto: true}),
           scroll.scrollHeight - scroll.clientHeight,
         ]",
    );
    assert_eq!(print, json!(["rgb(255, 255, 255)", false, false, false, true, true, 0]));
    assert_eq!(browser.run(TOO_WIDE), json!(0));
    let paper = browser.send("Page.printToPDF", json!({"printBackground": true}));
    assert!(paper["data"].as_str().unwrap().starts_with("JVBERi0"), "a PDF begins with `%PDF-`");
}

#[test]
fn without_the_script_the_numbers_are_there() {
    let browser = Browser::start();
    browser.send("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&html(&sample::summary()));
    let found = browser.resolved(
        "[document.querySelector('.slider').getClientRects().length,
          document.querySelector('.what-if .numbers td').checkVisibility(),
          document.querySelector('.what-if .numbers td').getBoundingClientRect().height > 5,
          document.querySelectorAll('.marks button').length]",
    );
    assert_eq!(found, json!([0, true, true, 0]));
    let sentence = browser.resolved("document.querySelector('#rule-1 .would').innerText");
    assert!(
        sentence
            .as_str()
            .unwrap()
            .starts_with("120 per minute: this rule alone would refuse 56,879 requests"),
        "{sentence}"
    );
}

#[test]
fn motion_is_only_for_those_who_want_it() {
    let browser = Browser::start();
    browser.open(&html(&sample::summary()));
    let motion = |wish: &str| -> Value {
        browser.media("screen", &[("prefers-reduced-motion", wish)]);
        browser.run(
            "return [getComputedStyle(document.documentElement).scrollBehavior,
                     getComputedStyle(document.querySelector('.theme label')).transitionDuration]",
        )
    };
    assert_eq!(motion("reduce"), json!(["auto", "0s"]));
    assert_ne!(motion("no-preference"), json!(["auto", "0s"]));
}
