//! Benchmarks checksums by size: textbook loop, eight bytes at a time, SIMD.
//!
//! `cargo run --release -p linerate-mem --example sums`

use mem::{Region, VolatileSlice, ticks};
use std::hint::black_box;

const SIZES: [u32; 9] = [20, 64, 128, 256, 576, 1448, 4096, 9000, 65_483];
const ROUNDS: usize = 301;

/// RFC 1071 section 4.1: one 16-bit word at a time.
fn textbook(bytes: &[u8]) -> u64 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks_exact(2) {
        sum += u32::from(u16::from_ne_bytes([pair[0], pair[1]]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let last = if bytes.len() % 2 == 1 { u64::from(bytes[bytes.len() - 1]) } else { 0 };
    u64::from(sum) + last
}

/// Median cost of `sum`, in ticks.
fn cost(mut sum: impl FnMut() -> u64) -> u64 {
    let mut costs: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let start = ticks();
            for _ in 0..16 {
                black_box(sum());
            }
            (ticks() - start) / 16
        })
        .collect();
    costs.sort_unstable();
    costs[ROUNDS / 2]
}

fn main() {
    println!("{:>8} {:>10} {:>10} {:>10}   textbook / wide", "bytes", "textbook", "8 bytes", "wide");
    let region = Region::heap(0, 0, 1 << 17);
    for size in SIZES {
        let seg: VolatileSlice = region.seg(2, size).unwrap_or(VolatileSlice::EMPTY);
        let private = vec![0x5a_u8; size as usize];
        // SAFETY: the region is alive and not shared. The same holds for the sums below.
        unsafe { seg.copy_in::<mem::copy::Portable>(&private) };
        let slow = cost(|| textbook(black_box(&private)));
        // SAFETY: as above.
        let (eight, wide) =
            (cost(|| unsafe { mem::sum::portable_words(seg) }), cost(|| unsafe { mem::sum::words(seg) }));
        println!("{size:>8} {slow:>10} {eight:>10} {wide:>10}   {:.1}", slow as f64 / wide.max(1) as f64);
    }
}
