//! Bytes to exchange.

/// Bytes that differ at each position of a stream and between streams.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    (0..len.div_ceil(4)).flat_map(|_| word().to_ne_bytes()).take(len).collect()
}
