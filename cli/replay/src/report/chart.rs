//! Charts as SVG. The width is that of the page, the height is fixed, so that labels stay readable
//! on a phone: places across are percentages, and only curves are stretched.

pub mod curve;
pub mod heat;
pub mod peaks;
pub mod scale;
pub mod spark;
pub mod time;
