//! Bulk conversion between buffer handles and the addresses on a cache's stack.
//!
//! A handle is two words, and bursts of handles vectorise well, so the loops are also compiled for AVX2. [`part`]
//! reports buffers of other pools; [`make`] relies on its caller for ownership.

use super::PoolRange;
use super::buffer::{BufMeta, Buffer};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Creates a handle for each start address, at the same index of `to`.
///
/// # Safety
/// As for [`Buffer::new`], for each start address.
#[inline(always)]
pub(super) unsafe fn make(starts: &[NonNull<u8>], about: BufMeta, to: &mut [MaybeUninit<Buffer>]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the rest is guaranteed by the caller.
        return unsafe { wide::make(starts, about, to) };
    }
    // SAFETY: guaranteed by the caller.
    unsafe { make_here(starts, about, to) }
}

/// Writes the start address of each buffer to `to`, in any order. Returns `false` if a buffer belongs to another pool;
/// the content of `to` is then unspecified.
#[inline(always)]
pub(super) fn part(buffers: &[Buffer], home: PoolRange, to: &mut [NonNull<u8>]) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { wide::part(buffers, home, to) };
    }
    part_here(buffers, home, to)
}

/// Loop body of [`make`].
///
/// # Safety
/// As for [`make`].
#[inline(always)]
unsafe fn make_here(starts: &[NonNull<u8>], about: BufMeta, to: &mut [MaybeUninit<Buffer>]) {
    for (place, start) in to.iter_mut().zip(starts) {
        // SAFETY: guaranteed by the caller.
        place.write(unsafe { Buffer::new(*start, about) });
    }
}

/// Loop body of [`part`].
#[inline(always)]
fn part_here(buffers: &[Buffer], home: PoolRange, to: &mut [NonNull<u8>]) -> bool {
    let mut signs = 0;
    for (place, buffer) in to.iter_mut().zip(buffers) {
        *place = buffer.start();
        signs |= home.sign(buffer.start());
    }
    signs.cast_signed() >= 0
}

/// AVX2 variants, four words per register.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use super::{BufMeta, Buffer, MaybeUninit, NonNull, PoolRange, make_here, part_here};
    use core::arch::x86_64::{
        __m256i, _mm256_castsi256_pd, _mm256_loadu_si256, _mm256_movemask_pd, _mm256_or_si256,
        _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_sub_epi64,
        _mm256_unpacklo_epi64,
    };

    /// Handles per iteration: two registers.
    const STEP: usize = 4;

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn make(starts: &[NonNull<u8>], about: BufMeta, to: &mut [MaybeUninit<Buffer>]) {
        // SAFETY: guaranteed by the caller.
        unsafe { make_here(starts, about, to) }
    }

    /// `unpacklo` gathers the first words of four handles in one register, in permuted order.
    #[target_feature(enable = "avx2")]
    #[allow(clippy::cast_ptr_alignment, reason = "the loads and the store are those that ask for none")]
    pub(super) unsafe fn part(buffers: &[Buffer], home: PoolRange, to: &mut [NonNull<u8>]) -> bool {
        let (start, last) = (
            _mm256_set1_epi64x(home.start.cast_signed() as i64),
            _mm256_set1_epi64x((home.len - 1).cast_signed() as i64),
        );
        let (fours, rest) = buffers.as_chunks::<STEP>();
        let Some((places, after)) = to.split_at_mut_checked(fours.len() * STEP) else { return false };
        let mut signs = _mm256_setzero_si256();
        for (place, four) in places.as_chunks_mut::<STEP>().0.iter_mut().zip(fours) {
            let from = four.as_ptr().cast::<__m256i>();
            // SAFETY: four handles fill two registers, and four addresses fill one.
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
