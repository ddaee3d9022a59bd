//! Which queue pair of its destination a packet goes to, where there are several.
//!
//! Receive-side scaling in software: packets of one flow keep one queue, and with it their order. A guest answers by the
//! queue on which it was spoken to, so with a symmetric hash both directions of a flow come to the same worker, and what
//! that worker knows of the flow is in its own caches. Whether a guest's own choice of key and table could be followed
//! is in `docs/decisions/0043-steering-in-software.md`.

use wire::toeplitz::{Symmetric, Toeplitz, USUAL_KEY};

/// How packets are spread over queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rss {
    /// By a Toeplitz hash that is the same for both directions of a flow.
    #[default]
    Symmetric,
    /// By a Toeplitz hash with the key that network cards begin with.
    Toeplitz,
    /// By the number of the pair that they came from.
    Pair,
}

/// Spreads packets; each worker has one of its own.
#[derive(Debug)]
pub struct Steering(Hash);

#[derive(Debug)]
enum Hash {
    Symmetric(Symmetric),
    Toeplitz(Toeplitz),
    Nothing,
}

impl Steering {
    /// Steering of this kind.
    pub fn new(rss: Rss) -> Self {
        Self(match rss {
            Rss::Symmetric => Hash::Symmetric(Symmetric::default()),
            Rss::Toeplitz => Hash::Toeplitz(Toeplitz::new(&USUAL_KEY)),
            Rss::Pair => Hash::Nothing,
        })
    }

    /// The hash of a frame's flow; `None` where it has none, and then the pair that it came from decides.
    #[inline]
    pub fn hash(&self, head: &[u8]) -> Option<u32> {
        match &self.0 {
            Hash::Symmetric(hash) => hash.of_frame(head),
            Hash::Toeplitz(hash) => hash.of_frame(head),
            Hash::Nothing => None,
        }
    }
}
