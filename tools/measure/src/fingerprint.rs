//! A short name for bytes that differs where they do: FNV-1a of 64 bits. It tells accidents apart, not attacks. The
//! build script uses this file too, for the laboratory's own sources.

/// The fingerprint of these bytes after `before` ([`START`] for the first).
pub const fn fingerprint(before: u64, bytes: &[u8]) -> u64 {
    let (mut hash, mut n) = (before, 0);
    while n < bytes.len() {
        hash = (hash ^ bytes[n] as u64).wrapping_mul(0x0100_0000_01b3);
        n += 1;
    }
    hash
}

/// Before the first byte.
pub const START: u64 = 0xcbf2_9ce4_8422_2325;
