//! A clock that steps under a real Envoy: the tests preload a shim for the C library's clock.

use crate::limits;
use gateway::{Config, Connection, Gateway, target, wait_until};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The wall clock is an hour behind while the file `$STEPPED_BACK` exists.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, now);
    const char *file = getenv("STEPPED_BACK");
    if (status == 0 && id == CLOCK_REALTIME && file && access(file, F_OK) == 0) now->tv_sec -= 3600;
    return status;
}
"#;

/// A folder with the shim, compiled by the linker driver of Rust's own programs.
fn shim() -> PathBuf {
    let folder = target().join("gateway").join(format!("clock-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("clock.c"), SHIM).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl"])
        .current_dir(&folder)
        .status();
    assert!(compiled.unwrap().success());
    folder
}

/// Regression test: a request that waited while the clock stepped back waited longer by the step.
#[test]
fn a_clock_that_steps_back_holds_no_waiting_request() {
    let folder = shim();
    let file = folder.join("stepped");
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let env = vec![
        ("LD_PRELOAD".to_owned(), text(folder.join("clock.so"))),
        ("STEPPED_BACK".to_owned(), text(file.clone())),
    ];
    let rule = json!([{"name": "queue", "algo": "LB", "rpu": 1, "unit": "second", "queue": 4}]);
    let gateway = Gateway::start(Config { env, concurrency: 1, ..Config::new(limits(rule)) }).unwrap();
    let connect = || {
        let mut connection = gateway.connect().unwrap();
        connection.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
        connection
    };
    // The first request passes at once, and the last in four seconds.
    assert_eq!(gateway.get("/", &[]).unwrap().status, 200);
    let _waiting: Vec<Connection> = (0..4).map(|_| connect()).collect();
    let counted = || gateway.stats().unwrap().sum("diana_requests", &[("rule", "queue"), ("result", "ok")]);
    wait_until("all to have their turns", Duration::from_secs(30), || (counted() >= 5).then_some(()))
        .unwrap();
    fs::write(&file, "").unwrap();
    let gone = || (gateway.admin().counter("http.gateway.downstream_rq_2xx").ok()? >= 5).then_some(());
    wait_until("all to have gone", Duration::from_secs(30), gone).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}
