use super::*;
use crate::scale::scale;
use crate::with_any_kernel;
use proptest::prelude::*;

const GUARD: usize = 96;
const MAX_LEN: usize = scale(2100, 200);

/// Copies `len` bytes at the given offsets and checks every byte of the destination buffer.
fn check<K: Kernel>(len: usize, src_offset: usize, dst_offset: usize) {
    let src: Vec<u8> = (0..src_offset + len).map(|i| (i * 7 + i / 251) as u8).collect();
    let mut dst = vec![0xee; GUARD + dst_offset + len + GUARD];
    let before = GUARD + dst_offset;
    // SAFETY: both ranges lie inside their vectors.
    unsafe { K::copy(dst.as_mut_ptr().add(before), src.as_ptr().add(src_offset), len) };
    let place = format!("{} of {len} from {src_offset} to {dst_offset}", K::NAME);
    assert!(dst[..before].iter().all(|&b| b == 0xee), "wrote before: {place}");
    assert!(dst[before..before + len] == src[src_offset..], "content: {place}");
    assert!(dst[before + len..].iter().all(|&b| b == 0xee), "wrote after: {place}");
}

#[test]
fn every_kernel_copies_every_length() {
    for choice in supported() {
        for len in 0..=MAX_LEN {
            with_any_kernel!(choice, K => check::<K>(len, len % 3, len % 5));
        }
    }
}

#[test]
fn every_kernel_copies_between_all_offsets_of_a_line() {
    let lens: &[usize] = scale(&[1, 60, 64, 76, 128, 129, 400, 512, 700, 1514][..], &[65][..]);
    for choice in supported() {
        for &len in lens {
            for offset in 0..64 {
                with_any_kernel!(choice, K => check::<K>(len, 0, offset));
                with_any_kernel!(choice, K => check::<K>(len, offset, 0));
            }
        }
    }
}

#[test]
fn every_kernel_copies_the_first_lines_of_all_segments() {
    let memory: Vec<u8> = (0..4096_u32).map(|i| (i * 7 + i / 251) as u8).collect();
    let region = crate::Region::of_bytes(memory.clone().into()).unwrap();
    for lens in [[14, 60, 64, 65, 128, 1514], [14, 20, 59, 60, 63, 64], [65, 66, 100, 128, 1000, 1514]] {
        copies_the_first_lines(&memory, &region, lens);
    }
}

fn copies_the_first_lines(memory: &[u8], region: &crate::Region, lens: [u32; 6]) {
    let segs: Vec<VolatileSlice> =
        lens.iter().map(|&len| region.seg(u64::from(len) % 50, len).unwrap()).collect();
    for choice in supported() {
        let cases = [
            (Lines::Own, true),
            (Lines::One, lens.iter().all(|len| *len <= 64)),
            (Lines::Two, lens.iter().all(|len| *len > 64)),
        ];
        for (n, (lines, _)) in
            (0..=segs.len()).flat_map(|n| cases.iter().filter(|case| case.1).map(move |case| (n, case)))
        {
            let mut to = [[0xee; 150]; 6];
            // SAFETY: the region is alive, with 128 bytes after the longest segment.
            with_any_kernel!(choice, K => unsafe { heads::<K, 150>(&mut to, 3, &segs[..n], *lines) });
            for (i, to) in to.iter().enumerate() {
                let copied = if i >= n {
                    0
                } else if lens[i] > 64 {
                    128
                } else {
                    64
                };
                let from = lens[i] as usize % 50;
                assert!(to[3..3 + copied] == memory[from..from + copied], "{} of {n}: {i}", choice.name());
                assert!(to[..3].iter().chain(&to[3 + copied..]).all(|&b| b == 0xee));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "slow, and the lengths are covered")]
    fn every_kernel_is_memcpy(len in 0..=MAX_LEN, from in 0..130_usize, to in 0..130_usize) {
        for choice in supported() {
            with_any_kernel!(choice, K => check::<K>(len, from, to));
        }
    }
}

/// Copies that start or end at the boundaries of an accessible page between two inaccessible ones.
#[test]
#[cfg_attr(miri, ignore = "needs the kernel")]
fn no_kernel_reads_or_writes_past_the_end_of_a_page() {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
    const PAGE: usize = 4096;
    let fenced = || {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh mapping of three pages; the first and the last become inaccessible.
        unsafe {
            let map = rustix::mm::mmap_anonymous(core::ptr::null_mut(), 3 * PAGE, prot, flags).unwrap();
            rustix::mm::mprotect(map, PAGE, MprotectFlags::empty()).unwrap();
            rustix::mm::mprotect(map.add(2 * PAGE), PAGE, MprotectFlags::empty()).unwrap();
            map.cast::<u8>().add(PAGE)
        }
    };
    let (src, dst) = (fenced(), fenced());
    for choice in supported() {
        for len in 0..=MAX_LEN {
            // SAFETY: `len` bytes at the end and at the start of the accessible page.
            with_any_kernel!(choice, K => unsafe {
                K::copy(dst.add(PAGE - len), src.add(PAGE - len), len);
                K::copy(dst, src, len);
            });
        }
    }
    for page in [src, dst] {
        // SAFETY: the mapping made above.
        unsafe { rustix::mm::munmap(page.sub(PAGE).cast(), 3 * PAGE).unwrap() };
    }
}

#[test]
fn overlapping_ranges_stay_inside_the_destination() {
    for choice in supported() {
        for len in [1, 16, 33, 64, 100, 128, 300, 1514] {
            for shift in [0, 1, 15, 64] {
                let mut bytes = vec![0x55; 2048];
                let at = bytes.as_mut_ptr();
                // SAFETY: both ranges lie inside the vector.
                with_any_kernel!(choice, K => unsafe { K::copy(at.add(100 + shift), at.add(100), len) });
                assert!(bytes.iter().all(|&b| b == 0x55), "{choice} {len} {shift}");
            }
        }
    }
}
