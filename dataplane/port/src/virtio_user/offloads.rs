//! Work that is left to be done across a virtio-user port: which features say so, and what stands in the headers of the
//! buffers that it sends from.
//!
//! As a driver, the port leaves work to its back end where that agreed to `CSUM` and `HOST_*`, and takes unfinished
//! packets where both agreed to `GUEST_*`. Headers are zeros, and stay so for as long as nothing is left to be done: a
//! private record says which of them are not. The record is this side's alone; a back end that writes over a header misleads
//! only itself.

use crate::OFFLOAD_HEADER;
use crate::vhost::Features;

/// A header as far as it says something of offloads.
pub(super) type Words = [u8; OFFLOAD_HEADER];

const HOST_TSO: u64 = Features::HOST_TSO4 | Features::HOST_TSO6;
const GUEST_TSO: u64 = Features::GUEST_TSO4 | Features::GUEST_TSO6;
const GUEST_USO: u64 = Features::GUEST_USO4 | Features::GUEST_USO6;

/// What may be left to the back end.
const LEFT: u64 = Features::CSUM | HOST_TSO | Features::HOST_ECN | Features::HOST_USO;
/// What the back end may leave, cut by nobody yet.
const UNCUT: u64 = GUEST_TSO | Features::GUEST_ECN | GUEST_USO;

/// Every feature by which work is left, either way.
pub(super) const ALL: u64 = LEFT | Features::GUEST_CSUM | UNCUT;

/// The features that a driver accepts of `offered`: without those that need one which is not there (VIRTIO 1.2 section
/// 5.1.3.1), and uncut packets only where they may span buffers, which are shorter (section 5.1.6.3.1). Datagrams are
/// taken of either version or of none, because [`crate::Offload`] does not tell them apart.
pub(super) fn acceptable(offered: Features) -> Features {
    let mut bits = offered.0;
    let mut without = |needed: &[u64], dependent: u64| {
        if needed.iter().all(|need| bits & need == 0) {
            bits &= !dependent;
        }
    };
    without(&[Features::CSUM], LEFT);
    without(&[Features::GUEST_CSUM], UNCUT);
    without(&[Features::MRG_RXBUF], UNCUT);
    without(&[Features::GUEST_USO4], GUEST_USO);
    without(&[Features::GUEST_USO6], GUEST_USO);
    without(&[Features::HOST_TSO4, Features::HOST_TSO6], Features::HOST_ECN);
    without(&[Features::GUEST_TSO4, Features::GUEST_TSO6], Features::GUEST_ECN);
    Features(bits)
}

/// Which headers of a ring's buffers say something.
pub(super) struct Headers {
    marked: Box<[bool]>,
    /// How many of them do.
    count: usize,
}

impl Headers {
    /// All zeros.
    pub(super) fn new(size: u16) -> Self {
        Self { marked: vec![false; size.into()].into(), count: 0 }
    }

    /// Unknown: each header is written, or found to be right, before it counts as zeros.
    pub(super) fn unknown(size: u16) -> Self {
        Self { marked: vec![true; size.into()].into(), count: size.into() }
    }

    /// Whether any header says something: then even packets that are finished need their headers looked after.
    #[inline(always)]
    pub(super) fn are_marked(&self) -> bool {
        self.count > 0
    }

    /// Notes whether the header of buffer `id` says something now.
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
    fn a_feature_without_what_it_needs_is_not_accepted() {
        let all = ALL | Features::MRG_RXBUF | Features::VERSION_1;
        assert_eq!(acceptable(Features(all)), Features(all));
        for (missing, gone) in [
            (Features::CSUM, LEFT),
            (Features::GUEST_CSUM, UNCUT),
            (Features::MRG_RXBUF, UNCUT),
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
    fn headers_are_looked_after_until_none_says_anything() {
        let mut headers = Headers::new(2);
        for (id, is_marked, are_marked) in [
            (1, false, false),
            (1, true, true),
            (1, true, true),
            (0, true, true),
            (1, false, true),
            (0, false, false),
        ] {
            headers.set(id, is_marked);
            assert_eq!(headers.are_marked(), are_marked, "{id} {is_marked}");
        }
    }
}
