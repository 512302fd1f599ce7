//! Partial enforcement: for which of its actors a rule refuses, while it is in shadow for the
//! others. The position depends neither on the gateway's seed nor on the part, so every gateway
//! refuses the same actors, and those refused at 5 % are refused at 20 %.
//!
//! ```text
//!   actor ─► RolloutHash ─┐              0 %        5 %                  100 %
//!                         ├─► a position ├──────────┼─────────────────────┤
//!   identity of the rule ─┘                refuses    only counts
//! ```

use super::key::{ActorKey, KeyBuffer};
use crate::actor::NamedActor;
use crate::cells::table::Hasher;
use crate::request::Request;
use diana_base::prng::mix;
use std::fmt;

/// The part of its actors for which a rule is enforced, in steps of 0.01 %.
///
/// ```
/// use diana_limiter::policy::Enforce;
///
/// let part = Enforce::parse("0.50 %").expect("a percentage");
/// assert_eq!(part.to_string(), "0.5%");
/// assert!(part > Enforce::NOBODY && part < Enforce::EVERYBODY);
/// assert_eq!(Enforce::parse("100%"), Some(Enforce::EVERYBODY));
/// for wrong in ["5", "0.125%", "101%", "-1%", ".5%"] {
///     assert_eq!(Enforce::parse(wrong), None);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Enforce(u16);

/// What decides whether a rule is enforced for an actor: a hash of the actor without the gateway's
/// seed. The default stands for a request that shows no actor and no address. Rules are enforced
/// for it, because a client could hide them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolloutHash(Option<u64>);

/// The parts of the whole.
const WHOLE: u16 = 10_000;

impl Enforce {
    /// The rule is in shadow for everybody.
    pub const NOBODY: Enforce = Enforce(0);

    /// The rule is enforced for everybody.
    pub const EVERYBODY: Enforce = Enforce(WHOLE);

    /// The part in a percentage such as `5%` or `0.25%`. `None` for any other text, for more than
    /// two decimals, and for more than 100 %.
    #[must_use]
    pub fn parse(text: &str) -> Option<Enforce> {
        let number = text.trim().strip_suffix('%')?.trim_end();
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| {
            !digits.is_empty() && digits.len() < 10 && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let hundredths = match decimals.trim_end_matches('0') {
            "" => 0,
            tenths @ ("1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9") => {
                tenths.parse::<u16>().ok()?.checked_mul(10)?
            }
            hundredths if hundredths.len() == 2 => hundredths.parse().ok()?,
            _ => return None,
        };
        let part = whole.parse::<u16>().ok()?.checked_mul(100)?.checked_add(hundredths)?;
        (part <= WHOLE).then_some(Enforce(part))
    }

    /// The part in hundredths of a percent.
    pub(crate) fn hundredths(self) -> u16 {
        self.0
    }

    /// Whether the actor decides.
    pub(crate) fn is_partial(self) -> bool {
        self != Enforce::NOBODY && self != Enforce::EVERYBODY
    }

    /// Whether the rule of this identity is enforced for the actor.
    #[inline]
    pub(crate) fn includes(self, rule: u64, actor: RolloutHash) -> bool {
        match self {
            Enforce::EVERYBODY => true,
            Enforce::NOBODY => false,
            Enforce(part) => actor.position(rule).is_none_or(|position| position < part),
        }
    }
}

impl fmt::Display for Enforce {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (whole, hundredths) = (self.0 / 100, self.0 % 100);
        match (hundredths, hundredths % 10) {
            (0, _) => write!(f, "{whole}%"),
            (_, 0) => write!(f, "{whole}.{}%", hundredths / 10),
            _ => write!(f, "{whole}.{hundredths:02}%"),
        }
    }
}

impl RolloutHash {
    /// The hash of the actor with this key.
    pub(crate) fn of_key(key: ActorKey) -> RolloutHash {
        RolloutHash(Some(Hasher::name(key.bytes())))
    }

    /// The hash of the client's address, as for an actor that the address replaces. `buffer` is
    /// working memory.
    pub(crate) fn of_address(address: &NamedActor, request: &Request, buffer: &mut KeyBuffer) -> RolloutHash {
        buffer.read_address(address, request, RolloutHash::of_key).unwrap_or_default()
    }

