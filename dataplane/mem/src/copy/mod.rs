//! Copy kernels: one small interface, several bodies.
//!
//! A kernel copies bytes between addresses that other parties may write at the same time. The bodies use
//! assembly or volatile accesses, so that the compiler can neither read twice nor assume that nothing changes.
//! Kernels are chosen once, when a queue is made; inside a queue the choice is a type, so that no call goes
//! through a pointer. What a kernel must never do is write a byte outside the destination's `len`, or read one
//! outside the source's.
//!
//! The assembly is written inline rather than with intrinsics, because an intrinsic inlines only into functions
//! that were compiled for the same processor features, and the code that copies is generic.

mod choice;
mod portable;
mod process;
mod small;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

use crate::line::LINE;
use crate::{MARGIN, VolatileSlice};
pub use choice::{Choice, UnknownKernel, choose, supported};
pub use portable::Portable;
pub use process::{chosen, settle};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use x86::{Avx2, Avx512, Erms, NonTemporal, Sse2};

/// One way to copy.
pub trait Kernel: Copy + Default + Send + Sync + 'static {
    /// Its name in reports.
    const NAME: &'static str;

    /// Copies `len` bytes from `src` to `dst`. Ranges that overlap are allowed; the content of the overlap is
    /// then unspecified.
    ///
    /// # Safety
    /// Both ranges are mapped, the first readable, the second writable, and the processor has what the kernel
    /// needs: [`supported`] names this kernel.
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize);

    /// Copies the first `LINES` lines, one or two, of each of `n` segments to `dst` and every `stride` bytes behind it.
    ///
    /// # Safety
    /// As [`Kernel::heads`].
    #[inline(always)]
    unsafe fn lines<const LINES: usize>(dst: *mut u8, stride: usize, from: *const VolatileSlice, n: usize) {
        for i in 0..n {
            // SAFETY: by contract.
            unsafe { Self::copy(dst.add(i * stride), (*from.add(i)).as_ptr(), LINES * LINE) };
        }
    }

    /// Copies the first bytes of each of `n` segments to `dst` and every `stride` bytes behind it: 64 bytes of a segment
    /// of up to 64, else 128. What lies behind the end of a shorter segment is copied with it.
    ///
    /// # Safety
    /// As [`Kernel::copy`], for `n` sources that have [`MARGIN`] bytes behind them and `n` destinations of 128 bytes.
    #[inline(always)]
    unsafe fn heads(dst: *mut u8, stride: usize, from: *const VolatileSlice, n: usize) {
        for i in 0..n {
            // SAFETY: by contract.
            unsafe {
                let seg = *from.add(i);
                let len = if seg.len() > LINE { 2 * LINE } else { LINE };
                Self::copy(dst.add(i * stride), seg.as_ptr(), len);
            }
        }
    }
}

/// Which lines of segments are heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// The first of each.
    One,
    /// The first two of each.
    Two,
    /// The first of a segment of up to 64 bytes, the first two of a longer one.
    Own,
}

const _: () = assert!(MARGIN >= 2 * LINE);

/// Copies the first `lines` of every segment to the array of its number, from byte `at` on. What lies behind the end of a
/// shorter segment is copied with it.
///
/// # Safety
/// The maps that made the segments are alive, and each segment comes from a [`crate::Wide`] one.
#[inline(always)]
pub unsafe fn heads<K: Kernel, const N: usize>(
    to: &mut [[u8; N]],
    at: usize,
    from: &[VolatileSlice],
    lines: Lines,
) {
    assert!(at + 2 * LINE <= N && from.len() <= to.len());
    // SAFETY: the sources by contract, the destinations because 128 bytes from `at` on are inside each array.
    unsafe {
        let dst = to.as_mut_ptr().cast::<u8>().add(at);
        match lines {
            Lines::One => K::lines::<1>(dst, N, from.as_ptr(), from.len()),
            Lines::Two => K::lines::<2>(dst, N, from.as_ptr(), from.len()),
            Lines::Own => K::heads(dst, N, from.as_ptr(), from.len()),
        }
    }
}

#[cfg(test)]
mod tests;
