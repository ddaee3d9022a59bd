//! Benchmarks copy kernels: nanoseconds per copy, by kernel and size, beside libc's `memcpy`, as a Markdown table.
//!
//! Buffers are laid out like packets: one per 2 KiB slot, the destination at offset 12, bursts of 64, so that long
//! packets come from the L2 cache. `mixed` draws lengths at random from 40 to 127 and `mixed long` from 60 to 1514, to
//! cause branch mispredictions. Each number is the minimum of several rounds.

use mem::copy::{Kernel, choose, supported};
use std::time::Instant;

const SLOT: usize = 2048 + 128;
const BURST: usize = 64;
const ROUNDS: usize = 15;
const FIXED: [usize; 12] = [1, 12, 16, 28, 60, 64, 76, 128, 256, 590, 1514, 9000];

#[derive(Clone, Copy, Debug, Default)]
struct Memcpy;

impl Kernel for Memcpy {
    const NAME: &'static str = "libc memcpy";

    #[inline(always)]
    unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: guaranteed by the caller. `black_box` prevents inlining, as for a length unknown at compile time.
        unsafe { libc::memcpy(dst.cast(), src.cast(), std::hint::black_box(len)) };
    }
}

fn main() {
    let columns: Vec<(String, Vec<usize>)> = FIXED
        .iter()
        .map(|&len| (len.to_string(), vec![len; 1024]))
        .chain([("mixed".into(), random(40, 127)), ("mixed long".into(), random(60, 1514))])
        .collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    println!("| ns per copy | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    row::<Memcpy>(&columns);
    for choice in supported() {
        mem::with_any_kernel!(choice, K => row::<K>(&columns));
    }
    let start = Instant::now();
    let chosen = choose(|| start.elapsed().as_nanos() as u64);
    println!("\nchosen: {chosen}, in {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
}

/// Uniformly distributed lengths in `least..=most`, from a fixed seed.
fn random(least: usize, most: usize) -> Vec<usize> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        least + (state >> 33) as usize % (most - least + 1)
    };
    (0..16384).map(|_| next()).collect()
}

fn row<K: Kernel>(columns: &[(String, Vec<usize>)]) {
    let cells: Vec<String> = columns.iter().map(|(_, lens)| format!("{:.2}", cost::<K>(lens))).collect();
    println!("| {} | {} |", K::NAME, cells.join(" | "));
}

/// Nanoseconds per copy, over `lens` in order.
fn cost<K: Kernel>(lens: &[usize]) -> f64 {
    let longest = lens.iter().max().copied().unwrap_or(0);
    let slot = SLOT.max(longest.next_multiple_of(128) + 128);
    let (from, mut to) = (vec![1_u8; slot * BURST], vec![2_u8; slot * BURST]);
    let repeat = (200_000 / lens.len() / (1 + longest / 512)).max(1);
    let round = |_| {
        let start = Instant::now();
        for _ in 0..repeat {
            for (i, &len) in lens.iter().enumerate() {
                let at = i % BURST * slot;
                // SAFETY: each slot holds the longest copy at offset 12.
                unsafe { K::copy(to.as_mut_ptr().add(at + 12), from.as_ptr().add(at), len) };
            }
        }
        start.elapsed().as_secs_f64() * 1e9 / (repeat * lens.len()) as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}
