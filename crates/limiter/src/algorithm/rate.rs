//! Rates and instants as exact rationals, so that nothing is rounded and no rate drifts. `unit /
//! rpu` is rarely a whole number of nanoseconds. An instant therefore has a fraction over `rpu /
//! gcd(rpu, unit)`, which makes all sums exact.

use super::Allowance;

/// An instant or a span: nanoseconds, and a fraction of one over the `per` of its [`Rate`]. Without
/// padding, because each demand of a request carries several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(4))]
pub(super) struct Exact {
    pub(super) ns: u64,
    pub(super) fraction: u32,
}

impl Exact {
    pub(super) fn whole(ns: u64) -> Exact {
        Exact { ns, fraction: 0 }
    }

    pub(super) fn ceil(self) -> u64 {
        self.ns.saturating_add(u64::from(self.fraction > 0))
    }
}

const NS_PER_US: u64 = 1_000;

/// The time per token: `ns / per` nanoseconds, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(Rust, packed(4))]
pub(super) struct Rate {
    pub(super) ns: u64,
    pub(super) per: u32,
}

impl Rate {
    pub(super) fn of(quota: Allowance) -> Rate {
        let (unit, rpu) = (quota.unit.as_ns().max(1), quota.rpu.clamp(1, Allowance::MAX_RPU));
        let common = gcd(unit, rpu);
        let lowest = |number: u64| number.checked_div(common).unwrap_or(number).max(1);
        Rate { ns: lowest(unit), per: u32::try_from(lowest(rpu)).unwrap_or(u32::MAX) }
    }

    /// The same rate in microseconds, for units that are whole microseconds.
    pub(super) fn in_us(self) -> Rate {
        let common = gcd(self.ns, NS_PER_US);
        let rest = NS_PER_US.checked_div(common).unwrap_or(1);
        let per = u64::from(self.per).saturating_mul(rest);
        Rate {
            ns: self.ns.checked_div(common).unwrap_or(1).max(1),
            per: u32::try_from(per).unwrap_or(u32::MAX),
        }
    }

    /// How long `tokens` take. Saturates beyond the limits of the configuration.
    pub(super) fn span_of(self, tokens: u64) -> Exact {
        let per = u64::from(self.per);
        if let Some(all) = product(tokens, self.ns) {
            // Divisions are slow, and most rates need none here.
            let ns = if per == 1 { all } else { all.checked_div(per).unwrap_or(0) };
            let fraction = all.saturating_sub(ns.wrapping_mul(per));
            return Exact { ns, fraction: u32::try_from(fraction).unwrap_or(0) };
        }
        let all = u128::from(tokens).saturating_mul(u128::from(self.ns));
        let (ns, fraction) = (all.checked_div(per.into()), all.checked_rem(per.into()));
        Exact {
            ns: u64::try_from(ns.unwrap_or(0)).unwrap_or(u64::MAX),
            fraction: u32::try_from(fraction.unwrap_or(0)).unwrap_or(0),
        }
    }

    /// How many whole tokens come in `span`.
    pub(super) fn tokens_in(self, span: Exact) -> u64 {
        self.tokens_and_next(span).0
    }

    /// How many whole tokens come in `span`, and how many nanoseconds after it the next one comes,
    /// rounded up.
    pub(super) fn tokens_and_next(self, span: Exact) -> (u64, u64) {
        let (per, fraction) = (u64::from(self.per), u64::from(span.fraction));
        let (tokens, rest) = match product(span.ns, per).and_then(|all| all.checked_add(fraction)) {
            Some(all) => {
                let tokens = all.checked_div(self.ns).unwrap_or(0);
                (tokens, all.saturating_sub(tokens.wrapping_mul(self.ns)))
            }
            None => {
                let all = u128::from(span.ns).saturating_mul(per.into()).saturating_add(fraction.into());
                let (tokens, rest) = (all.checked_div(self.ns.into()), all.checked_rem(self.ns.into()));
                let rest = u64::try_from(rest.unwrap_or(0)).unwrap_or(0);
                (u64::try_from(tokens.unwrap_or(0)).unwrap_or(u64::MAX), rest)
            }
        };
        let next = self.ns.saturating_sub(rest);
        (tokens, if per == 1 { next } else { next.div_ceil(per.max(1)) })
    }

