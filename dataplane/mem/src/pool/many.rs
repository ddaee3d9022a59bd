//! Handles by the burst: made of the addresses in a cache's stack, and taken apart into it again.
//!
//! A handle is two words, and a burst of them is what wide registers are good for, so processors that have them get the same loops
//! compiled for them. Ownership of a buffer is checked by the caller, or reported to it if another thread has the buffer.

use super::Home;
use super::buffer::{About, Buffer};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Makes a handle of each of these starts, at its place.
///
/// # Safety
/// As for [`Buffer::new`], of each of them.
#[inline(always)]
pub(super) unsafe fn make(starts: &[NonNull<u8>], about: About, to: &mut [MaybeUninit<Buffer>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what it is compiled for; the rest is the caller's to vouch for.
        return unsafe { wide::make(starts, about, to) };
    }
    // SAFETY: the caller's to vouch for.
    unsafe { make_here(starts, about, to) }
}

/// Puts the start of each of these buffers into a place, in any order. `false`: some are of another pool, and what the places hold
/// then means nothing.
#[inline(always)]
pub(super) fn part(buffers: &[Buffer], home: Home, to: &mut [NonNull<u8>]) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what it is compiled for.
        return unsafe { wide::part(buffers, home, to) };
    }
    part_here(buffers, home, to)
}

/// The loop of [`make`], compiled into its caller.
///
/// # Safety
/// As for [`make`].
#[inline(always)]
unsafe fn make_here(starts: &[NonNull<u8>], about: About, to: &mut [MaybeUninit<Buffer>]) {
    for (place, start) in to.iter_mut().zip(starts) {
        // SAFETY: the caller's to vouch for.
        place.write(unsafe { Buffer::new(*start, about) });
    }
}

/// The loop of [`part`].
#[inline(always)]
fn part_here(buffers: &[Buffer], home: Home, to: &mut [NonNull<u8>]) -> bool {
    let mut signs = 0;
    for (place, buffer) in to.iter_mut().zip(buffers) {
        *place = buffer.start();
        signs |= home.sign(buffer.start());
    }
    signs.cast_signed() >= 0
}

/// With registers of four words.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use super::{About, Buffer, Home, MaybeUninit, NonNull, make_here, part_here};
    use core::arch::x86_64::{
        __m256i, _mm256_castsi256_pd, _mm256_loadu_si256, _mm256_movemask_pd, _mm256_or_si256,
        _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_sub_epi64,
        _mm256_unpacklo_epi64,
    };

    /// Handles in two registers.
    const STEP: usize = 4;

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn make(starts: &[NonNull<u8>], about: About, to: &mut [MaybeUninit<Buffer>]) {
        // SAFETY: the caller's to vouch for.
        unsafe { make_here(starts, about, to) }
    }

    /// The first words of four handles are in one register after one exchange, though not in their order.
    #[target_feature(enable = "avx2")]
    #[allow(clippy::cast_ptr_alignment, reason = "the loads and the store are those that ask for none")]
    pub(super) unsafe fn part(buffers: &[Buffer], home: Home, to: &mut [NonNull<u8>]) -> bool {
        let (start, last) = (
            _mm256_set1_epi64x(home.start.cast_signed() as i64),
            _mm256_set1_epi64x((home.len - 1).cast_signed() as i64),
        );
        let (fours, rest) = buffers.as_chunks::<STEP>();
        let Some((places, after)) = to.split_at_mut_checked(fours.len() * STEP) else { return false };
        let mut signs = _mm256_setzero_si256();
        for (place, four) in places.as_chunks_mut::<STEP>().0.iter_mut().zip(fours) {
            let from = four.as_ptr().cast::<__m256i>();
            // SAFETY: four handles are two registers long, and four addresses are one.
            unsafe {
                let words = _mm256_unpacklo_epi64(_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
                let offsets = _mm256_sub_epi64(words, start);
                signs = _mm256_or_si256(signs, _mm256_or_si256(offsets, _mm256_sub_epi64(last, offsets)));
                _mm256_storeu_si256(place.as_mut_ptr().cast(), words);
            }
        }
        part_here(rest, home, after) && _mm256_movemask_pd(_mm256_castsi256_pd(signs)) == 0
    }
}
