//! Steps that leave headroom: a part of what a counter admits, for requests of high priority.
//!
//! ```text
//!   remaining  ████████████████████░░░░░░░░   a request of high priority may take all of this
//!              └ for all requests ┘headroom   another request leaves at least `headroom` units
//! ```
//!
//! A cell does not know the headroom: it counts all requests alike.

use super::counter::Counter;
use crate::algorithm::{Admission, Verdict};
use diana_base::time::{Span, Time};

impl Counter {
    /// Like [`Counter::step`] for a request that has to leave `headroom` units. `before` is the
    /// state, and as long as the state.
    ///
    /// The verdict is that of a state with `headroom` units less, exact to the nanosecond:
    /// [`Verdict::remaining`] does not include the headroom, `retry_after` is the time until the
    /// request can leave it, and [`Verdict::more_in`] is the time until `remaining` grows. A
    /// request of cost 0 is admitted, and only reads.
    ///
    /// The algorithm admits without a delay, and `headroom` plus one unit fit into a full cell.
    ///
    /// ```
    /// use diana_base::time::{Span, Time};
    /// use diana_document::{Errors, Node, parse};
    /// use diana_limiter::algorithm::{Admission, KINDS, Quota};
    /// use diana_limiter::policy::Counter;
    ///
    /// let (keys, errors) = (parse(b"{}")?, Errors::default());
    /// let mut keys = Node::root(&keys, &errors).fields().ok_or("not an object")?;
    /// let quota = Quota { rpu: 5, unit: Span::from_secs(10) };
    /// let token_bucket = (KINDS[0].compile)(&mut keys, quota).ok_or("a mistake in the keys")?;
    /// let counter = Counter::new(quota, token_bucket);
    ///
    /// let (mut state, now) = (vec![0; counter.size()], Time::from_ns(1_700_000_000_000_000_000));
    /// let before = state.clone();
    /// let first = counter.step_with_headroom(&mut state, &before, now, 3, 2);
    /// assert!(first.admits());
    /// assert_eq!(first.remaining, 0);
    ///
    /// // Two of five units are left, which are the headroom. The next one comes in 2 s.
    /// let before = state.clone();
    /// let refused = counter.step_with_headroom(&mut state, &before, now, 1, 2);
    /// let wait = Admission::Refuse { retry_after: Some(Span::from_secs(2)) };
    /// assert_eq!(refused.admission, wait);
    /// assert_eq!(counter.peek(&mut state, &before, now, 2).admission, wait);
    /// assert!(counter.step(&mut state, now, 2).admits());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn step_with_headroom(
        &self,
        state: &mut [u8],
        before: &[u8],
        now: Time,
        cost: u64,
        headroom: u64,
    ) -> Verdict {
        if headroom == 0 {
            return self.step(state, now, cost);
        }
        if cost > 0 {
            let with_headroom = self.step(state, now, cost.saturating_add(headroom));
            if !with_headroom.admits() {
                return self.without_headroom(state, now, with_headroom, headroom);
            }
            state.copy_from_slice(before);
        }
        let verdict = self.step(state, now, cost);
        self.without_headroom(state, now, verdict, headroom)
    }

    /// The verdict about a request that costs nothing on arrival: refused if not one unit is left
    /// beside `headroom` units. `before` is the state, and stays the state.
    pub fn peek(&self, state: &mut [u8], before: &[u8], now: Time, headroom: u64) -> Verdict {
        let one = self.step_with_headroom(state, before, now, 1, headroom);
        if !one.admits() {
            return one;
        }
        state.copy_from_slice(before);
        self.step_with_headroom(state, before, now, 0, headroom)
    }

    /// `verdict` without the headroom. `state` is as the verdict left it.
    fn without_headroom(&self, state: &mut [u8], now: Time, verdict: Verdict, headroom: u64) -> Verdict {
        if let Some(remaining) = verdict.remaining.checked_sub(headroom) {
            return Verdict { remaining, ..verdict };
        }
        // The headroom comes back first. A refused step leaves the state unchanged.
        let more_in = match self.step(state, now, headroom.saturating_add(1)).admission {
            Admission::Refuse { retry_after } => retry_after.unwrap_or(Span::ZERO),
            Admission::Admit { .. } => Span::ZERO,
        };
        Verdict { remaining: 0, more_in, ..verdict }
    }
}
