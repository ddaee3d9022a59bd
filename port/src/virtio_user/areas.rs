//! How a driver lays a ring out in its memory: three areas, one behind the other, each on cache lines of its own.
//!
//! Source: VIRTIO 1.2, sections 2.7 (sizes of a split ring's parts) and 2.8.10 (a packed ring needs no more).

use ring::Layout;

/// Where an area may begin: a pair of lines, since processors fetch the second with the first.
const ALIGN: u64 = 128;

/// Bytes of a ring of `size` entries, split or packed.
pub fn ring_bytes(size: u16) -> u64 {
    areas(size).iter().sum()
}

/// A ring of `size` entries at user address `at`, a multiple of 128; a fresh split one, without features.
pub fn ring_layout(at: u64, size: u16) -> Layout {
    let [descriptors, driver, _] = areas(size);
    Layout {
        size,
        descriptors: at,
        driver: at + descriptors,
        device: at + descriptors + driver,
        base: 0,
        event_idx: false,
        indirect: false,
        in_order: false,
    }
}

/// Bytes of descriptor, driver and device area.
fn areas(size: u16) -> [u64; 3] {
    let n = u64::from(size);
    [n * 16, n * 2 + 6, n * 8 + 6].map(|bytes| bytes.next_multiple_of(ALIGN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_begin_on_lines_of_their_own_and_end_with_the_ring() {
        for size in [1, 2, 37, 64, 256, 1024, 32_768] {
            let Layout { descriptors, driver, device, .. } = ring_layout(0x1000, size);
            let n = u64::from(size);
            assert!([descriptors, driver, device].iter().all(|at| at.is_multiple_of(128)));
            assert!(descriptors + n * 16 <= driver && driver + n * 2 + 6 <= device);
            let end = descriptors + ring_bytes(size);
            assert!((device + n * 8 + 6..device + n * 8 + 6 + 128).contains(&end), "{size}");
        }
    }
}
