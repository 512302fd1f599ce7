//! The script that a Redis runs.
//!
//! It does not know: how it gets there.

/// The script.
pub const SCRIPT: &str = include_str!("script.lua");

/// The hash that a Redis knows it by.
pub const SHA1: &str = "35c812dbbadb286b2b8a627bb17d8a91d0ed0984";