    /// How long the tokens that come in `span`, and `more` tokens or fewer, take at the rate `to`.
    /// Rounded up if `up`, else down, and at least zero.
    pub(super) fn convert(self, span: Exact, more: i64, to: Rate, up: bool) -> Exact {
        let all = u128::from(span.ns).saturating_mul(self.per.into()).saturating_add(span.fraction.into());
        let (ns, per) = (u128::from(self.ns.max(1)), u128::from(to.per.max(1)));
        let (tokens, rest) = (all.checked_div(ns).unwrap_or(0), all.checked_rem(ns).unwrap_or(0));
        let tokens = tokens.checked_add_signed(more.into());
        let (tokens, rest) = tokens.map_or((0, 0), |tokens| (tokens, rest));
        let part = rest.saturating_mul(to.ns.into());
        let part = if up { part.div_ceil(ns) } else { part.checked_div(ns).unwrap_or(0) };
        let all = tokens.saturating_mul(to.ns.into()).saturating_add(part);
        Exact {
            ns: u64::try_from(all.checked_div(per).unwrap_or(0)).unwrap_or(u64::MAX),
            fraction: u32::try_from(all.checked_rem(per).unwrap_or(0)).unwrap_or(0),
        }
    }

    pub(super) fn add(self, a: Exact, b: Exact) -> Exact {
        let fraction = u64::from(a.fraction).saturating_add(b.fraction.into());
        let ns = a.ns.saturating_add(b.ns);
        match fraction.checked_sub(self.per.into()) {
            Some(carried) => {
                Exact { ns: ns.saturating_add(1), fraction: u32::try_from(carried).unwrap_or(u32::MAX) }
            }
            None => Exact { ns, fraction: u32::try_from(fraction).unwrap_or(u32::MAX) },
        }
    }

    /// `a − b`, saturating at zero.
    pub(super) fn sub(self, a: Exact, b: Exact) -> Exact {
        if a <= b {
            return Exact::default();
        }
        match a.fraction.checked_sub(b.fraction) {
            Some(fraction) => Exact { ns: a.ns.saturating_sub(b.ns), fraction },
            None => Exact {
                ns: a.ns.saturating_sub(b.ns).saturating_sub(1),
                fraction: a.fraction.saturating_add(self.per.saturating_sub(b.fraction)),
            },
        }
    }
}

/// A span or an instant in the arithmetic of a rate: [`Exact`], or a whole number of nanoseconds if
/// tokens come at whole nanoseconds, as with most rates. Whole numbers are an [`Exact`] without a
/// fraction, and take half as long.
pub(super) trait Amount: Copy + Ord + Default {
    fn of(exact: Exact) -> Self;
    fn exact(self) -> Exact;
    fn add(rate: Rate, a: Self, b: Self) -> Self;
    /// `a − b`, saturating at zero.
    fn sub(rate: Rate, a: Self, b: Self) -> Self;
    fn span_of(rate: Rate, tokens: u64) -> Self;
    /// See [`Rate::tokens_and_next`].
    fn tokens_and_next(self, rate: Rate) -> (u64, u64);
}

impl Amount for Exact {
    fn of(exact: Exact) -> Exact {
        exact
    }

    fn exact(self) -> Exact {
        self
    }

    fn add(rate: Rate, a: Exact, b: Exact) -> Exact {
        rate.add(a, b)
    }

    fn sub(rate: Rate, a: Exact, b: Exact) -> Exact {
        rate.sub(a, b)
    }

    fn span_of(rate: Rate, tokens: u64) -> Exact {
        rate.span_of(tokens)
    }

    fn tokens_and_next(self, rate: Rate) -> (u64, u64) {
        rate.tokens_and_next(self)
    }
}

/// For a rate with `per` 1.
impl Amount for u64 {
    fn of(exact: Exact) -> u64 {
        exact.ns
    }

    fn exact(self) -> Exact {
        Exact::whole(self)
    }

    fn add(_: Rate, a: u64, b: u64) -> u64 {
        a.saturating_add(b)
    }

    fn sub(_: Rate, a: u64, b: u64) -> u64 {
        a.saturating_sub(b)
    }

    fn span_of(rate: Rate, tokens: u64) -> u64 {
        product(tokens, rate.ns).unwrap_or(u64::MAX)
    }

    fn tokens_and_next(self, rate: Rate) -> (u64, u64) {
        let tokens = self.checked_div(rate.ns).unwrap_or(0);
        (tokens, rate.ns.saturating_sub(self.saturating_sub(tokens.wrapping_mul(rate.ns))))
    }
}

/// `a · b`. `None` if the product does not fit. In WebAssembly `checked_mul` multiplies in 128
/// bits, which takes 30 instructions; the lengths of most factors show that their product fits.
fn product(a: u64, b: u64) -> Option<u64> {
    let fits = a.leading_zeros().saturating_add(b.leading_zeros()) >= u64::BITS;
    if fits { Some(a.wrapping_mul(b)) } else { a.checked_mul(b) }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a
}
