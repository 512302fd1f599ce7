//! The pictures of the documents. `UPDATE=1` retakes them; otherwise the test looks at what they
//! show, not at their bytes, which differ between browsers.

use crate::browser::{Browser, root};
use crate::palette;
use crate::sample;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diana_replay::report::html;
use serde_json::json;
use std::{env, fs};

const WIDTH: u32 = 1200;
/// In bytes: a README with two pictures has to load fast.
const LARGEST: usize = 160_000;

#[test]
fn the_pictures_show_the_report() {
    let browser = Browser::start();
    let mut summary = sample::summary();
    // A first replay has nothing to compare with, and the picture ends with the first rule.
    summary.against = None;
    summary.clients.clear();
    for scheme in ["light", "dark"] {
        browser.look(WIDTH, 900, scheme);
        browser.open(&html(&summary));
        browser.click("#rule-1 .suggestion button");
        browser.run("scrollTo(0, 0); document.activeElement.blur()");
        // From the top to the end of the first slider's panel.
        let end =
            browser.run("return document.querySelector('#rule-1 .what-if').getBoundingClientRect().bottom");
        let height = end.as_f64().unwrap().ceil() as u32 + 12;
        assert!((1000..1900).contains(&height), "{height}");
        let shown = browser.run(
            "const end = document.querySelector('#rule-1 .what-if').getBoundingClientRect().bottom;
             const seen = ['.tiles', '#traffic', '#rules', '#rule-1 .curve', '#rule-1 .suggestion'];
             return seen.filter((selector) => {
               const box = document.querySelector(selector).getBoundingClientRect();
               return box.width > 100 && box.height > 60 && box.bottom <= end;
             }).length",
        );
        assert_eq!(shown, json!(5));
        let clip = json!({"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1});
        let take = || {
            let parameters = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
            let picture = browser.send("Page.captureScreenshot", parameters);
            STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
        };
        let picture = take();
        assert_eq!(picture, take(), "a picture can be repeated");
        let small = palette::reduced(&picture);
        assert!(small.len() < LARGEST, "{} bytes", small.len());
        if env::var_os("UPDATE").is_some() {
            let file = root().join(format!("docs/assets/replay-{scheme}.png"));
            fs::write(file, small).unwrap();
        }
    }
}
