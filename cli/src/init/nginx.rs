//! nginx's configuration around a document.

use super::plan::Plan;
use crate::source::nginx::LONGEST_ARGUMENT;
use diana_filter::zone_bytes;
use diana_limiter::policy::Policy;
use serde_json::Value;

/// The least size of the zone, in MiB.
const ZONE_MIB: u64 = 64;

/// The text of `nginx.conf`.
pub fn text(plan: &Plan, document: &Value, policy: &Policy) -> String {
    let zone_mib = zone_bytes(policy).div_ceil(1 << 20).max(ZONE_MIB);
    let Plan { filter, upstream, listen, .. } = plan;
    let (filter, listen) = (Value::from(filter.as_str()), listen.to_string());
    let shadow = match plan.is_shadow {
        true => {
            "        # `mode`: every rule counts and reports, and no request is refused. Remove the key to refuse.\n"
        }
        false => "",
    };
    format!(
        r#"# nginx with Diana, by ngx_wasm_module, written by `diana init`. `nginx -t` does not run the filter: check each change
# with `diana check` first.

worker_processes auto;
error_log stderr info;     # one line for each accepted configuration, with the most keys and KiB that its tables need

events {{}}

wasm {{
    # Load `diana-nginx.wasm`: nginx crashes when a callback is missing, as in Diana's other files.
    module diana {filter};

    # The counts. Use `lru`: with nginx's default, workers may crash; with `none`, requests fail when the zone is full.
    shm_kv diana {zone_mib}m eviction=lru;

    metrics {{
        slab_size 5m;
        max_metric_name_length 256;
    }}
}}

http {{
    access_log /dev/stdout;

    # Your own service.
    upstream backend {{ server {upstream}; }}

    server {{
        listen {listen};

        # The Diana document, for each location without its own `proxy_wasm`.
{shadow}        proxy_wasm diana '{document}';

        location / {{
            proxy_pass http://backend;      # not `return`, which responds before a refusal is sent
        }}
    }}
}}
"#,
        document = quotable(document),
    )
}

/// The document as an argument, in several lines if nginx takes so many bytes.
fn quotable(document: &Value) -> String {
    let text = escaped(&indented(document));
    if text.len() > LONGEST_ARGUMENT { escaped(&document.to_string()) } else { text }
}

/// The document in several lines.
fn indented(document: &Value) -> String {
    let text = serde_json::to_string_pretty(document).unwrap_or_else(|_| document.to_string());
    text.replace('\n', "\n            ")
}

/// Text within the single quotes of nginx, which replaces `\n`, `\"`, `\'` and `\\`.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}
