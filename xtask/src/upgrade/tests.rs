//! What `docs/upgrade.md` promises.

use super::{Files, Versions};
use anyhow::{Context, Result, ensure};
use gateway::config::bridged;
use gateway::{Config, Gateway, Redis, Shell, Update};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

type Test = fn(&Versions) -> Result<()>;

pub const ALL: &[(&str, Test)] = &[
    ("the_filter_before_counts_on_through_the_module_of_here", module_first),
    ("the_filter_of_here_cannot_call_through_the_module_before", filter_first),
    ("filters_of_both_count_apart_and_the_way_back_finds_its_counts", wasm_side_by_side),
    ("modules_of_both_count_apart_and_the_way_back_finds_its_counts", native_side_by_side),
    ("the_filter_of_a_running_gateway_changes_both_ways_without_a_lost_request", running),
    ("a_document_of_here_is_refused_before_and_the_limits_stay", newer_document),
];

const QUOTA: usize = 60;

/// A document for both versions. The previous one needs `dialect`.
fn document() -> Value {
    let rule = |name: &str, scope: Value| {
        let mut rule = json!({"name": name, "actor": "user", "algo": "W", "rpu": QUOTA, "unit": "7d"});
        rule.as_object_mut()
            .into_iter()
            .for_each(|keys| keys.extend(scope.as_object().cloned().unwrap_or_default()));
        json!({"url": format!("/{name}"), "rules": [rule]})
    };
    let redis = json!({
        "cluster": "redis", "dialect": "resp", "secret": "a secret of the tests only", "timeout": "5s",
    });
    json!({
        "limits": [
            rule("local", json!({})),
            rule("global", json!({"scope": "global", "on_error": "deny"})),
        ],
        "store": {"redis": redis},
    })
}

/// A gateway with the filter or the module of one version, and the bridge of another. The native
/// module is the bridge, too.
fn start(shell: Shell, filter: &Files, bridge: &Files, redis: SocketAddr) -> Result<Gateway> {
    let mut config = Config { shell, filter: Some(filter.of(shell)), ..Config::new(document()) };
    config.clusters.push(bridged("redis", redis, &json!({})));
    let folder = bridge.folder.display().to_string();
    config.env.push(("ENVOY_DYNAMIC_MODULES_SEARCH_PATH".into(), folder));
    Gateway::start(config)
}

/// How many of `count` requests of `ann` pass; all others are refused.
fn passed(gateway: &Gateway, path: &str, count: usize) -> Result<usize> {
    let mut passed = 0;
    for _ in 0..count {
        match gateway.get(path, &[("x-user-id", "ann")])?.status {
            200 => passed += 1,
            429 => {}
            status => anyhow::bail!("status {status}\n{}", gateway.logs()),
        }
    }
    Ok(passed)
}

fn expect(what: &str, found: usize, expected: usize) -> Result<()> {
    ensure!(found == expected, "{what}: {found} requests pass, expected {expected}");
    Ok(())
}

fn module_first(versions: &Versions) -> Result<()> {
    let (redis, Versions { before, here }) = (Redis::start()?, versions);
    let old = start(Shell::Wasm, before, before, redis.address())?;
    expect("before", passed(&old, "/global", QUOTA / 2)?, QUOTA / 2)?;
    drop(old);
    let mixed = start(Shell::Wasm, before, here, redis.address())?;
    expect("with the module of here", passed(&mixed, "/global", QUOTA)?, QUOTA / 2)
}

fn filter_first(versions: &Versions) -> Result<()> {
    let (redis, Versions { before, here }) = (Redis::start()?, versions);
    let gateway = start(Shell::Wasm, here, before, redis.address())?;
    for _ in 0..20 {
        // The rule says `on_error: deny`.
        let status = gateway.get("/global", &[("x-user-id", "ann")])?.status;
        ensure!(status == 503, "status {status}");
    }
    let why = "do the filter and `libdiana.so` have the same version?";
    ensure!(gateway.log_contains(why), "the log does not say why:\n{}", gateway.logs());
    Ok(())
}

fn wasm_side_by_side(versions: &Versions) -> Result<()> {
    side_by_side(Shell::Wasm, versions)
}

fn native_side_by_side(versions: &Versions) -> Result<()> {
    side_by_side(Shell::Native, versions)
}

/// A rolling upgrade and its rollback admit at most two quotas.
fn side_by_side(shell: Shell, versions: &Versions) -> Result<()> {
    let (redis, Versions { before, here }) = (Redis::start()?, versions);
    let bridge = |files| if shell == Shell::Native { files } else { here };
    let old = start(shell, before, bridge(before), redis.address())?;
    expect("before", passed(&old, "/global", QUOTA + 5)?, QUOTA)?;
    let new = [(); 2].map(|()| start(shell, here, here, redis.address()));
    let new = new.into_iter().collect::<Result<Vec<_>>>()?;
    expect("here, counted anew", passed(&new[0], "/global", QUOTA / 2)?, QUOTA / 2)?;
    expect("here, together", passed(&new[1], "/global", QUOTA)?, QUOTA / 2)?;
    drop((old, new));
    let back = start(shell, before, bridge(before), redis.address())?;
    expect("back", passed(&back, "/global", 5)?, 0)
}

/// Envoy loads another file of the filter with an update of the listener. A module stays in the
/// process until it ends.
fn running(versions: &Versions) -> Result<()> {
    let (redis, Versions { before, here }) = (Redis::start()?, versions);
    let mut gateway = start(Shell::Wasm, before, here, redis.address())?;
    for (what, files) in [("before", before), ("here", here), ("back", before), ("here again", here)] {
        let change = |config: &mut Config| config.filter = Some(files.of(Shell::Wasm));
        let update = gateway.reconfigure(change)?;
        ensure!(update == Update::Accepted, "{what}: {update:?}");
        let local = passed(&gateway, "/local", QUOTA + 5)?;
        let is_fresh = ["before", "here"].contains(&what);
        // Each version finds its own counts: shared data stays while the `vm_id` does.
        ensure!(local <= QUOTA && (local == QUOTA || !is_fresh), "{what}: {local} pass");
        passed(&gateway, "/global", 5)?;
    }
    Ok(())
}

/// What `command check` prints about a document, and whether it finds no mistake.
fn check(files: &Files, document: &Value) -> Result<(bool, String)> {
    let file = files.folder.join("upgrade.json");
    fs::write(&file, document.to_string())?;
    let output = Command::new(&files.command).arg("check").arg(&file).output();
    let output = output.with_context(|| format!("cannot run {}", files.command.display()))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Ok((output.status.success(), said))
}

fn newer_document(versions: &Versions) -> Result<()> {
    let (redis, Versions { before, here }) = (Redis::start()?, versions);
    let (mut newer, key) = (document(), "near_limit");
    newer[key] = json!("10%");
    for (files, document, is_fine) in [
        (before, &document(), true),
        (here, &document(), true),
        (here, &newer, true),
        (before, &newer, false),
    ] {
        let (found, said) = check(files, document)?;
        ensure!(found == is_fine, "{}: {said}", files.command.display());
        ensure!(is_fine || said.contains(key), "{said}");
    }
    for shell in [Shell::Wasm, Shell::Native] {
        let mut gateway = start(shell, before, before, redis.address())?;
        passed(&gateway, "/local", QUOTA - 1)?;
        let Update::Rejected(why) = gateway.update(newer.clone())? else {
            anyhow::bail!("{shell:?} before takes a document with `{key}`");
        };
        ensure!(why.contains(key), "{why}");
        expect("after the refusal", passed(&gateway, "/local", 5)?, 1)?;
    }
    Ok(())
}
