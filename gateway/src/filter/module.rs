//! Turns a linked WebAssembly module into a released one: removes the callbacks that its host does
//! not need, and marks the module with a letter. Source of the layout: the WebAssembly core
//! specification, §5.5.
//!
//! ```text
//!   \0asm 1 │ section: id u8, size u32, … │ …
//!   export section (7): count u32, (name, kind u8, index u32)*
//! ```

use anyhow::{Context, Result, bail, ensure};

const CUSTOM: u8 = 0;
const IMPORTS: u8 = 2;
const EXPORTS: u8 = 7;

/// The mark, which occurs once in the data of the linked module, before the letter of the released
/// file. `src/callbacks.rs` declares it.
const MARK: &[u8] = b"\0diana's callbacks: ";

/// Removes these exports and all custom sections (names, producers), and sets the letter.
pub fn make(module: &[u8], without: &[&str], letter: u8) -> Result<Vec<u8>> {
    let mut made = remove(module, without)?;
    let places: Vec<usize> = (0..made.len())
        .filter(|place| made[*place..].starts_with(MARK))
        .map(|place| place + MARK.len())
        .collect();
    match places[..] {
        [place] if place < made.len() => made[place] = letter,
        _ => bail!("the module is marked {} times in place of once", places.len()),
    }
    Ok(made)
}

/// Removes these exports and all custom sections.
pub fn remove(module: &[u8], without: &[&str]) -> Result<Vec<u8>> {
    let (header, mut rest) = module.split_at_checked(8).context("no module")?;
    ensure!(header == b"\0asm\x01\0\0\0", "no WebAssembly module of version 1");
    let mut made = header.to_vec();
    while let [id, tail @ ..] = rest {
        let (section, tail) = bytes(tail)?;
        rest = tail;
        match *id {
            CUSTOM => {}
            EXPORTS => push(&mut made, EXPORTS, &exports(section, without)?),
            id => push(&mut made, id, section),
        }
    }
    Ok(made)
}

/// The names of a module's exports.
pub fn export_names(module: &[u8]) -> Result<Vec<String>> {
    let names = entries(section(module, EXPORTS)?)?.into_iter();
    Ok(names.map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect())
}

/// The names of the functions that a module imports, without those of their modules.
pub fn import_names(module: &[u8]) -> Result<Vec<String>> {
    let (count, mut rest) = read(section(module, IMPORTS)?)?;
    let mut names = Vec::new();
    for _ in 0..count {
        let (_, tail) = bytes(rest)?;
        let (name, tail) = bytes(tail)?;
        // The kind of a function is 0, and the number of its type follows.
        (_, rest) = read(tail.strip_prefix(&[0]).context("an import is not a function")?)?;
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(names)
}

/// The content of the section with this id; no entries if there is none.
fn section(module: &[u8], wanted: u8) -> Result<&[u8]> {
    let mut rest = module.get(8..).context("no module")?;
    while let [id, tail @ ..] = rest {
        let (section, tail) = bytes(tail)?;
        if *id == wanted {
            return Ok(section);
        }
        rest = tail;
    }
    Ok(&[0])
}

fn exports(section: &[u8], without: &[&str]) -> Result<Vec<u8>> {
    let mut entries = entries(section)?;
    for gone in without {
        let place = entries.iter().position(|(name, _)| *name == gone.as_bytes());
        entries.remove(place.with_context(|| format!("the module exports no `{gone}`"))?);
    }
    let mut exports = Vec::new();
    number(&mut exports, entries.len());
    entries.iter().for_each(|(_, entry)| exports.extend_from_slice(entry));
    Ok(exports)
}

/// The name of each export, and all of its bytes.
fn entries(section: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let (count, mut rest) = read(section)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let (name, tail) = bytes(rest)?;
        let (_, tail) = read(tail.get(1..).context("an export ends early")?)?;
        entries.push((name, &rest[..rest.len() - tail.len()]));
        rest = tail;
    }
    Ok(entries)
}

pub(super) fn push(module: &mut Vec<u8>, id: u8, section: &[u8]) {
    module.push(id);
    number(module, section.len());
    module.extend_from_slice(section);
}

/// The bytes whose count precedes them, and the rest behind them.
pub(super) fn bytes(from: &[u8]) -> Result<(&[u8], &[u8])> {
    let (size, rest) = read(from)?;
    rest.split_at_checked(size).context("a part of the module ends early")
}

/// A number in LEB128, and the rest behind it.
pub(super) fn read(from: &[u8]) -> Result<(usize, &[u8])> {
    let mut number = 0;
    for (place, byte) in from.iter().enumerate().take(5) {
        number |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok((number, &from[place + 1..]));
        }
    }
    bail!("a number in the module does not end")
}

pub(super) fn number(to: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two exports, a custom section, and the mark in the data.
    fn module() -> Vec<u8> {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        push(&mut module, CUSTOM, b"\x04namewhatever");
        push(&mut module, IMPORTS, b"\x02\x03env\x04call\0\x80\x01\x03env\x05other\0\x01");
        push(&mut module, EXPORTS, b"\x02\x03one\0\x07\x05other\0\x80\x01");
        push(&mut module, 11, &[MARK, b"a behind it"].concat());
        module
    }

    #[test]
    fn exports_go_and_the_letter_tells() {
        let made = make(&module(), &["one"], b'x').unwrap();
        assert_eq!(export_names(&made).unwrap(), ["other"]);
        assert!(made.ends_with(b"callbacks: x behind it"));
        assert!(!made.windows(4).any(|bytes| bytes == b"what"));
        assert_eq!(export_names(&make(&module(), &[], b'a').unwrap()).unwrap(), ["one", "other"]);
        assert_eq!(import_names(&made).unwrap(), ["call", "other"]);
        assert!(import_names(b"\0asm\x01\0\0\0").unwrap().is_empty());
    }

    #[test]
    fn a_module_that_does_not_fit_is_refused() {
        for (module, without) in [
            (module(), &["none"][..]),
            (b"\0asm\x01\0\0\0".to_vec(), &[]),
            ([module(), MARK.to_vec(), b"a".to_vec()].concat(), &[]),
            (module()[..60].to_vec(), &[]),
            (b"ELF".to_vec(), &[]),
        ] {
            assert!(make(&module, without, b'x').is_err());
        }
    }
}
