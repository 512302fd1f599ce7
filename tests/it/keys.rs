//! The table of keys: its keys, ranges, choices and defaults are those of the reader, and a page
//! explains each key.

mod names;
mod places;
mod values;
