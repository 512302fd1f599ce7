//! Envoy's functions for metrics.

use super::exchange::copy;
use super::world::{World, with};
use diana_envoy_module::abi::{Bytes, SUCCESS};
use std::ffi::c_void;

type Pointer = *mut c_void;

/// The counter of caught panics. There must be none.
const PANICS: &str = "panics";

const NOT_FOUND: u32 = 1;

pub unsafe extern "C" fn define(
    config: Pointer,
    name: Bytes,
    labels: *const Bytes,
    count: usize,
    id: *mut usize,
) -> u32 {
    // SAFETY: the module lends the name and the labels.
    let (name, _) = unsafe { (copy(name), texts(labels, count)) };
    let name = String::from_utf8(name).unwrap_or_default();
    let number = with(|world| {
        let config = world.new_config(config, "a definition of a metric")?;
        let is_known = name.is_empty() || config.metrics.iter().any(|(known, _)| *known == name);
        config.metrics.push((name, count));
        let number = config.metrics.len();
        if is_known {
            world.mistake("a metric has no name, or that of another one");
        }
        Some(number)
    });
    // SAFETY: the module has room for a number.
    unsafe { *id = number.unwrap_or(0) };
    if number.is_some() { SUCCESS } else { NOT_FOUND }
}

unsafe fn texts(labels: *const Bytes, count: usize) -> Vec<Vec<u8>> {
    // SAFETY: the module lends this number of labels until the call returns.
    (0..count).map(|index| unsafe { copy(*labels.add(index)) }).collect()
}

/// The kinds of changes.
pub const OTHER: u8 = 0;
pub const ADD: u8 = 1;
pub const SUBTRACT: u8 = 2;
pub const SET: u8 = 3;

/// Checks a change of a metric. The configuration keeps a gauge that it changes.
fn change<const KIND: u8>(
    world: &mut World,
    config: usize,
    id: usize,
    labels: Vec<Vec<u8>>,
    value: u64,
) -> u32 {
    let metrics = world.configs.get(&config).map(|config| &config.metrics);
    let known = metrics.and_then(|metrics| metrics.get(id.checked_sub(1)?)).cloned();
    match known {
        Some((name, _)) if name == PANICS => world.mistake("the module has caught a panic"),
        Some((name, count)) if count == labels.len() => {
            let value = value.cast_signed();
            let gauge = world.gauges.entry((name, labels)).or_default();
            gauge.keepers.insert(config);
            gauge.value = match KIND {
                ADD => gauge.value + value,
                SUBTRACT => gauge.value - value,
                SET => value,
                _ => gauge.value,
            };
        }
        Some((name, count)) => world.mistake(format!("{name} has {count} labels, not {}", labels.len())),
        None => world.mistake(format!("the metric {id} is unknown")),
    }
    SUCCESS
}

pub unsafe extern "C" fn tell<const KIND: u8>(
    config: Pointer,
    id: usize,
    labels: *const Bytes,
    count: usize,
    value: u64,
) -> u32 {
    // SAFETY: the module lends the labels.
    let labels = unsafe { texts(labels, count) };
    with(|world| {
        let known = world.config(config, "a change of a metric").is_some();
        if known { change::<KIND>(world, config as usize, id, labels, value) } else { NOT_FOUND }
    })
}

pub unsafe extern "C" fn tell_by_stream<const KIND: u8>(
    stream: Pointer,
    id: usize,
    labels: *const Bytes,
    count: usize,
    value: u64,
) -> u32 {
    // SAFETY: the module lends the labels.
    let labels = unsafe { texts(labels, count) };
    with(|world| {
        let config = world.stream(stream, "a change of a metric").map(|stream| stream.config);
        config.map_or(NOT_FOUND, |config| change::<KIND>(world, config, id, labels, value))
    })
}
