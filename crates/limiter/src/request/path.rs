//! A request's path in normal form, under every interpretation that backends use: single slashes,
//! no empty, `.` or `..` segment, no trailing slash, `pchar` literal and every other byte an
//! upper-case escape (RFC 3986 §3.3, §6.2.2.1), decoded once.
//!
//! ```text
//!   //a/./b%7e/../c%3ad/?q=1   ─►   /a/c:d
//!   /x/..;/admin               ─►   /x/..;/admin   and, for servlet containers,   /admin
//!   //x/admin                  ─►   /x/admin       and, for URL parsers,          /admin
//! ```

mod normal;
mod readings;

pub(crate) use normal::is_parent;
pub use normal::{Path, segment};
pub use readings::Readings;
