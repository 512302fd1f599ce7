//! The page of measurements: each command writes its own section, between two comments.

use anyhow::{Context, Result};
use gateway::root;
use std::fs;

/// The page, relative to the workspace's root.
pub const PAGE: &str = "docs/bench/README.md";

/// Replaces the section that this command of `cargo xtask` writes.
pub fn write(command: &str, text: &str) -> Result<()> {
    let path = root().join(PAGE);
    let page = replaced(&fs::read_to_string(&path)?, command, text);
    fs::write(path, page.with_context(|| format!("{PAGE} has no section of `{command}`"))?)?;
    eprintln!("wrote the section of `cargo xtask {command}` in {PAGE}");
    Ok(())
}

fn replaced(page: &str, command: &str, text: &str) -> Option<String> {
    let start = format!("<!-- cargo xtask {command} -->\n");
    let (before, rest) = page.split_once(&start)?;
    let (_, after) = rest.split_once("\n<!-- end -->")?;
    Some(format!("{before}{start}{}\n<!-- end -->{after}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_replaces_its_own_section() {
        let page = "# A\n\n<!-- cargo xtask bench -->\nold\n<!-- end -->\n\nb\n\n\
                    <!-- cargo xtask bench count -->\nother\n<!-- end -->\n";
        let expected = page.replace("old", "new\n\nlines");
        assert_eq!(replaced(page, "bench", "new\n\nlines\n"), Some(expected));
        assert_eq!(replaced(page, "bench slow", "new"), None);
    }

    #[test]
    fn the_page_has_the_section_of_each_command() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        for command in ["bench", "bench count", "bench global", "bench slow"] {
            assert!(replaced(&page, command, "").is_some(), "{command}");
        }
    }
}
