//! Measures the size of the filter's module.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The size of a module, in bytes.
pub struct Size {
    /// The size of the file.
    pub file: usize,
    /// The size without custom sections (names, producers), which do not affect execution.
    pub stripped: usize,
}

impl Size {
    /// Measures the module in this file.
    pub fn of(file: &Path) -> Result<Self> {
        let bytes = fs::read(file)?;
        let stripped =
            stripped(&bytes).with_context(|| format!("`{}` is not a WebAssembly module", file.display()))?;
        Ok(Self { file: bytes.len(), stripped })
    }
}

/// Returns the size of a module without its custom sections.
///
/// A module is an eight-byte header and a list of sections. Each section has an id, its content's
/// length in LEB128, and the content. The id of a custom section is 0.
fn stripped(module: &[u8]) -> Option<usize> {
    let mut at = 8;
    let mut custom = 0;
    while at < module.len() {
        let start = at;
        let id = *module.get(at)?;
        at += 1;
        let (mut length, mut shift) = (0usize, 0);
        loop {
            let byte = *module.get(at)?;
            at += 1;
            length |= usize::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
        at = at.checked_add(length)?;
        if id == 0 {
            custom += at - start;
        }
    }
    (at == module.len()).then_some(module.len() - custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_sections_do_not_count() {
        let module =
            [b"\0asm\x01\0\0\0".as_slice(), &[1, 2, 7, 7], &[0, 0x83, 0, 9, 9, 9], &[10, 1, 0]].concat();
        assert_eq!(stripped(&module), Some(module.len() - 6));
        assert_eq!(stripped(&module[..module.len() - 1]), None);
    }
}
