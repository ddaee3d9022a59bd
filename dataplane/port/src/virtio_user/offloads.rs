//! Offloads of a virtio-user port: the features that enable them, and the headers of transmit buffers.
//!
//! As a driver, the port leaves offloads to the back end if `CSUM` and `HOST_*` were negotiated, and accepts
//! unfinished packets if `GUEST_*` were negotiated. Transmit headers are zero and stay so while no offload is left; a
//! private record marks the others. The record is private to this side; a back end that overwrites a header affects
//! only itself.

use crate::OFFLOAD_HEADER;
use crate::vhost::Features;

/// The offload part of a header.
pub(super) type Words = [u8; OFFLOAD_HEADER];

const HOST_TSO: u64 = Features::HOST_TSO4 | Features::HOST_TSO6;
const GUEST_TSO: u64 = Features::GUEST_TSO4 | Features::GUEST_TSO6;
const GUEST_USO: u64 = Features::GUEST_USO4 | Features::GUEST_USO6;

/// Offloads that may be left to the back end.
const TX_OFFLOADS: u64 = Features::CSUM | HOST_TSO | Features::HOST_ECN | Features::HOST_USO;
/// Segmentation offloads that the back end may leave.
const RX_SEGMENTATION: u64 = GUEST_TSO | Features::GUEST_ECN | GUEST_USO;

/// All offload features, both directions.
pub(super) const ALL: u64 = TX_OFFLOADS | Features::GUEST_CSUM | RX_SEGMENTATION;

/// The features that a driver accepts of `offered`. Excludes features whose dependencies are missing (VIRTIO 1.2
/// section 5.1.3.1). Segmentation offloads are accepted only if received packets may span buffers, which are shorter
/// (section 5.1.6.3.1). UDP segmentation is accepted for both IP versions or neither, because [`crate::Offload`] does
/// not distinguish them.
pub(super) fn acceptable(offered: Features) -> Features {
    let mut bits = offered.0;
    let mut without = |needed: &[u64], dependent: u64| {
        if needed.iter().all(|need| bits & need == 0) {
            bits &= !dependent;
        }
    };
    without(&[Features::CSUM], TX_OFFLOADS);
    without(&[Features::GUEST_CSUM], RX_SEGMENTATION);
    without(&[Features::MRG_RXBUF], RX_SEGMENTATION);
    without(&[Features::GUEST_USO4], GUEST_USO);
    without(&[Features::GUEST_USO6], GUEST_USO);
    without(&[Features::HOST_TSO4, Features::HOST_TSO6], Features::HOST_ECN);
    without(&[Features::GUEST_TSO4, Features::GUEST_TSO6], Features::GUEST_ECN);
    Features(bits)
}

/// Marks the headers of a ring's buffers that are not zero.
pub(super) struct Headers {
    marked: Box<[bool]>,
    /// Number of marked headers.
    count: usize,
}

impl Headers {
    /// All headers are zero.
    pub(super) fn new(size: u16) -> Self {
        Self { marked: vec![false; size.into()].into(), count: 0 }
    }

    /// Unknown: each header is written, or found to be zero, before it counts as zero.
    pub(super) fn unknown(size: u16) -> Self {
        Self { marked: vec![true; size.into()].into(), count: size.into() }
    }

    /// Whether any header is not zero. If true, headers must be maintained for packets without offloads too.
    #[inline(always)]
    pub(super) fn any_nonzero(&self) -> bool {
        self.count > 0
    }

    /// Records whether the header of buffer `id` is now non-zero.
    #[inline(always)]
    pub(super) fn set(&mut self, id: u16, is_marked: bool) {
        let was_marked = std::mem::replace(&mut self.marked[usize::from(id)], is_marked);
        self.count = self.count + usize::from(is_marked) - usize::from(was_marked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_without_its_dependency_is_not_accepted() {
        let all = ALL | Features::MRG_RXBUF | Features::VERSION_1;
        assert_eq!(acceptable(Features(all)), Features(all));
        for (missing, gone) in [
            (Features::CSUM, TX_OFFLOADS),
            (Features::GUEST_CSUM, RX_SEGMENTATION),
            (Features::MRG_RXBUF, RX_SEGMENTATION),
            (Features::GUEST_USO4, Features::GUEST_USO6),
            (Features::GUEST_USO6, Features::GUEST_USO4),
            (HOST_TSO, Features::HOST_ECN),
            (GUEST_TSO, Features::GUEST_ECN),
            (Features::HOST_TSO4, 0),
        ] {
            assert_eq!(
                acceptable(Features(all & !missing)),
                Features(all & !missing & !gone),
                "{missing:#x}"
            );
        }
    }

    #[test]
    fn headers_are_maintained_until_all_are_zero() {
        let mut headers = Headers::new(2);
        for (id, is_marked, any_nonzero) in [
            (1, false, false),
            (1, true, true),
            (1, true, true),
            (0, true, true),
            (1, false, true),
            (0, false, false),
        ] {
            headers.set(id, is_marked);
            assert_eq!(headers.any_nonzero(), any_nonzero, "{id} {is_marked}");
        }
    }
}
