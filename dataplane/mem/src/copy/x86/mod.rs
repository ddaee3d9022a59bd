//! Kernels for x86-64. Up to 256 bytes are moved without a loop, by moves that start at both ends and may
//! overlap in the middle. Longer copies move a first line as it lies, then four whole lines of the destination at
//! a time, then the last four lines as they lie: the one branch that depends on the length is the end of the loop.

mod avx2;
mod avx512;
mod erms;
mod non_temporal;
mod sse2;

pub use avx2::Avx2;
pub use avx512::Avx512;
pub use erms::Erms;
pub use non_temporal::NonTemporal;
pub use sse2::Sse2;

/// Bytes of a cache line, in which long copies proceed.
const LINE: usize = 64;

/// How one instruction set moves lines, between any addresses.
///
/// # Safety
/// Every method needs both ranges mapped for the bytes it names, and the processor to know the instructions.
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
    // SAFETY: every move ends at `len` at the latest: those of the loop because it asks, the last ones because
    // they are counted from the end, and `len` holds them.
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

/// Bytes from an address to the first line boundary after it: 1 to 64.
#[inline(always)]
fn to_next_line(address: *mut u8) -> usize {
    LINE - address as usize % LINE
}
