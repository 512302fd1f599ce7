//! Adds a callback to a released module that traps when a chunk of a response body has one size, so
//! that tests can kill a VM. Layout and instructions: the WebAssembly core specification, §5.4 and
//! §5.5; the module's own functions keep their numbers.

use super::module::{bytes, number, push, read};
use anyhow::{Context, Result, ensure};

/// The size of the chunk that traps.
pub const TRAP_BYTES: usize = 4242;

const TYPES: u8 = 1;
const IMPORTS: u8 = 2;
const FUNCTIONS: u8 = 3;
const EXPORTS: u8 = 7;
const CODE: u8 = 10;

/// The callback that is added.
pub(super) const CALLBACK: &str = "proxy_on_response_body";
/// Three numbers (the stream, the size, the end of the body) to one.
const TYPE: &[u8] = &[0x60, 3, 0x7f, 0x7f, 0x7f, 1, 0x7f];
/// No locals; `local.get 1`, `i32.const 4242`, `i32.eq`, `if`, `unreachable`, `end`, `i32.const 0`,
/// `end`.
const BODY: &[u8] = &[0, 0x20, 1, 0x41, 0x92, 0x21, 0x46, 0x04, 0x40, 0x00, 0x0b, 0x41, 0, 0x0b];

/// The module with the callback added.
pub(super) fn add(module: &[u8]) -> Result<Vec<u8>> {
    let (header, mut rest) = module.split_at_checked(8).context("no module")?;
    let has_callback = module.windows(CALLBACK.len()).any(|bytes| bytes == CALLBACK.as_bytes());
    ensure!(!has_callback, "the module has the callback");
    let mut made = header.to_vec();
    let (mut kind, mut function) = (0, 0);
    while let [id, tail @ ..] = rest {
        let (section, tail) = bytes(tail)?;
        rest = tail;
        let (count, entries) = read(section)?;
        let one_more = |entry: &[u8]| {
            let mut section = Vec::new();
            number(&mut section, count + 1);
            [section.as_slice(), entries, entry].concat()
        };
        match *id {
            TYPES => {
                kind = count;
                push(&mut made, TYPES, &one_more(TYPE));
            }
            IMPORTS => {
                // All imports are functions: the module brings its own memory.
                function += count;
                push(&mut made, IMPORTS, section);
            }
            FUNCTIONS => {
                function += count;
                let mut entry = Vec::new();
                number(&mut entry, kind);
                push(&mut made, FUNCTIONS, &one_more(&entry));
            }
            EXPORTS => {
                let mut entry = Vec::new();
                number(&mut entry, CALLBACK.len());
                entry.extend_from_slice(CALLBACK.as_bytes());
                entry.push(0);
                number(&mut entry, function);
                push(&mut made, EXPORTS, &one_more(&entry));
            }
            CODE => {
                let mut entry = Vec::new();
                number(&mut entry, BODY.len());
                entry.extend_from_slice(BODY);
                push(&mut made, CODE, &one_more(&entry));
            }
            id => push(&mut made, id, section),
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::module::export_names;

    #[test]
    fn the_callback_is_a_function_more() {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        push(&mut module, TYPES, b"\x01\x60\0\0");
        push(&mut module, FUNCTIONS, b"\x01\0");
        push(&mut module, EXPORTS, b"\x01\x03one\0\0");
        push(&mut module, CODE, b"\x01\x02\0\x0b");
        let made = add(&module).unwrap();
        assert_eq!(export_names(&made).unwrap(), ["one", "proxy_on_response_body"]);
        assert!(made.ends_with(BODY));
        assert!(add(&made).is_err(), "a module that has the callback");
        assert!(add(b"ELF").is_err());
    }
}
