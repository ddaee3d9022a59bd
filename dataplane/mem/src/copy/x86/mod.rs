//! Kernels for x86-64. Copies of at most 256 bytes use no loop: moves from both ends overlap in the middle. Longer
//! copies move an unaligned first line, then four aligned destination lines at a time, then the last four lines
//! unaligned; the loop end is the only length-dependent branch.

mod avx2;
mod avx512;
mod sse2;

pub use avx2::Avx2;
pub use avx512::Avx512;
pub use sse2::Sse2;

/// Cache-line size in bytes; the unit of long copies.
const LINE: usize = 64;

/// Moves of whole lines with one instruction set, at any alignment.
///
/// # Safety
/// Both ranges are mapped for the size of the move, and the processor supports the instructions.
trait Lines {
    /// Moves 64 bytes.
    unsafe fn one(dst: *mut u8, src: *const u8);
    /// Moves 128 bytes.
    unsafe fn two(dst: *mut u8, src: *const u8);
    /// Moves 256 bytes.
    unsafe fn four(dst: *mut u8, src: *const u8);
}

/// Copies `len` bytes, at least 128.
///
/// # Safety
/// As [`super::Kernel::copy`].
#[inline]
unsafe fn by_lines<L: Lines>(dst: *mut u8, src: *const u8, len: usize) {
    debug_assert!(len >= 2 * LINE);
    // SAFETY: no move goes beyond `len`: loop moves start before `last`, and the final moves are counted from the end.
    unsafe {
        if len <= 4 * LINE {
            L::two(dst, src);
            return L::two(dst.add(len - 2 * LINE), src.add(len - 2 * LINE));
        }
        L::one(dst, src);
        let (last, last_src) = (dst.add(len - 4 * LINE), src.add(len - 4 * LINE));
        let first = to_next_line(dst);
        let (mut dst, mut src) = (dst.add(first), src.add(first));
        while dst < last {
            L::four(dst, src);
            (dst, src) = (dst.add(4 * LINE), src.add(4 * LINE));
        }
        L::four(last, last_src);
    }
}

/// Bytes from an address to the next line boundary: 1 to 64.
#[inline(always)]
fn to_next_line(address: *mut u8) -> usize {
    LINE - address as usize % LINE
}
