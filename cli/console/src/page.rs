//! The page: one text without other files. A policy allows only its own style and script, by their
//! hashes, so a name of an actor that got into the page as HTML could neither run nor load.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("page/page.html");
/// What several pages share, then what only the console has.
const STYLE: &str = concat!(include_str!("../../page/style.css"), include_str!("page/style.css"));
const SCRIPT: &str = concat!(include_str!("../../page/script.js"), include_str!("page/script.js"));

/// The page and its content security policy.
pub struct Page {
    /// The text.
    pub html: String,
    /// The header.
    pub policy: String,
}

/// Makes the page.
pub fn page() -> Page {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let policy = format!(
        "default-src 'none'; connect-src 'self'; img-src data:; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    Page { html: PAGE.replace("{STYLE}", STYLE).replace("{SCRIPT}", SCRIPT), policy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_else() {
        let Page { html, policy } = page();
        assert!(html.ends_with("</html>\n") && !html.contains("{STYLE}") && !html.contains("{SCRIPT}"));
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
        for sink in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("] {
            assert!(!SCRIPT.contains(sink), "{sink}");
        }
        assert!(!html.contains("src=") && !html.contains("https:"));
        assert!(policy.starts_with("default-src 'none'; connect-src 'self'; img-src data:; "), "{policy}");
    }
}
