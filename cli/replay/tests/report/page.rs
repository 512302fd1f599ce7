//! The made-up summary with hostile text in each field.

use crate::sample;
use diana_replay::summary::Summary;
use serde_json::Value;

/// Ends each context of HTML that it might be in, runs, loads, and hides.
pub const HOSTILE: &str = concat!(
    "\"'></title></style></svg></code><script>ran = 1</script><img src=x onerror=\"ran = 2\">",
    "<svg onload='ran = 3'></svg><b>&amp;{{ran}}</b>javascript:ran=4//",
    "\u{0}\u{8}\u{1b}[2J\r\n\u{7f}\u{9b}\u{202e}gpj\u{2066}\u{200f}\u{feff}\u{e0041}\u{fffe}",
);

/// The summary. A field that is added later is hostile, too.
pub fn hostile() -> Summary {
    let mut value = serde_json::to_value(sample::summary()).unwrap();
    replace(&mut value);
    serde_json::from_value(value).unwrap()
}

fn replace(value: &mut Value) {
    match value {
        Value::String(text) => *text = format!("{HOSTILE}{text}{HOSTILE}"),
        Value::Array(values) => values.iter_mut().for_each(replace),
        // The part for which a rule is enforced is Diana's own text. Another text changes the page.
        Value::Object(fields) => {
            fields.iter_mut().filter(|(key, _)| *key != "enforce").for_each(|(_, value)| replace(value));
        }
        _ => {}
    }
}
