//! The target of this name, for the fuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| diana_fuzz::targets::ticket::run(bytes));
