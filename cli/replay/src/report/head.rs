//! The head of the page: a policy that allows only the page's own style and script, by their
//! hashes. So a text of the log that got into the page as HTML could neither run nor load anything.

use super::text;
use crate::summary::Summary;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

/// What all pages share, then what only the report has.
const STYLE: &str = concat!(include_str!("../../../page/style.css"), include_str!("style.css"));
const SCRIPT: &str = include_str!("script.js");

/// The head.
pub fn head(summary: &Summary) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy());
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="referrer" content="no-referrer";
            meta name="robots" content="noindex";
            meta name="color-scheme" content="light dark";
            title { "Replay of " (text::plain(&summary.document)) " · Diana" }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// The script, for the end of the page.
pub fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}

fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_style_or_the_script_ends_the_element() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("</") && !text.contains("<!--"));
            assert!(!text.contains("url(") || !text.contains("http"));
        }
        assert!(!SCRIPT.contains("innerHTML"));
    }
}
