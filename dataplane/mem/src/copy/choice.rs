//! Copy-kernel selection: by CPU feature, by name or by measurement.

use super::Kernel;
use core::fmt;

/// A copy kernel. Only kernels listed by [`supported`] may run on this processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// [`super::Portable`]: volatile eight-byte accesses.
    Portable,
    /// SSE2, 16-byte registers.
    Sse2,
    /// AVX2, 32-byte registers.
    Avx2,
    /// AVX-512, 64-byte registers.
    Avx512,
}

impl Choice {
    /// Name in reports and configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Choice::Portable => "portable",
            Choice::Sse2 => "sse2",
            Choice::Avx2 => "avx2",
            Choice::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Kernels supported by this processor: the portable one first, the expected fastest last.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn supported() -> Vec<Choice> {
    let mut choices = vec![Choice::Portable, Choice::Sse2];
    if is_x86_feature_detected!("avx2") {
        choices.push(Choice::Avx2);
    }
    let masks = is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
    if masks && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("bmi2") {
        choices.push(Choice::Avx512);
    }
    choices
}

/// Kernels supported by this processor.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub fn supported() -> Vec<Choice> {
    vec![Choice::Portable]
}

/// Runs an expression with type `$K` bound to the chosen kernel. Use at most once per burst: the expression is compiled
/// once per kernel. There is no code for the portable kernel, because SSE2 is always faster. Development builds without
/// the feature `every-kernel` have SSE2 only, and builds with the feature `only-avx2` have AVX2 only: code for each
/// kernel takes a third of their build.
///
/// ```
/// let mut to = [0; 100];
/// let choice = mem::copy::supported()[0];
/// // SAFETY: two private arrays of the same length, and the kernel is supported.
/// mem::with_kernel!(choice, K => unsafe {
///     <K as mem::copy::Kernel>::copy(to.as_mut_ptr(), [7; 100].as_ptr(), 100)
/// });
/// assert_eq!(to, [7; 100]);
/// ```
#[cfg(all(
    target_arch = "x86_64",
    not(miri),
    not(feature = "only-avx2"),
    any(feature = "every-kernel", not(debug_assertions))
))]
#[macro_export]
macro_rules! with_kernel {
    ($choice:expr, $K:ident => $body:expr) => {
        match $choice {
            $crate::copy::Choice::Avx512 => $crate::bound_kernel!(Avx512, $K => $body),
            $crate::copy::Choice::Avx2 => $crate::bound_kernel!(Avx2, $K => $body),
            _ => $crate::bound_kernel!(Sse2, $K => $body),
        }
    };
}

/// Runs an expression with type `$K` bound to [`copy::Only`](crate::copy::Only), the only kernel of this build.
#[cfg(not(all(
    target_arch = "x86_64",
    not(miri),
    not(feature = "only-avx2"),
    any(feature = "every-kernel", not(debug_assertions))
)))]
#[macro_export]
macro_rules! with_kernel {
    ($choice:expr, $K:ident => $body:expr) => {{
        let _: $crate::copy::Choice = $choice;
        $crate::bound_kernel!(Only, $K => $body)
    }};
}

/// As [`with_kernel`](crate::with_kernel), with code for every kernel: for measurements and tests.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[macro_export]
macro_rules! with_any_kernel {
    ($choice:expr, $K:ident => $body:expr) => {
        match $choice {
            $crate::copy::Choice::Portable => $crate::bound_kernel!(Portable, $K => $body),
            $crate::copy::Choice::Sse2 => $crate::bound_kernel!(Sse2, $K => $body),
            $crate::copy::Choice::Avx2 => $crate::bound_kernel!(Avx2, $K => $body),
            $crate::copy::Choice::Avx512 => $crate::bound_kernel!(Avx512, $K => $body),
        }
    };
}

