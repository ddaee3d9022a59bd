//! What the benches share: guests that a bench plays itself, and a switch around them.
//!
//! Two programs are built on it. `guard` forwards a fixed number of packets for callgrind to count their
//! instructions; `scale` measures time, memory and sleep. Neither asserts anything about time: they print.

pub mod guest;
pub mod memory;
pub mod rig;
pub mod stations;
pub mod uplink;

/// The virtqueue kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Ring {
    /// Split.
    Split,
    /// Split, with `VIRTIO_F_IN_ORDER`.
    SplitInOrder,
    /// Packed.
    Packed,
    /// Packed, with `VIRTIO_F_IN_ORDER`.
    PackedInOrder,
}

impl Ring {
    /// Its name in tables and arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Ring::Split => "split",
            Ring::SplitInOrder => "split-in-order",
            Ring::Packed => "packed",
            Ring::PackedInOrder => "packed-in-order",
        }
    }

    /// Whether it is a packed ring.
    pub const fn is_packed(self) -> bool {
        matches!(self, Ring::Packed | Ring::PackedInOrder)
    }

    /// Whether buffers are used in order.
    pub const fn is_in_order(self) -> bool {
        matches!(self, Ring::SplitInOrder | Ring::PackedInOrder)
    }
}
