//! Selection of the destination's queue pair for a packet.
//!
//! Receive-side scaling (RSS) in software: all packets of a flow use one queue, which preserves their order. A guest
//! replies on the queue on which it received, so with a symmetric hash both directions of a flow are processed by the
//! same worker, whose caches hold the flow's state. Whether a guest's own key and indirection table could be used is
//! discussed in `docs/decisions/0043-steering-in-software.md`.

use wire::toeplitz::{DEFAULT_KEY, Symmetric, Toeplitz};

/// Distribution of packets over queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rss {
    /// Toeplitz hash that is equal for both directions of a flow.
    #[default]
    Symmetric,
    /// Toeplitz hash with the default key of network cards.
    Toeplitz,
    /// Index of the source's queue pair.
    Pair,
}

/// Hash function of one worker.
#[derive(Debug)]
pub struct Steering(Hash);

#[derive(Debug)]
enum Hash {
    Symmetric(Symmetric),
    Toeplitz(Toeplitz),
    Nothing,
}

impl Steering {
    /// Creates steering of this mode.
    pub fn new(rss: Rss) -> Self {
        Self(match rss {
            Rss::Symmetric => Hash::Symmetric(Symmetric::default()),
            Rss::Toeplitz => Hash::Toeplitz(Toeplitz::new(&DEFAULT_KEY)),
            Rss::Pair => Hash::Nothing,
        })
    }

    /// Flow hash of a frame. Returns `None` if it belongs to no flow; the source's queue pair decides then.
    #[inline]
    pub fn hash(&self, head: &[u8]) -> Option<u32> {
        match &self.0 {
            Hash::Symmetric(hash) => hash.of_frame(head),
            Hash::Toeplitz(hash) => hash.of_frame(head),
            Hash::Nothing => None,
        }
    }
}
