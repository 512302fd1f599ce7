//! The filters that lines put in front of the router, and how an Envoy loads them.

use anyhow::{Context, Result, bail};
use gateway::config::bridged;
use gateway::filter::{self, module};
use gateway::{Carrier, Config, Plugin, Redis, Shell, target};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

/// The filter in front of the router.
pub enum Filter {
    /// Nothing.
    None,
    /// One of Envoy's own filters.
    Envoy(Value),
    /// `benches/empty`.
    Empty,
    /// `benches/floor` with these exports and host calls.
    Floor(Exports, &'static str),
    /// Diana with this configuration. Envoy makes only the callbacks that it needs.
    Diana(Shell, Value),
    /// The proxy-wasm filter with this configuration and all callbacks.
    AllCallbacks(Value),
}

/// The callbacks for streams that a floor exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exports {
    /// The request's headers.
    Headers,
    /// The stream's creation and the request's headers.
    Create,
    /// The stream's creation, the request's headers and the stream's end.
    Delete,
}

impl Exports {
    const ALL: [Exports; 3] = [Exports::Headers, Exports::Create, Exports::Delete];

    /// The module's file in `target/`, and the callbacks that the file leaves out.
    fn module(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Exports::Headers => ("floor.wasm", &["proxy_on_context_create", "proxy_on_delete"]),
            Exports::Create => ("floor-create.wasm", &["proxy_on_delete"]),
            Exports::Delete => ("floor-delete.wasm", &[]),
        }
    }
}

/// The filters as files, and the store of global rules.
pub struct Filters {
    /// `target/diana.wasm`
    pub diana: PathBuf,
    /// What Envoy may do with it if a request needs nothing but the decision.
    capabilities: Vec<String>,
    /// `benches/empty`
    empty: PathBuf,
    /// For global rules.
    redis: Option<Redis>,
}

impl Filters {
    /// Builds the WebAssembly modules. Starts the store if a line `asks` it.
    pub fn build(asks: bool) -> Result<Self> {
        let diana = filter::build()?;
        let linked = other("floor")?;
        for exports in Exports::ALL {
            let (name, without) = exports.module();
            fs::write(target().join(name), module::remove(&fs::read(&linked)?, without)?)?;
        }
        let redis = asks.then(Redis::start).transpose()?;
        if asks {
            filter::module()?;
        }
        let capabilities = filter::capabilities(&diana)?;
        Ok(Self { diana, capabilities, empty: other("empty")?, redis })
    }

    /// Returns a gateway with this filter. The gateway answers without an upstream.
    pub fn gateway(&self, filter: &Filter) -> Config {
        let beside = |name: &str| Some(self.diana.with_file_name(name));
        // Only Diana's own lines depend on the shell.
        let (mut shell, mut instead, mut capabilities) = (Shell::Wasm, None, Vec::new());
        let (plugin, file): (Plugin, _) = match filter {
            Filter::None => {
                instead = Some(Vec::new());
                (json!({}).into(), Some(self.diana.clone()))
            }
            Filter::Envoy(filter) => {
                instead = Some(vec![filter.clone()]);
                (json!({}).into(), Some(self.diana.clone()))
            }
            Filter::Empty => (json!({}).into(), Some(self.empty.clone())),
            Filter::Floor(exports, calls) => ((*calls).into(), beside(exports.module().0)),
            Filter::Diana(of, plugin) => {
                shell = *of;
                if is_decided_alone(plugin) {
                    capabilities.clone_from(&self.capabilities);
                }
                (plugin.clone().into(), (shell == Shell::Wasm).then(|| self.diana.clone()))
            }
            Filter::AllCallbacks(plugin) => (plugin.clone().into(), Some(self.diana.clone())),
        };
        let bridge = |redis: &Redis| bridged(Carrier::CLUSTER, redis.address(), &json!({}));
        let clusters = self.redis.iter().map(bridge).collect();
        Config {
            concurrency: 1,
            direct: true,
            shell,
            capabilities,
            instead,
            filter: file,
            clusters,
            ..Config::new(plugin)
        }
    }
}

/// Whether a request needs nothing but the decision.
fn is_decided_alone(plugin: &Value) -> bool {
    diana_config::compile(plugin.to_string().as_bytes())
        .is_ok_and(|configuration| diana_filter::Exports::WithoutContexts.suffice(&configuration).is_ok())
}

/// Builds a filter to compare with, and returns its path.
fn other(package: &str) -> Result<PathBuf> {
    let folder = target();
    let status = filter::cargo()
        .args(["build", "--quiet", "--release", "--package", package, "--target", filter::TARGET])
        .arg("--target-dir")
        .arg(&folder)
        .stdin(Stdio::null())
        .status()
        .context("cannot run `cargo`")?;
    if !status.success() {
        bail!("the build of the filter `{package}` failed");
    }
    Ok(folder.join(filter::TARGET).join("release").join(format!("{package}.wasm")))
}

/// A percentage of requests that Envoy's own limiter takes: all.
fn always() -> Value {
    json!({"default_value": {"numerator": 100, "denominator": "HUNDRED"}})
}

fn bucket(tokens: u64, seconds: u64) -> Value {
    json!({"max_tokens": tokens, "tokens_per_fill": tokens, "fill_interval": format!("{seconds}s")})
}

/// Envoy's own limiter: one bucket of `tokens`, which refills every `seconds`.
pub fn local_ratelimit(tokens: u64, seconds: u64) -> Filter {
    Filter::Envoy(json!({
        "name": "envoy.filters.http.local_ratelimit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            "stat_prefix": "local",
            "token_bucket": bucket(tokens, seconds),
            "filter_enabled": always(),
            "filter_enforced": always(),
        },
    }))
}

/// Envoy's own limiter with a bucket for each address. A descriptor without a value gets a bucket
/// for each value.
pub fn local_ratelimit_by_address() -> Filter {
    let Filter::Envoy(mut filter) = local_ratelimit(1_000_000_000, 1) else { return Filter::None };
    let config = &mut filter["typed_config"];
    config["rate_limits"] = json!([{"actions": [{"remote_address": {}}]}]);
    config["descriptors"] =
        json!([{"entries": [{"key": "remote_address"}], "token_bucket": bucket(1_000_000_000, 1)}]);
    config["always_consume_default_token_bucket"] = json!(false);
    Filter::Envoy(filter)
}

/// Envoy's Lua filter with a function that does nothing.
pub fn lua() -> Filter {
    Filter::Envoy(json!({
        "name": "envoy.filters.http.lua",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": "function envoy_on_request(handle)\nend\n"},
        },
    }))
}
