//! Work that is left to be done across a virtio-user port: which features say so, and what stands in the headers of the
//! buffers that it sends from.
//!
//! As a driver, the port leaves work to its back end where that agreed to `CSUM` and `HOST_*`, and takes unfinished
//! packets where both agreed to `GUEST_*`. Headers are zeros, and stay so for as long as nothing is left to be done: a
//! private record says what each of them holds, so that one is written only when its next packet needs another. The
//! record is this side's alone; what a back end writes over a header misleads nobody but itself.

use crate::vhost::Features;
use crate::{Frame, OFFLOAD_HEADER, Offload};

/// A header as far as it says something of offloads.
pub(super) type Words = [u8; OFFLOAD_HEADER];

/// The header of a packet that is finished.
const NOTHING: Words = [0; OFFLOAD_HEADER];

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
/// taken of either version or of none, because [`Offload`] does not tell them apart.
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

/// What the header of `frame` says. A driver vouches for no checksum (section 5.1.6.2.1).
#[inline(always)]
pub(super) fn words(frame: &Frame<'_>) -> Words {
    let offload: Offload = frame.offload;
    if offload.is_work() { offload.header(frame.head) } else { NOTHING }
}

/// What stands in the header of each buffer of a ring.
pub(super) struct Headers {
    words: Box<[Words]>,
    /// How many of them are not zeros.
    marked: usize,
}

impl Headers {
    /// All zeros.
    pub(super) fn new(size: u16) -> Self {
        Self { words: vec![NOTHING; size.into()].into(), marked: 0 }
    }

    /// Whether any header says something: then even packets that are finished need their headers looked after.
    #[inline(always)]
    pub(super) fn are_marked(&self) -> bool {
        self.marked > 0
    }

    /// What has to be written into the header of buffer `id`, so that it says `words`; nothing if it does.
    #[inline(always)]
    pub(super) fn change(&mut self, id: u16, words: Words) -> Option<Words> {
        let there = &mut self.words[usize::from(id)];
        if *there == words {
            return None;
        }
        self.marked += usize::from(words != NOTHING);
        self.marked -= usize::from(*there != NOTHING);
        *there = words;
        Some(words)
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
    fn a_header_is_written_when_it_says_something_else() {
        let (mut headers, cut) = (Headers::new(2), [1; OFFLOAD_HEADER]);
        assert_eq!(headers.change(1, NOTHING), None);
        assert_eq!((headers.change(1, cut), headers.change(1, cut)), (Some(cut), None));
        assert!(headers.are_marked());
        assert_eq!(headers.change(1, [2; OFFLOAD_HEADER]), Some([2; OFFLOAD_HEADER]));
        assert!(headers.are_marked());
        assert_eq!(headers.change(1, NOTHING), Some(NOTHING));
        assert!(!headers.are_marked());
    }
}
