//! Portable sum, eight bytes at a time.

#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Unaligned(u64);

/// Sums the two 32-bit halves of each 64-bit word: no carry is lost below 2^32 words.
///
/// # Safety
/// `len` bytes at `from` are readable; other parties may write them concurrently.
pub(super) unsafe fn words(from: *const u8, len: usize) -> u64 {
    let (mut total, mut at) = (0, 0);
    while at + 8 <= len {
        // SAFETY: the eight bytes at `at` are inside the range; volatile accesses may race, and a packed type needs no
        // alignment.
        let word = unsafe { from.add(at).cast::<Unaligned>().read_volatile().0 };
        total += (word & 0xffff_ffff) + (word >> 32);
        at += 8;
    }
    let mut last = [0; 8];
    for byte in &mut last[..len - at] {
        // SAFETY: `at < len`.
        *byte = unsafe { from.add(at).read_volatile() };
        at += 1;
    }
    let last = u64::from_ne_bytes(last);
    total + (last & 0xffff_ffff) + (last >> 32)
}
