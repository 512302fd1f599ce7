//! Can everybody read the report? axe-core's rules, the contrast of the charts, which axe-core does
//! not look at, and the focus.

use crate::axe::violations;
use crate::browser::Browser;
use crate::sample;
use diana_replay::report::html;
use serde_json::Value;

const LOOKS: [(u32, u32, &str); 4] =
    [(1200, 900, "light"), (1200, 900, "dark"), (360, 740, "light"), (360, 740, "dark")];

#[test]
fn axe_finds_nothing() {
    let browser = Browser::start();
    for (width, height, scheme) in LOOKS {
        browser.look(width, height, scheme);
        browser.open(&html(&sample::summary()));
        // axe-core also examines the folded tables, but only once, because the tables are long.
        if (width, scheme) == (1200, "light") {
            browser.run("for (const details of document.querySelectorAll('details')) details.open = true");
        }
        let (violations, passes) = violations(&browser);
        assert!(violations.is_empty(), "{width} {scheme}:\n  {}", violations.join("\n  "));
        assert!(passes > 20, "axe-core has tried {passes} rules");
    }
}

#[test]
fn axe_would_find_a_mistake() {
    let browser = Browser::start();
    let page = html(&sample::summary());
    browser.open(&page.replacen("<label for=\"theme-dark\">", "<label>", 1).replace("lang=\"en\"", ""));
    let (violations, _) = violations(&browser);
    assert_eq!(violations.len(), 2, "{violations:#?}");
}

/// Relative luminance and contrast as WCAG 2.2 defines them.
const CONTRAST: &str = "
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const luminance = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const style = (selector) => getComputedStyle(document.querySelector(selector));
  const panel = style('.panel').backgroundColor;
";

#[test]
fn the_charts_have_contrast() {
    let browser = Browser::start();
    for (_, _, scheme) in &LOOKS[..2] {
        browser.look(1200, 900, scheme);
        browser.open(&html(&sample::summary()));
        let contrasts = browser.run(&format!(
            "{CONTRAST} return {{
               requests: contrast(style('path.requests').stroke, panel),
               refused: contrast(style('path.refused').fill, panel),
               delayed: contrast(style('.hatch-line').fill, panel),
               curve: contrast(style('.curve .requests-line').stroke, panel),
               actors: contrast(style('.curve .actors-line').stroke, panel),
               label: contrast(style('.plot .label').fill, panel) - 1.5,
               axis: contrast(style('.axis').stroke, panel),
               shade: contrast(style('.refusals .shade-6').fill, panel),
             }}"
        ));
        for (what, contrast) in contrasts.as_object().unwrap() {
            assert!(contrast.as_f64().unwrap() >= 3.0, "{scheme} {what}: {contrast}");
        }
    }
}

#[test]
fn the_focus_is_visible() {
    let browser = Browser::start();
    browser.look(1200, 900, "light");
    browser.open(&html(&sample::summary()));
    let selectors = [
        ".skip",
        "#theme-auto",
        ".sections a",
        "#rules .scroll",
        "summary",
        "input[type=range]",
        ".marks button",
    ];
    for selector in selectors {
        // The focus of a script is visible if the last input was a key.
        browser.press("body", &[thirtyfour::Key::Shift]);
        let outline = browser.run(&format!(
            "const element = document.querySelector({selector:?});
             element.focus();
             const seen = element.type === 'radio' ? element.nextElementSibling : element;
             const {{outlineStyle, outlineWidth}} = getComputedStyle(seen);
             return document.activeElement === element && outlineStyle + outlineWidth"
        ));
        assert_eq!(outline, Value::from("solid2px"), "{selector}");
    }
}
