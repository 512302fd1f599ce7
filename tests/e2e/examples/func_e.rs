//! `examples/func-e`, by Envoy alone and by func-e.

use super::release::Release;
use gateway::{Connection, envoy, free_port, wait_until};
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

const FILES: [&str; 2] = ["envoy.yaml", "envoy-native.yaml"];

/// Runs a file of the example in the folder of a release, with this start of the command. The file
/// limits two paths.
fn limits_two_paths(file: &str, start: impl FnOnce() -> Command) {
    let [port, admin] = [(); 2].map(|()| free_port().unwrap());
    let release = Release::with("func-e", |text| {
        text.replace("port_value: 10000", &format!("port_value: {port}"))
            .replace("port_value: 9901", &format!("port_value: {admin}"))
    });
    let mut command = start();
    command.args(["-c", &format!("examples/func-e/{file}"), "--disable-hot-restart"]);
    command.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", "linux-amd64");
    let mut running = release.start(command);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let connected = wait_until("the gateway", Duration::from_secs(60), || {
        if running.has_ended() {
            return Some(None);
        }
        Connection::open(address).ok().map(Some)
    });
    let mut connection = connected.unwrap().unwrap_or_else(|| panic!("{}", release.log()));
    let mut get = |path: &str| connection.request("GET", path, &[], b"").unwrap();
    let begun = Instant::now();
    let logins = (0..6).filter(|_| get("/login").status == 200).count();
    let others = (0..30).filter(|_| get("/").status == 200).count();
    // The logins took five of the twenty; one refills every 0.1 s.
    let refilled = (begun.elapsed().as_millis() / 100) as usize + 1;
    assert_eq!(logins, 5);
    assert!((15..=(15 + refilled).min(30)).contains(&others), "{others}, {refilled} refilled");
    drop(running);
    assert!(Connection::open(address).is_err(), "Envoy has ended, too");
}

#[test]
fn the_files_for_func_e_limit_in_envoy() {
    for file in FILES {
        limits_two_paths(file, || Command::new(envoy::find().unwrap()));
    }
}

/// func-e 1.5 or later of the `PATH` runs the Envoy of the other tests.
#[test]
#[ignore = "needs func-e: `cargo xtask examples`"]
fn real_func_e_runs_the_files() {
    for file in FILES {
        limits_two_paths(file, || {
            let mut command = Command::new("func-e");
            command.arg("run").env("ENVOY_PATH", envoy::find().unwrap());
            command
        });
    }
}
