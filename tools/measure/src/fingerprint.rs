//! Fingerprint of bytes: 64-bit FNV-1a. It detects accidental differences, not attacks. The build script includes this
//! file too, to fingerprint the laboratory's sources.

/// The fingerprint of `bytes`, continued from `before` ([`START`] for the first bytes).
pub const fn fingerprint(before: u64, bytes: &[u8]) -> u64 {
    let (mut hash, mut n) = (before, 0);
    while n < bytes.len() {
        hash = (hash ^ bytes[n] as u64).wrapping_mul(0x0100_0000_01b3);
        n += 1;
    }
    hash
}

/// Initial value.
pub const START: u64 = 0xcbf2_9ce4_8422_2325;
