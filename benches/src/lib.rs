//! Shared parts of the benches: guests that a bench runs itself, and a switch around them.
//!
//! `guard` forwards a fixed number of packets, whose instructions callgrind counts; `scale` measures time, memory and
//! sleep. [`stack`] has the measurements of the TCP/IP stack, which `linerate lab stack` uses too. No program asserts
//! limits on time; all print readings.

pub mod guest;
pub mod memory;
pub mod pair;
pub mod rig;
pub mod stack;
pub mod stations;
pub mod uplink;

/// Virtqueue formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Ring {
    /// Split ring
    Split,
    /// Split ring with `VIRTIO_F_IN_ORDER`
    SplitInOrder,
    /// Packed ring
    Packed,
    /// Packed ring with `VIRTIO_F_IN_ORDER`
    PackedInOrder,
}

impl Ring {
    /// Name in tables and arguments.
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
