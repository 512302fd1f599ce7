//! What the command `diana` does without files, threads and a terminal: reads documents and what
//! stands around them, finds mistakes, explains requests, and runs the cases of test files. The
//! command and the playground are shells around this crate.
#![forbid(unsafe_code)]

pub mod check;
pub mod explain;
pub mod secrets;
pub mod source;
pub mod test;
pub mod valid;
