//! The least that a filter on the Rust SDK can be: a context for each request, and no callback of
//! its own.
//!
//! It is built with the profile that the filter ships with. Natively it is empty, because there the
//! SDK is not.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs)] // what the SDK's macro exports has none

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|_| Box::new(Root));
}}

struct Root;

impl Context for Root {}

impl RootContext for Root {
    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

struct Stream;

impl Context for Stream {}

impl HttpContext for Stream {}
