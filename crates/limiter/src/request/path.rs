//! A request's path in normal form, under every interpretation that backends use.
//!
//! Two spellings of one path have one normal form: `/`, then segments with single slashes between
//! them. No segment is empty, `.` or `..`, so a path never climbs above `/`. A trailing slash is
//! dropped; otherwise `/api/` would bypass a limit on `=/api`. Case is kept.
//!
//! Within a segment, each `pchar` character (RFC 3986 §3.3) is written literally. Every other byte
//! is an upper-case escape (§6.2.2.1). This decodes more than the unreserved characters of
//! §6.2.2.2: backends treat `%3A` and `:` alike, so a client that could choose between the two
//! would have two quotas. Escapes are decoded once: `%252e` is no dot. A `%` that starts no escape
//! is text, `%25`.
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
