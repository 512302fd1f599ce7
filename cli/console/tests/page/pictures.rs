//! The pictures of the documents. `UPDATE=1` retakes them; otherwise the test looks at what they
//! show, not at their bytes, which differ between browsers.

use crate::browser::root;
use crate::palette;
use crate::running::Running;
use crate::sample;
use crate::view::{open, until};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::{env, fs};

const WIDTH: u32 = 1200;
/// In bytes: a README with several pictures has to load fast.
const LARGEST: usize = 160_000;

#[test]
fn the_pictures_show_the_console() {
    let gateways = sample::gateways();
    let urls = gateways.each_ref().map(|gateway| gateway.url());
    let console = Running::start(&urls.each_ref().map(|url| &**url));
    let browser = open(&console);
    browser.write("#actor-value", "mallory");
    browser.click("#search .main");
    until(&browser, "document.querySelectorAll('#found-rows tr').length === 3");
    until(&browser, "document.querySelectorAll('#top-rows tr').length === 4");
    // Ports and ages differ from run to run, so the page stands still under names of an example.
    let names = gateways.each_ref().map(|gateway| gateway.name());
    browser.run(&format!(
        "document.hidden || Object.defineProperty(document, 'hidden', {{value: true}});
         const names = {};
         const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
         while (texts.nextNode()) {{
           const node = texts.currentNode;
           names.forEach((name, at) => {{ node.data = node.data.replaceAll(name, 'gateway-' + (at + 1)); }});
           node.data = node.data.replace(/Since [^.]*\\./, 'Since 12:15:00 UTC.');
           node.data = node.data.replace(/its last answer is .* old|it has not answered yet/, 'it has not answered yet');
         }}",
        json!(names)
    ));
    for scheme in ["light", "dark"] {
        browser.look(WIDTH, 900, scheme);
        browser.run("scrollTo(0, 0); document.activeElement.blur()");
        let end = browser.run("return document.querySelector('#actor').getBoundingClientRect().bottom");
        let height = end.as_f64().unwrap().ceil() as u32 + 12;
        assert!((1000..2200).contains(&height), "{height}");
        let shown = browser.run(
            "const seen = ['.tiles', '#chart', '#rule-rows', '#gateway-rows', '#top-rows', '#found-rows'];
             return seen.filter((selector) => {
               const box = document.querySelector(selector).getBoundingClientRect();
               return box.width > 100 && box.height > 60;
             }).length",
        );
        assert_eq!(shown, json!(6));
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
            fs::write(root().join(format!("docs/assets/console-{scheme}.png")), small).unwrap();
        }
    }
}
