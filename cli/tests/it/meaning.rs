//! The random documents of the engine's tests.

#[path = "../../../tests/it/meaning/document.rs"]
pub mod document;
#[path = "../../../tests/it/meaning/spelling.rs"]
mod spelling;
