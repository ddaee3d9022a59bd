//! Where a virtqueue lies: three areas. And how a driver that may choose lays it out: one behind the other, each on
//! cache lines of its own.
//!
//! Source: VIRTIO 1.2, sections 2.7 (sizes of a split ring's parts) and 2.8.10 (a packed ring needs no more).

/// Where a ring's areas are, in user addresses of the front end, and where to start in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Entries.
    pub size: u16,
    /// Descriptor area.
    pub descriptors: u64,
    /// Driver area: the available ring, or the driver's event suppression.
    pub driver: u64,
    /// Device area: the used ring, or the device's event suppression.
    pub device: u64,
    /// Start: split: the next available and used index; packed: bits 0-14 next available, bit 15 its wrap
    /// counter, bits 16-30 next used, bit 31 its wrap counter.
    pub base: u32,
    /// `VIRTIO_F_EVENT_IDX` was negotiated.
    pub event_idx: bool,
    /// `VIRTIO_F_INDIRECT_DESC` was negotiated.
    pub indirect: bool,
    /// `VIRTIO_F_IN_ORDER` was negotiated.
    pub in_order: bool,
}

/// Where an area may begin: a pair of lines, since processors fetch the second with the first.
const ALIGN: u64 = 128;

impl Layout {
    /// Bytes of a ring of `size` entries, split or packed, that [`Layout::fresh`] lays out.
    pub fn bytes(size: u16) -> u64 {
        areas(size).iter().sum()
    }

    /// A ring of `size` entries at user address `at`, a multiple of 128; a fresh split one, without features.
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
            let Layout { descriptors, driver, device, .. } = Layout::fresh(0x1000, size);
            let n = u64::from(size);
            assert!([descriptors, driver, device].iter().all(|at| at.is_multiple_of(128)));
            assert!(descriptors + n * 16 <= driver && driver + n * 2 + 6 <= device);
            let end = descriptors + Layout::bytes(size);
            assert!((device + n * 8 + 6..device + n * 8 + 6 + 128).contains(&end), "{size}");
        }
    }
}
