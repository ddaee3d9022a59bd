//! Random numbers for delays, ports and transaction identifiers: a keyed hash of a counter (`SipHash`).
//!
//! Peers that see some numbers cannot compute others. Not for keys.

use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip::SipHasher13;

/// A generator. Generators with different labels or numbers are independent.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    keyed: SipHasher13,
    count: u64,
}

impl Random {
    /// `secret` is that of the configuration; `number` separates the users of a label.
    pub(crate) fn new(secret: &[u8; 16], label: &str, number: u64) -> Self {
        let mut keyed = SipHasher13::new_with_key(secret);
        keyed.write_u64(number);
        keyed.write(label.as_bytes());
        Self { keyed, count: 0 }
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.count = self.count.wrapping_add(1);
        let mut hasher = self.keyed;
        hasher.write_u64(self.count);
        hasher.finish()
    }

    /// The next number below `end`; 0 if that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A duration from zero to `longest`, in steps of a microsecond.
    pub(crate) fn delay(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_separate_generators_and_numbers_stay_in_range() {
        let mut one = Random::new(&[1; 16], "same", 1);
        let mut two = Random::new(&[1; 16], "same", 2);
        assert!((0..100).all(|_| one.next() != two.next()));
        assert!((0..1000).all(|_| one.below(7) < 7));
        assert!((0..7).all(|wanted| (0..1000).any(|_| two.below(7) == wanted)));
        assert_eq!((one.below(0), one.delay(Duration::ZERO)), (0, Duration::ZERO));
    }
}
