//! The number of a JSON document, digit by digit, as a whole number. The arithmetic is exact.

/// The largest number that has a value, 2^53: JSON numbers above it differ between readers.
const LARGEST: u64 = 1 << 53;
/// Up to here, another digit fits.
const FITS: u64 = 1_000_000_000_000_000_000;

/// The part of a number that was read last (RFC 8259 §6).
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// A number that is being read: `mantissa` × 10^(`scale` + `exponent`), and a little more if
/// `is_more`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    phase: Phase,
    is_negative: bool,
    is_exponent_negative: bool,
    /// Whether a digit that did not fit the mantissa is not 0.
    is_more: bool,
    mantissa: u64,
    scale: i64,
    exponent: i64,
}

/// What a byte means for a number.
pub(crate) enum Step {
    /// The number goes on.
    More,
    /// The number ended before this byte, which may follow a number.
    End,
    /// No number has this byte.
    Malformed,
}

impl Number {
    /// The number that begins with this byte: a digit or `-`.
    pub(crate) fn new(first: u8) -> Number {
        let mut number = Number {
            phase: Phase::Minus,
            is_negative: first == b'-',
            is_exponent_negative: false,
            is_more: false,
            mantissa: 0,
            scale: 0,
            exponent: 0,
        };
        if first != b'-' {
            let _ = number.push(first);
        }
        number
    }

    pub(crate) fn push(&mut self, byte: u8) -> Step {
        use Phase::*;
        self.phase = match (self.phase, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => {
                self.digit(byte, 0);
                Whole
            }
            (Zero | Whole, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => {
                self.digit(byte, -1);
                Fraction
            }
            (Zero | Whole | Fraction, b'e' | b'E') => E,
            (E, b'+') => Sign,
            (E, b'-') => {
                self.is_exponent_negative = true;
                Sign
            }
            (E | Sign | Exponent, b'0'..=b'9') => {
                let digit = i64::from(byte & 0xf);
                self.exponent = self.exponent.saturating_mul(10).saturating_add(digit);
                Exponent
            }
            (_, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r') if self.is_complete() => return Step::End,
            _ => return Step::Malformed,
        };
        Step::More
    }

    /// A digit of the mantissa. `scale` is -1 behind the decimal point.
    fn digit(&mut self, byte: u8, scale: i64) {
        let digit = byte & 0xf;
        if self.mantissa < FITS {
            self.mantissa = self.mantissa.saturating_mul(10).saturating_add(u64::from(digit));
            self.scale = self.scale.saturating_add(scale);
        } else {
            self.is_more |= digit != 0;
            self.scale = self.scale.saturating_add(scale.saturating_add(1));
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Zero | Phase::Whole | Phase::Fraction | Phase::Exponent)
    }

    /// The number, rounded up; `None` if the number has a minus sign, is above 2^53, or if more has
    /// to follow.
    pub(crate) fn value(&self) -> Option<u64> {
        let (whole, is_more) = self.magnitude().filter(|_| !self.is_negative)?;
        Some(whole.saturating_add(u64::from(is_more))).filter(|value| *value <= LARGEST)
    }

    /// A whole number from -2^53 to 2^53 in its shortest decimal form, `12` for `1.2e1`. `None` for
    /// any other.
    pub(crate) fn whole(&self) -> Option<Box<[u8]>> {
        let (whole, is_more) = self.magnitude()?;
        let sign = if self.is_negative && whole > 0 { "-" } else { "" };
        let is_whole = !is_more && whole <= LARGEST;
        is_whole.then(|| [sign.as_bytes(), whole.to_string().as_bytes()].concat().into())
    }

    /// The sign, the first 19 digits without zeros at their end, and the exponent of ten: the same
    /// for `1.50` and `15e-1`. Zero has no sign.
    pub(crate) fn reduced(&self) -> (bool, u64, i64) {
        let mut mantissa = self.mantissa;
        if mantissa == 0 {
            return (false, 0, 0);
        }
        let mut scale = self.scale.saturating_add(self.signed_exponent());
        while mantissa.is_multiple_of(10) {
            mantissa /= 10;
            scale = scale.saturating_add(1);
        }
        (self.is_negative, mantissa, scale)
    }

    fn signed_exponent(&self) -> i64 {
        if self.is_exponent_negative { self.exponent.saturating_neg() } else { self.exponent }
    }

    /// The whole part of the number without its sign, and whether a fraction is left. `None` if the
    /// number is too large, or more has to follow.
    fn magnitude(&self) -> Option<(u64, bool)> {
        if !self.is_complete() {
            return None;
        }
        let (mut whole, mut is_more) = (self.mantissa, self.is_more);
        if whole == 0 {
            return Some((0, is_more));
        }
        let mut scale = self.scale.saturating_add(self.signed_exponent());
        // A digit was left out only beyond `FITS`, so only a fraction loses its digits.
        while scale > 0 {
            whole = whole.checked_mul(10)?;
            scale = scale.saturating_sub(1);
        }
        while scale < 0 && whole > 0 {
            is_more |= !whole.is_multiple_of(10);
            whole /= 10;
            scale = scale.saturating_add(1);
        }
        Some((whole, is_more))
    }
}
