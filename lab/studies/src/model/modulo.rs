//! Remainders by multiplication for a divisor known only at run time: on real memory a division would cost a thread
//! more than the misses to be measured.

/// A divisor with its inverse.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulo {
    by: u64,
    /// 2^64 / `by`, rounded down
    inverse: u64,
}

impl Modulo {
    /// Creates a divisor, which must be at least 1.
    pub(super) fn new(by: u64) -> Modulo {
        Modulo { by, inverse: ((1_u128 << 64) / u128::from(by)).min(u128::from(u64::MAX)) as u64 }
    }

    /// Returns the remainder. The inverse is rounded down, so the quotient is too small by at most one.
    #[inline]
    pub(super) fn of(self, n: u64) -> u64 {
        let quotient = ((u128::from(n) * u128::from(self.inverse)) >> 64) as u64;
        let rest = n - quotient * self.by;
        if rest >= self.by { rest - self.by } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::Modulo;

    #[test]
    fn remainders_are_those_of_a_division() {
        for by in [1, 2, 3, 31, 64, 256, 1023, 163_456, 163_457, u64::from(u32::MAX), 1 << 40] {
            let modulo = Modulo::new(by);
            for near in [0, by, 7 * by, 163_455 * 101_021, (1 << 50) / by * by, u64::MAX / by * by, u64::MAX]
            {
                for n in [near.wrapping_sub(1), near, near.saturating_add(1)] {
                    assert_eq!(modulo.of(n), n % by, "{n} by {by}");
                }
            }
        }
    }
}
