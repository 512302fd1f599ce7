//! Can everybody use the page? axe-core's rules, the keyboard, a phone, and both colours.

use crate::axe::violations;
use crate::browser::Browser;
use crate::view::{open, put, settle, text, until};
use serde_json::{Value, json};
use thirtyfour::Key;

const LOOKS: [(u32, u32, &str); 4] =
    [(1200, 900, "light"), (1200, 900, "dark"), (360, 740, "light"), (360, 740, "dark")];

/// A page with an error, a warning, a case that fails, and all numbers.
fn full() -> Browser {
    let browser = open("");
    browser.run("document.getElementById('plot-numbers').open = true");
    put(
        &browser,
        "cases",
        "cases:\n  - {name: right, requests: [{url: /, expect: pass}]}\n  - {name: wrong, requests: [{url: /, expect: refused}]}\n",
    );
    browser.run("document.querySelector('#case-list details').open = true");
    browser
}

#[test]
fn axe_finds_nothing() {
    let browser = full();
    let examine = |what: &str| {
        for (width, height, scheme) in LOOKS {
            browser.look(width, height, scheme);
            let (found, passes) = violations(&browser);
            assert!(found.is_empty(), "{what}, {width} {scheme}:\n  {}", found.join("\n  "));
            assert!(passes > 20, "axe-core has tried {passes} rules");
            let overflow = browser.run("return document.documentElement.scrollWidth - innerWidth");
            assert_eq!(overflow, json!(0), "{what}: the page is wider than {width}");
        }
    };
    examine("script");
    browser.click("#tab-sliders");
    settle(&browser);
    examine("sliders");
    browser.click("#request-rows button");
    until(&browser, "document.getElementById('explained').open");
    examine("explanation");
    browser.press("#explanation", &[Key::Escape]);
    browser.click("#tab-log");
    browser.click("#sample");
    until(&browser, "document.getElementById('replayed').textContent.includes('would')");
    examine("log");
    browser.click("#tab-script");
    put(
        &browser,
        "document",
        "limits:\n  - url: /\n    rules:\n      - {actor: ip, rpuu: 5, unit: second}\n",
    );
    browser.click("#copy");
    until(&browser, "document.getElementById('copied').textContent !== ''");
    examine("findings");
    // The test can fail.
    browser.run("document.querySelector('label[for=recipe]').remove(); document.documentElement.removeAttribute('lang')");
    assert!(violations(&browser).0.len() >= 2);
}

#[test]
fn the_keyboard_is_enough() {
    let browser = open("");
    // Tab leaves the field.
    browser.press("#document", &[Key::Tab]);
    let focus = |browser: &Browser| browser.run("return document.activeElement.id");
    assert_ne!(focus(&browser), json!("document"));
    assert!(
        !browser.run("return document.getElementById('document').value").as_str().unwrap().contains('\t')
    );
    browser.press("#tab-script", &[Key::Right]);
    assert_eq!(focus(&browser), json!("tab-sliders"));
    settle(&browser);
    browser.press("#tab-sliders", &[Key::End]);
    assert_eq!(focus(&browser), json!("tab-log"));
    browser.press("#tab-log", &[Key::Left]);
    settle(&browser);
    assert_eq!(browser.run("return document.getElementById('panel-sliders').hidden"), json!(false));
    let before = text(&browser, "#outcome");
    browser.press("#rate", &[Key::Right, Key::Right]);
    settle(&browser);
    assert_ne!(text(&browser, "#outcome"), before);
    browser.press("#request-rows button", &[Key::Enter]);
    until(&browser, "document.getElementById('explained').open");
    browser.press("#explanation", &[Key::Escape]);
    until(&browser, "!document.getElementById('explained').open");
    assert_eq!(browser.run("return document.activeElement.textContent"), json!("Explain"));
    put(&browser, "document", "limits: [{url: /, rulez: 1}]");
    browser.press("#findings button", &[Key::Enter]);
    assert_eq!(focus(&browser), json!("document"));
}

#[test]
fn the_focus_is_visible() {
    let browser = full();
    for selector in [
        ".skip",
        "#recipe",
        "#copy",
        "#document",
        "#tab-script",
        "#cases",
        "#case-list summary",
        "#case-list pre",
        "#case",
        "#plot-numbers summary",
        "#show",
        "footer a",
    ] {
        // The focus of a script is visible if the last input was a key.
        browser.press("body", &[Key::Shift]);
        let outline = browser.run(&format!(
            "const element = document.querySelector({selector:?});
             element.focus();
             const {{outlineStyle, outlineWidth}} = getComputedStyle(element);
             return document.activeElement === element && outlineStyle + outlineWidth"
        ));
        assert_eq!(outline, Value::from("solid2px"), "{selector}");
    }
}

#[test]
fn no_screen_is_too_small() {
    let browser = full();
    for tab in ["script", "sliders", "log"] {
        browser.click(&format!("#tab-{tab}"));
        settle(&browser);
        for width in [320, 360, 768, 1200, 2000] {
            browser.look(width, 740, "light");
            let overflow = browser.run("return document.documentElement.scrollWidth - innerWidth");
            assert_eq!(overflow, json!(0), "{tab}, {width}");
        }
    }
}

#[test]
fn the_colours_follow_the_system_and_the_switch() {
    let browser = open("");
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let (light, dark) = (json!("rgb(246, 247, 249)"), json!("rgb(14, 17, 22)"));
    browser.look(1200, 900, "dark");
    assert_eq!(browser.run(ground), dark);
    browser.click("#theme-light + label");
    assert_eq!(browser.run(ground), light);
    browser.click("#theme-dark + label");
    browser.look(1200, 900, "light");
    assert_eq!(browser.run(ground), dark);
}