/// As [`with_kernel`](crate::with_kernel).
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[macro_export]
macro_rules! with_any_kernel {
    ($choice:expr, $K:ident => $body:expr) => {
        $crate::with_kernel!($choice, $K => $body)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! bound_kernel {
    ($kernel:ident, $K:ident => $body:expr) => {{
        type $K = $crate::copy::$kernel;
        $body
    }};
}

/// Kernels among which [`choose`] selects: those with code in every data path.
pub(super) fn candidates() -> Vec<Choice> {
    let supported = supported();
    match supported.as_slice() {
        [_] => supported,
        _ if cfg!(feature = "only-avx2") => {
            assert!(supported.contains(&Choice::Avx2), "built for AVX2 only, which this processor lacks");
            vec![Choice::Avx2]
        }
        _ if cfg!(all(debug_assertions, not(feature = "every-kernel"))) => vec![Choice::Sse2],
        [_, others @ ..] => others.to_vec(),
        [] => Vec::new(),
    }
}

/// Measures the kernels with code in every data path on private memory, if there are several, and returns the best over
/// a minimum-size and a full-size Ethernet frame. `ticks` reads a monotonic clock of any fine unit. Takes one to two
/// milliseconds.
pub fn choose(mut ticks: impl FnMut() -> u64) -> Choice {
    let candidates = candidates();
    if let [only] = candidates[..] {
        return only;
    }
    let mut arena = Arena::new();
    let costs: Vec<_> = candidates.iter().map(|&c| arena.cost_of(c, &mut ticks)).collect();
    let best = |size: usize| costs.iter().map(|cost| cost[size]).fold(f64::INFINITY, f64::min);
    let (short, long) = (best(0), best(1));
    // Normalise each size by its best cost, so that both sizes have equal weight.
    let slowness = |cost: &[f64; 2]| cost[0] / short + cost[1] / long;
    let ranked = candidates.iter().zip(&costs).min_by(|a, b| slowness(a.1).total_cmp(&slowness(b.1)));
    ranked.map_or(Choice::Portable, |(choice, _)| *choice)
}

/// Private memory laid out like packets: one per 2 KiB slot, behind a header, in bursts.
struct Arena {
    from: Vec<u8>,
    to: Vec<u8>,
}

const SLOT: usize = 2048 + 128;
const BURST: usize = 32;
const HEADER: usize = 12;
const ROUNDS: usize = 6;
/// Bytes per copy, and copies per round.
const SIZES: [(usize, usize); 2] = [(64, 30 * BURST), (1514, 6 * BURST)];

impl Arena {
    fn new() -> Self {
        Self { from: vec![1; SLOT * BURST], to: vec![2; SLOT * BURST] }
    }

    /// Ticks per copy, for each size; at least one tick per round, to avoid division by zero with a coarse clock.
    fn cost_of(&mut self, choice: Choice, ticks: &mut impl FnMut() -> u64) -> [f64; 2] {
        SIZES.map(|(len, copies)| {
            // The minimum excludes interrupted rounds.
            let round = |_| crate::with_any_kernel!(choice, K => self.round::<K>(len, copies, ticks));
            let fastest = (0..ROUNDS).map(round).min().unwrap_or(1);
            fastest.max(1) as f64 / copies as f64
        })
    }

    fn round<K: Kernel>(&mut self, len: usize, copies: usize, ticks: &mut impl FnMut() -> u64) -> u64 {
        let start = ticks();
        for i in 0..copies {
            let at = i % BURST * SLOT + HEADER;
            let (to, from) = (&mut self.to[at..at + len], &self.from[at..at + len]);
            // SAFETY: two private ranges of the same length, and the kernel is supported.
            unsafe { K::copy(to.as_mut_ptr(), from.as_ptr(), len) };
        }
        ticks().saturating_sub(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_and_choice_names_agree() {
        for choice in supported() {
            crate::with_any_kernel!(choice, K => assert_eq!(K::NAME, choice.name()));
        }
    }

    #[test]
    fn fastest_kernel_is_selected() {
        // Only one without the feature `every-kernel`.
        let candidates = candidates();
        // With this clock the last kernel is fast and the others slow: each round reads it twice.
        let (mut reads, mut now) = (0, 0);
        let last = (candidates.len() - 1) * SIZES.len() * ROUNDS * 2;
        let choice = choose(|| {
            now += if reads >= last { 1 } else { 1000 };
            reads += 1;
            now
        });
        assert_eq!(choice, *candidates.last().unwrap());
    }

    #[test]
    fn constant_clock_selects_a_candidate() {
        assert!(candidates().contains(&choose(|| 0)));
    }
}
