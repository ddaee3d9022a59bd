//! Addresses of the three areas of a virtqueue, and the default layout for drivers: consecutive areas, each on its own
//! cache lines.
//!
//! Source: VIRTIO 1.2, sections 2.7 (sizes of the split ring areas) and 2.8.10 (a packed ring does not need more).

/// Ring addresses (front-end virtual), size, start position and negotiated features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of entries.
    pub size: u16,
    /// Descriptor area.
    pub descriptors: u64,
    /// Driver area: available ring (split) or driver event suppression (packed).
    pub driver: u64,
    /// Device area: used ring (split) or device event suppression (packed).
    pub device: u64,
    /// Start position. Split: next available and used index. Packed: bits 0-14 next available, bit 15 its wrap counter,
    /// bits 16-30 next used, bit 31 its wrap counter.
    pub base: u32,
    /// `VIRTIO_F_EVENT_IDX` was negotiated.
    pub event_idx: bool,
    /// `VIRTIO_F_INDIRECT_DESC` was negotiated.
    pub indirect: bool,
    /// `VIRTIO_F_IN_ORDER` was negotiated.
    pub in_order: bool,
}

/// Area alignment in bytes: two lines, because the adjacent-line prefetcher fetches lines in pairs.
const ALIGN: u64 = 128;

impl Layout {
    /// Size in bytes of a [`Layout::fresh`] ring of `size` entries, split or packed.
    pub fn bytes(size: u16) -> u64 {
        areas(size).iter().sum()
    }

    /// Layout of a new split ring of `size` entries at user address `at`, a multiple of 128, without features.
    pub fn fresh(at: u64, size: u16) -> Self {
        let [descriptors, driver, _] = areas(size);
        Self {
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
}

/// Sizes of descriptor, driver and device area, in bytes.
fn areas(size: u16) -> [u64; 3] {
    let n = u64::from(size);
    [n * 16, n * 2 + 6, n * 8 + 6].map(|bytes| bytes.next_multiple_of(ALIGN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_line_aligned_and_end_with_the_ring() {
        for size in [1, 2, 37, 64, 256, 1024, 32_768] {
            let Layout { descriptors, driver, device, .. } = Layout::fresh(0x1000, size);
            let n = u64::from(size);
            assert!([descriptors, driver, device].iter().all(|at| at.is_multiple_of(128)));
            assert!(descriptors + n * 16 <= driver && driver + n * 2 + 6 <= device);
            let end = descriptors + Layout::bytes(size);
            assert!((device + n * 8 + 6..device + n * 8 + 6 + 128).contains(&end), "{size}");
        }
    }
}
