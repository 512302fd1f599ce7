//! Another team's filter, written with the Rust SDK, that embeds Diana.
//!
//! The team's own feature: requests below a path under maintenance get status 503. Diana limits all
//! other requests.
#![cfg(target_arch = "wasm32")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod host;
mod limits;

use diana_limiter::session::Session;
use limits::{LimitOptions, Limits};
use log::{error, info};
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, LogLevel};
use serde::Deserialize;
use serde_json::json;
use std::rc::Rc;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(Root(None)));
}}

/// The filter's configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// The beginnings of paths under maintenance.
    #[serde(default)]
    maintenance: Vec<String>,
    limits: LimitOptions,
}

/// What all streams of a worker share.
struct Plugin {
    maintenance: Vec<String>,
    limits: Limits,
}

impl Plugin {
    fn new(configuration: &[u8]) -> Result<Plugin, String> {
        let document: Document = serde_json::from_slice(configuration).map_err(|error| error.to_string())?;
        let limits = Limits::new(&document.limits).map_err(|why| format!("`limits`: {why}"))?;
        Ok(Plugin { maintenance: document.maintenance, limits })
    }
}

struct Root(Option<Rc<Plugin>>);

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        match Plugin::new(&self.get_plugin_configuration().unwrap_or_default()) {
            Ok(plugin) => {
                info!("under maintenance: {:?}, rules: {}", plugin.maintenance, plugin.limits.rules());
                self.0 = Some(Rc::new(plugin));
                true
            }
            Err(why) => {
                error!("configuration refused, {why}");
                false
            }
        }
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        let plugin = Rc::clone(self.0.as_ref()?);
        Some(Box::new(Stream { plugin, session: Session::default(), headers: Vec::new() }))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

/// One request.
struct Stream {
    plugin: Rc<Plugin>,
    session: Session,
    /// The remaining quota, for the response.
    headers: Vec<(&'static str, String)>,
}

impl Stream {
    /// The path under maintenance that the request is for.
    fn under_maintenance(&self) -> Option<&String> {
        let path = self.get_http_request_header_bytes(":path")?;
        self.plugin.maintenance.iter().find(|below| path.starts_with(below.as_bytes()))
    }
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, ends: bool) -> Action {
        if let Some(path) = self.under_maintenance() {
            info!("refused a request for `{path}`, which is under maintenance");
            let body = json!({"error": "under maintenance", "path": path}).to_string();
            self.send_http_response(503, vec![("content-type", "application/json")], Some(body.as_bytes()));
            return Action::Pause;
        }
        match self.plugin.limits.start(&mut self.session, ends) {
            Ok(headers) => {
                self.headers = headers;
                Action::Continue
            }
            Err(refusal) => {
                let headers = refusal.headers.iter().map(|(name, value)| (*name, &**value)).collect();
                self.send_http_response(refusal.status, headers, Some(&refusal.body));
                Action::Pause
            }
        }
    }

    fn on_http_response_headers(&mut self, _: usize, _: bool) -> Action {
        self.headers.iter().for_each(|(name, value)| self.add_http_response_header(name, value));
        Action::Continue
    }

    fn on_log(&mut self) {
        self.plugin.limits.settle(&mut self.session);
    }
}
