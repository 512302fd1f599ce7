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

fn check(world: &mut World, config: usize, id: usize, labels: usize) -> u32 {
    let metrics = world.configs.get(&config).map(|config| &config.metrics);
    let known = metrics.and_then(|metrics| metrics.get(id.checked_sub(1)?)).cloned();
    match known {
        Some((name, _)) if name == PANICS => world.mistake("the module has caught a panic"),
        Some((_, count)) if count == labels => {}
        Some((name, count)) => world.mistake(format!("{name} has {count} labels, not {labels}")),
        None => world.mistake(format!("the metric {id} is unknown")),
    }
    SUCCESS
}

pub unsafe extern "C" fn tell(config: Pointer, id: usize, labels: *const Bytes, count: usize, _: u64) -> u32 {
    // SAFETY: the module lends the labels.
    unsafe { texts(labels, count) };
    with(|world| {
        let known = world.config(config, "a change of a metric").is_some();
        if known { check(world, config as usize, id, count) } else { NOT_FOUND }
    })
}

pub unsafe extern "C" fn tell_by_stream(
    stream: Pointer,
    id: usize,
    labels: *const Bytes,
    count: usize,
    _: u64,
) -> u32 {
    // SAFETY: the module lends the labels.
    unsafe { texts(labels, count) };
    with(|world| {
        let config = world.stream(stream, "a change of a metric").map(|stream| stream.config);
        config.map_or(NOT_FOUND, |config| check(world, config, id, count))
    })
}
