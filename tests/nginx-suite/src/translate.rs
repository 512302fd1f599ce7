//! A configuration of nginx as a bootstrap of Envoy: a listener for each server, a route for each
//! location, and Diana with one document for all of them.

use crate::blocks::{Blocks, Location};
use crate::limits::document;
use anyhow::{Context, Result, bail};
use gateway::{Config, config, http_filter};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// nginx' page for a file that does not exist.
const MISSING: &str = "<html><body><h1>404 Not Found</h1></body></html>\n";

/// Adds the headers of `add_header` for the variables that have a counterpart. nginx reads
/// `$request_time` from a clock that stands still while it handles an event: here, tenths of a
/// second. The routes in `LIMITED` have a zone.
const HEADERS: &str = "
local limited = LIMITED
function envoy_on_request(handle)
  handle:streamInfo():dynamicMetadata():set('nginx', 'start', handle:timestamp())
end
function envoy_on_response(handle)
  local info = handle:streamInfo()
  local start = info:dynamicMetadata():get('nginx')['start']
  local tenths = math.floor((handle:timestamp() - start) / 100)
  handle:headers():add('X-Time', string.format('%.3f', tenths / 10))
  local function has(attribute)
    local value = info:filterState():get('wasm.diana.' .. attribute)
    return value ~= nil and value ~= ''
  end
  if limited[info:routeName()] then
    local passed = has('shadow') and 'REJECTED_DRY_RUN' or 'PASSED'
    handle:headers():add('X-Status', has('rule') and 'REJECTED' or passed)
  end
end";

pub struct Translation {
    pub bootstrap: Value,
    /// The ports of all servers.
    pub ports: Vec<u16>,
}

struct Server {
    ports: Vec<u16>,
    /// The longest prefix first, because it decides.
    locations: Vec<Location>,
}

/// Translates a configuration whose files are in `folder`.
pub fn translate(text: &str, folder: &Path, filter: &Path) -> Result<Translation> {
    let blocks = Blocks::read(text)?;
    let servers = blocks.inside(Some(blocks.http()?), "server");
    let servers = servers.into_iter().enumerate().map(|(number, block)| server(&blocks, number, block));
    let servers = servers.collect::<Result<Vec<Server>>>()?;
    let mut locations: Vec<&Location> = servers.iter().flat_map(|server| &server.locations).collect();
    locations.sort_by_key(|location| location.block);
    let diana = http_filter(&Config::new(document(&blocks, &locations)?), filter);
    let mut clusters = BTreeMap::new();
    let mut listeners = Vec::new();
    for server in &servers {
        let routes = routes(&blocks, server, folder, &mut clusters)?;
        let manager = manager(&diana, headers(&blocks, server), &routes, folder);
        listeners.extend(server.ports.iter().map(|port| {
            json!({
                "name": format!("port-{port}"),
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                "filter_chains": [{"filters": [
                    {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
                ]}],
            })
        }));
    }
    let clusters: Vec<Value> =
        clusters.into_iter().map(|(name, address)| config::cluster(&name, address, false)).collect();
    let bootstrap = json!({
        "static_resources": {"listeners": listeners, "clusters": clusters},
        // The suite's clients do not begin with a SETTINGS frame (RFC 9113 §3.4). This codec of
        // Envoy does not mind.
        "layered_runtime": {"layers": [{"name": "codec", "static_layer": {
            "envoy.reloadable_features.http2_use_oghttp2": true,
        }}]},
    });
    Ok(Translation { bootstrap, ports: servers.into_iter().flat_map(|server| server.ports).collect() })
}

/// The script for the headers of a server, if it adds one that a variable has.
fn headers(blocks: &Blocks, server: &Server) -> Option<String> {
    let variables = ["$request_time", "$limit_req_status", "$limit_conn_status"];
    let adds = |location: &&Location| {
        let headers = blocks.inherited(location.block, "add_header");
        headers.iter().flatten().any(|word| variables.contains(word))
    };
    server.locations.iter().find(adds)?;
    let has_zone = |location: &&Location| {
        ["limit_req", "limit_conn"].iter().any(|name| !blocks.inherited(location.block, name).is_empty())
    };
    let limited = server.locations.iter().filter(has_zone);
    let limited: Vec<String> = limited.map(|location| format!("['{}'] = true", location.route)).collect();
    Some(HEADERS.replace("LIMITED", &format!("{{{}}}", limited.join(", "))))
}

fn server(blocks: &Blocks, number: usize, block: usize) -> Result<Server> {
    let mut ports = Vec::new();
    for at in blocks.inside(Some(block), "listen") {
        let words = blocks.arguments(at);
        let address: SocketAddr =
            words.first().context("no address")?.parse().context("`listen` without address and port")?;
        ports.push(address.port());
    }
    let mut locations = Vec::new();
    for at in blocks.inside(Some(block), "location") {
        let [prefix] = blocks.arguments(at)[..] else { bail!("a location that is no prefix") };
        let route = format!("s{number}-l{}", locations.len());
        locations.push(Location { block: at, prefix: prefix.to_owned(), route });
    }
    // What no location matches has the directives of the server.
    if !locations.iter().any(|location| location.prefix == "/") {
        locations.push(Location { block, prefix: "/".into(), route: format!("s{number}-all") });
    }
    locations.sort_by_key(|location| Reverse(location.prefix.len()));
    Ok(Server { ports, locations })
}

/// The routes of a server. Files are the responses of the gateway itself.
fn routes(
    blocks: &Blocks,
    server: &Server,
    folder: &Path,
    clusters: &mut BTreeMap<String, SocketAddr>,
) -> Result<Vec<Value>> {
    let mut routes = Vec::new();
    let is_static = |location: &Location| {
        ["alias", "proxy_pass"].iter().all(|name| blocks.inside(Some(location.block), name).is_empty())
    };
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !path.is_file() || ["nginx.conf", "error.log", "envoy.json"].contains(&&*name) {
            continue;
        }
        let uri = format!("/{name}");
        let paths = if name == "index.html" { vec![uri, "/".to_owned()] } else { vec![uri] };
        for uri in paths {
            let location = server.locations.iter().find(|location| uri.starts_with(&location.prefix));
            if let Some(location) = location.filter(|location| is_static(location)) {
                let (name, matching) = (&location.route, json!({"path": uri}));
                routes.push(json!({"name": name, "match": matching, "direct_response": file(&path)?}));
            }
        }
    }
    for location in &server.locations {
        let mut route = json!({"name": location.route, "match": {"prefix": location.prefix}});
        let own = |name: &str| {
            let at = blocks.inside(Some(location.block), name).first().copied()?;
            blocks.arguments(at).first().copied()
        };
        if let Some(path) = own("alias") {
            route["direct_response"] = file(Path::new(path))?;
        } else if let Some(url) = own("proxy_pass") {
            let rest = url.strip_prefix("http://").with_context(|| format!("no upstream: `{url}`"))?;
            let (address, uri) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let name = format!("upstream-{address}").replace(['.', ':'], "-");
            clusters.insert(name.clone(), address.parse()?);
            route["route"] = json!({"cluster": name, "timeout": "0s"});
            if !uri.is_empty() {
                route["route"]["prefix_rewrite"] = uri.into();
            }
        } else {
            route["direct_response"] = json!({"status": 404, "body": {"inline_string": MISSING}});
        }
        routes.push(route);
    }
    Ok(routes)
}

