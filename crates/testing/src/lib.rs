//! What stands in for a host in tests, fuzz targets and simulations. No released file contains it.

pub mod contract;
pub mod host;
pub mod panics;
pub mod shared_data;
