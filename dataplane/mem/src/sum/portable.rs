//! Portable sum, eight bytes at a time.

#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Unaligned(u64);

/// Ones' complement sum of two sums: 65535 divides 2^64 - 1, so an end-around carry of 64 bits loses nothing.
#[inline]
pub(super) const fn add(one: u64, other: u64) -> u64 {
    let (total, carry) = one.overflowing_add(other);
    total + carry as u64
}

/// Sums 64-bit words with end-around carry.
///
/// # Safety
/// `len` bytes at `from` are readable; other parties may write them concurrently.
#[inline]
pub(super) unsafe fn words(from: *const u8, len: usize) -> u64 {
    // SAFETY: the caller guarantees that the eight bytes at `at` are readable; volatile accesses may race, and a packed
    // type needs no alignment.
    let word = |at: usize| unsafe { from.add(at).cast::<Unaligned>().read_volatile().0 };
    let (mut total, mut at) = (0, 0);
    while at + 32 <= len {
        total = add(add(total, word(at)), word(at + 8));
        total = add(add(total, word(at + 16)), word(at + 24));
        at += 32;
    }
    while at + 8 <= len {
        total = add(total, word(at));
        at += 8;
    }
    if at == len {
        return total;
    }
    let mut last = [0; 8];
    for byte in &mut last[..len - at] {
        // SAFETY: `at < len`.
        *byte = unsafe { from.add(at).read_volatile() };
        at += 1;
    }
    add(total, u64::from_ne_bytes(last))
}