/// A response with a file. Envoy wants a file that is not empty.
fn file(path: &Path) -> Result<Value> {
    let is_empty = path.metadata().with_context(|| format!("no file `{}`", path.display()))?.len() == 0;
    let body = if is_empty { json!({"inline_string": ""}) } else { json!({"filename": path}) };
    Ok(json!({"status": 200, "body": body}))
}

fn manager(diana: &Value, headers: Option<String>, routes: &[Value], folder: &Path) -> Value {
    let of = |name: &str, kind: &str, more: Value| {
        let kind = format!("type.googleapis.com/envoy.extensions.{kind}");
        let mut typed = json!({"@type": kind});
        for (key, value) in more.as_object().into_iter().flatten() {
            typed[key] = value.clone();
        }
        json!({"name": name, "typed_config": typed})
    };
    let mut filters = Vec::new();
    if let Some(headers) = headers {
        let code = json!({"default_source_code": {"inline_string": headers}});
        filters.push(of("envoy.filters.http.lua", "filters.http.lua.v3.Lua", code));
    }
    filters.push(diana.clone());
    filters.push(of("envoy.filters.http.router", "filters.http.router.v3.Router", json!({})));
    let log = json!({
        "path": folder.join("test.log"),
        // A refused request's rule stands in place of `$limit_req_status`.
        "log_format": {"text_format_source": {
            "inline_string": "%REQ(:PATH)%:%FILTER_STATE(wasm.diana.rule:PLAIN)%\n",
        }},
    });
    json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.\
                  HttpConnectionManager",
        "stat_prefix": "nginx",
        "use_remote_address": true,
        "normalize_path": true,
        "merge_slashes": true,
        // The suite sends HTTP/1.0, reads until the end of the connection, and minds the case of
        // headers.
        "delayed_close_timeout": "0s",
        "http_protocol_options": {
            "accept_http_10": true,
            "default_host_for_http_10": "localhost",
            "header_key_format": {"proper_case_words": {}},
        },
        "http_filters": filters,
        "access_log": [of("envoy.access_loggers.file", "access_loggers.file.v3.FileAccessLog", log)],
        "route_config": {
            "max_direct_response_body_size_bytes": 1 << 20,
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}],
        },
    })
}
