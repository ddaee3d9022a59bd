//! Copy kernels: one trait, several implementations.
//!
//! A kernel copies bytes between addresses that other parties may write concurrently. Implementations use assembly or
//! volatile accesses, so that the compiler can neither read twice nor assume unchanged memory. A kernel is chosen when
//! a queue is created; inside the queue it is a type parameter, so no call is indirect. A kernel must not write outside
//! the `len` destination bytes or read outside the `len` source bytes.
//!
//! Inline assembly is used instead of intrinsics because an intrinsic inlines only into functions compiled with the
//! same target features, and the copying code is generic.

mod choice;
mod portable;
mod private;
mod process;
mod small;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

use crate::line::LINE;
use crate::record::{Kind, note};
use crate::{MARGIN, VolatileSlice};
pub use choice::{Choice, choose, supported};
pub use portable::Portable;
pub use private::copy_private;
pub use process::{chosen, settle, settle_fastest};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use x86::{Avx2, Avx512, Sse2};

/// The kernel of [`with_kernel`](crate::with_kernel) in builds that have code for one kernel only.
#[cfg(all(target_arch = "x86_64", not(miri), feature = "only-avx2"))]
pub type Only = Avx2;
/// The kernel of [`with_kernel`](crate::with_kernel) in builds that have code for one kernel only.
#[cfg(all(target_arch = "x86_64", not(miri), not(feature = "only-avx2")))]
pub type Only = Sse2;
/// The only kernel of this target.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub type Only = Portable;

/// A copy implementation.
pub trait Kernel: Copy + Default + Send + Sync + 'static {
    /// Name in reports.
    const NAME: &'static str;

    /// Copies `len` bytes from `src` to `dst`. The ranges may overlap; the content of the overlap is then unspecified.
    ///
    /// # Safety
    /// Both ranges are mapped, `src` readable and `dst` writable, and [`supported`] lists this kernel.
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize);

    /// Copies the first `LINES` (1 or 2) cache lines of each of `n` segments to `dst + i * stride`.
    ///
    /// # Safety
    /// As [`Kernel::heads`].
    #[inline(always)]
    unsafe fn lines<const LINES: usize>(dst: *mut u8, stride: usize, from: *const VolatileSlice, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe { Self::copy(dst.add(i * stride), (*from.add(i)).as_ptr(), LINES * LINE) };
        }
    }

    /// Copies the head of each of `n` segments to `dst + i * stride`: 64 bytes for a segment of at most 64 bytes, else
    /// 128. Bytes after the end of a shorter segment are copied too.
    ///
    /// # Safety
    /// As [`Kernel::copy`], for `n` sources followed by [`MARGIN`] mapped bytes and `n` destinations of 128 bytes.
    #[inline(always)]
    unsafe fn heads(dst: *mut u8, stride: usize, from: *const VolatileSlice, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let seg = *from.add(i);
                let len = if seg.len() > LINE { 2 * LINE } else { LINE };
                Self::copy(dst.add(i * stride), seg.as_ptr(), len);
            }
        }
    }
}

/// Cache lines copied per segment head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// The first line.
    One,
    /// The first two lines.
    Two,
    /// The first line of a segment of at most 64 bytes, the first two of a longer one.
    Own,
}

const _: () = assert!(MARGIN >= 2 * LINE);

/// Copies the first `lines` of segment `i` to `to[i]`, starting at byte `at`. Bytes after the end of a shorter segment
/// are copied too.
///
/// # Safety
/// The memory tables of the segments are alive, and each segment comes from a [`crate::Wide`] one.
#[inline(always)]
pub unsafe fn heads<K: Kernel, const N: usize>(
    to: &mut [[u8; N]],
    at: usize,
    from: &[VolatileSlice],
    lines: Lines,
) {
    assert!(at + 2 * LINE <= N && from.len() <= to.len());
    if cfg!(feature = "record") {
        for seg in from {
            let is_one = lines == Lines::One || lines == Lines::Own && seg.len() <= LINE;
            note(Kind::Load, seg.addr(), if is_one { LINE } else { 2 * LINE });
        }
    }
    // SAFETY: sources are guaranteed by the caller; the 128 destination bytes from `at` lie inside each array.
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
