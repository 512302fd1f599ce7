//! The commands as a user runs them, and their libraries from outside.

mod check;
