//! The pictures of the documents. `UPDATE=1` retakes them; otherwise the test looks at what they
//! show, not at their bytes, which differ between browsers.

use crate::browser::root;
use crate::palette;
use crate::view::{open, settle};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::{env, fs};

const WIDTH: u32 = 1200;
/// In bytes: a README with several pictures has to load fast.
const LARGEST: usize = 160_000;

#[test]
fn the_pictures_show_the_playground() {
    let browser = open("");
    browser.click("#tab-sliders");
    settle(&browser);
    for scheme in ["light", "dark"] {
        browser.look(WIDTH, 900, scheme);
        browser.run("scrollTo(0, 0); document.activeElement.blur()");
        let end = browser.run("return document.querySelector('#result').getBoundingClientRect().bottom");
        let height = end.as_f64().unwrap().ceil() as u32 + 12;
        assert!((700..1400).contains(&height), "{height}");
        let shown = browser.run(
            "const seen = ['#document', '.sliders', '#plot', '#result'];
             return seen.filter((selector) => {
               const box = document.querySelector(selector).getBoundingClientRect();
               return box.width > 100 && box.height > 60;
             }).length",
        );
        assert_eq!(shown, json!(4));
        let clip = json!({"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1});
        let take = || {
            let parameters = json!({"format": "png", "clip": clip, "captureBeyondViewport": true});
            let picture = browser.send("Page.captureScreenshot", parameters);
            STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
        };
        // Edges of round corners are drawn a little differently now and then.
        let twice = || Some(take()).filter(|picture| *picture == take());
        let picture = (0..20).find_map(|_| twice()).expect("a picture can be repeated");
        let small = palette::reduced(&picture);
        assert!(small.len() < LARGEST, "{} bytes", small.len());
        if env::var_os("UPDATE").is_some() {
            fs::write(root().join(format!("docs/assets/playground-{scheme}.png")), small).unwrap();
        }
    }
}