    /// Where the actor stands among those of the rule, from 0 to 9,999.
    #[inline(never)]
    fn position(self, rule: u64) -> Option<u16> {
        // Maps the hash evenly by a multiplication (Lemire 2019).
        let place = u128::from(mix(self.0? ^ rule)).saturating_mul(WHOLE.into()) >> 64;
        u16::try_from(place).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> Enforce {
        Enforce::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    fn user(number: u32) -> RolloutHash {
        RolloutHash::of_key(KeyBuffer::of_value(format!("\x08\0\0\0user-{number:03}").as_bytes()).key())
    }

    fn enforced(text: &str, rule: &str) -> Vec<u32> {
        let (part, rule) = (part(text), Hasher::name(rule.as_bytes()));
        (0..10_000).filter(|number| part.includes(rule, user(*number))).collect()
    }

    #[test]
    fn percentages_have_at_most_two_decimals() {
        for (text, hundredths) in [
            ("0%", 0),
            ("0.00%", 0),
            ("0.01%", 1),
            ("0.05%", 5),
            ("0.5%", 50),
            (" 5 % ", 500),
            ("5.000%", 500),
            ("12.34%", 1_234),
            ("99.99%", 9_999),
            ("100.0%", 10_000),
        ] {
            assert_eq!(Enforce::parse(text), Some(Enforce(hundredths)), "{text}");
            assert_eq!(part(&part(text).to_string()), part(text), "{text}");
        }
        for text in [
            "",
            "%",
            "5",
            "0.05",
            "5 percent",
            "5%%",
            "+5%",
            "-0%",
            "5.%",
            ".5%",
            "1e1%",
            "5,5%",
            "0.001%",
            "100.01%",
            "101%",
            "65536%",
            "655.36%",
            "99999999999%",
            "0x5%",
            "٥%",
        ] {
            assert_eq!(Enforce::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_part_is_the_same_share_of_the_actors_of_every_rule() {
        for (text, fair) in [("0.5%", 50_usize), ("5%", 500), ("20%", 2_000), ("50%", 5_000)] {
            let all: Vec<Vec<u32>> = (0..8).map(|rule| enforced(text, &format!("rule-{rule}"))).collect();
            for users in &all {
                assert!(users.len().abs_diff(fair) < 4 * fair.isqrt(), "{text}: {}", users.len());
            }
            // Rules select their actors independently: the parts of two rules overlap by chance
            // only.
            let both = all[0].iter().filter(|user| all[1].contains(user)).count();
            let expected = fair * fair / 10_000;
            assert!(both.abs_diff(expected) <= 5 * expected.isqrt().max(1), "{text}: {both}");
        }
        assert_eq!((enforced("0%", "a").len(), enforced("100%", "a").len()), (0, 10_000));
    }

    #[test]
    fn an_actor_of_a_part_is_in_every_larger_part() {
        let mut smaller = Vec::new();
        for text in ["0%", "0.01%", "0.5%", "1%", "5%", "5.01%", "20%", "99.99%", "100%"] {
            let larger = enforced(text, "login");
            assert!(smaller.iter().all(|user| larger.contains(user)), "{text}");
            smaller = larger;
        }
    }

    /// Another release refuses the same actors.
    #[test]
    fn the_positions_never_change() {
        let of =
            |rule: &[u8]| [0, 1, 2, 7, 999].map(|number| user(number).position(Hasher::name(rule)).unwrap());
        assert_eq!(of(b"login"), [9_442, 7_769, 4_323, 1_222, 3_455]);
        assert_eq!(of(b"other"), [671, 8_888, 1_602, 9_609, 1_204]);
    }

    /// A client that hides the actor and the address gains nothing.
    #[test]
    fn rules_are_enforced_for_requests_that_show_nothing() {
        let nothing = RolloutHash::default();
        for (text, is_enforced) in [("0%", false), ("0.01%", true), ("99.99%", true), ("100%", true)] {
            assert_eq!(part(text).includes(Hasher::name(b"login"), nothing), is_enforced, "{text}");
        }
    }
}
