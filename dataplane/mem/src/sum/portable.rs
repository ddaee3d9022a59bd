//! Eight bytes at a time.

#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Unaligned(u64);

/// The sum as two 32-bit halves a word: no carry is lost before 2^32 of them.
///
/// # Safety
/// `len` bytes at `from` may be read; others may write them meanwhile.
pub(super) unsafe fn words(from: *const u8, len: usize) -> u64 {
    let (mut total, mut at) = (0, 0);
    while at + 8 <= len {
        // SAFETY: eight bytes from `at` lie inside by the comparison; volatile accesses may race, and a packed type needs
        // no alignment.
        let word = unsafe { from.add(at).cast::<Unaligned>().read_volatile().0 };
        total += (word & 0xffff_ffff) + (word >> 32);
        at += 8;
    }
    let mut last = [0; 8];
    for byte in &mut last[..len - at] {
        // SAFETY: `at` is below `len`.
        *byte = unsafe { from.add(at).read_volatile() };
        at += 1;
    }
    let last = u64::from_ne_bytes(last);
    total + (last & 0xffff_ffff) + (last >> 32)
}
