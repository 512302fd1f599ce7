//! Steps that keep a part of what an algorithm admits for important requests.
//!
//! ```text
//!   remaining  ████████████████████░░░░░░░░   an important request may take all of this
//!              └ for all requests ┘└ kept ┘   another request leaves at least `kept` units
//! ```
//!
//! A cell does not know what is kept: it counts all requests alike.

use super::{Admission, Algorithm, Verdict};
use diana_base::time::{Span, Time};

/// Like [`Algorithm::step`] for a request that has to leave `kept` units in the cell. `before` is
/// the state of the cell, and as long as the cell.
///
/// The verdict is that of a cell with `kept` units less, exact to the nanosecond:
/// [`Verdict::remaining`] does not include the kept units, `retry_after` is the time until the
/// request can leave them, and [`Verdict::more_in`] is the time until `remaining` grows. A request
/// of cost 0 is admitted, and only reads.
///
/// The algorithm admits without a delay, and `kept` plus one unit fit into a full cell.
///
/// ```
/// use diana_base::time::{Span, Time};
/// use diana_document::{Errors, Node, parse};
/// use diana_limiter::algorithm::{Admission, KINDS, Quota, step_keeping};
///
/// let (keys, errors) = (parse(b"{}")?, Errors::default());
/// let mut keys = Node::root(&keys, &errors).fields().ok_or("not an object")?;
/// let quota = Quota { rpu: 5, unit: Span::from_secs(10) };
/// let token_bucket = (KINDS[0].compile)(&mut keys, quota).ok_or("a mistake in the keys")?;
///
/// let (mut cell, now) = (vec![0; token_bucket.size()], Time::from_ns(1_700_000_000_000_000_000));
/// let before = cell.clone();
/// let first = step_keeping(&*token_bucket, &mut cell, &before, now, 3, 2);
/// assert!(first.admits());
/// assert_eq!(first.remaining, 0);
///
/// // Two of five units are left, and kept. The next one comes in 2 s.
/// let before = cell.clone();
/// let refused = step_keeping(&*token_bucket, &mut cell, &before, now, 1, 2);
/// assert_eq!(refused.admission, Admission::Refuse { retry_after: Some(Span::from_secs(2)) });
/// assert!(token_bucket.step(&mut cell, now, 2).admits());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn step_keeping(
    algorithm: &dyn Algorithm,
    cell: &mut [u8],
    before: &[u8],
    now: Time,
    cost: u64,
    kept: u64,
) -> Verdict {
    if kept == 0 {
        return algorithm.step(cell, now, cost);
    }
    if cost > 0 {
        let with_kept = algorithm.step(cell, now, cost.saturating_add(kept));
        if !with_kept.admits() {
            return without_kept(algorithm, cell, now, with_kept, kept);
        }
        cell.copy_from_slice(before);
    }
    let verdict = algorithm.step(cell, now, cost);
    without_kept(algorithm, cell, now, verdict, kept)
}

/// The verdict about a request that costs nothing on arrival: refused if not one unit is left
/// beside `kept` units. `before` is the state, and stays the state.
pub(crate) fn peek(
    algorithm: &dyn Algorithm,
    cell: &mut [u8],
    before: &[u8],
    now: Time,
    kept: u64,
) -> Verdict {
    let one = step_keeping(algorithm, cell, before, now, 1, kept);
    if !one.admits() {
        return one;
    }
    cell.copy_from_slice(before);
    step_keeping(algorithm, cell, before, now, 0, kept)
}

/// `verdict` without the kept units. `cell` is as the verdict left it.
fn without_kept(
    algorithm: &dyn Algorithm,
    cell: &mut [u8],
    now: Time,
    verdict: Verdict,
    kept: u64,
) -> Verdict {
    if let Some(remaining) = verdict.remaining.checked_sub(kept) {
        return Verdict { remaining, ..verdict };
    }
    // The kept units come back first. A refused step leaves the cell unchanged.
    let more_in = match algorithm.step(cell, now, kept.saturating_add(1)).admission {
        Admission::Refuse { retry_after } => retry_after.unwrap_or(Span::ZERO),
        Admission::Admit { .. } => Span::ZERO,
    };
    Verdict { remaining: 0, more_in, ..verdict }
}
