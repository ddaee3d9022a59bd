//! Conditions of a simulated network and of its hosts' ports.

use stack::Time;
use std::time::Duration;

/// Faults of one direction of the network. Probabilities are in parts of 1000.
#[derive(Clone, Debug, Default)]
pub(crate) struct Impairments {
    pub(crate) loss: u64,
    pub(crate) duplicate: u64,
    pub(crate) corrupt: u64,
    /// Probability with which a frame is held back, and for how long at most.
    pub(crate) reorder: (u64, Duration),
    pub(crate) delay: Duration,
    /// Maximum of an additional random delay, which does not reorder.
    pub(crate) jitter: Duration,
    pub(crate) rate: Option<Rate>,
    /// Maximum packet length from a time on; longer packets are dropped and reported by ICMP.
    pub(crate) mtu: Option<(Time, u16)>,
    /// Time for which all frames are lost.
    pub(crate) down: Option<(Time, Time)>,
}

/// A bottleneck with a queue that drops at its end.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    pub(crate) nanos_per_byte: u64,
    /// Bytes that the queue holds.
    pub(crate) queue: u64,
    /// Queue length in bytes from which ECN-capable packets are marked instead.
    pub(crate) mark: Option<u64>,
}

impl Impairments {
    /// Whether the stacks have no reason to retransmit.
    pub(crate) fn is_clean(&self) -> bool {
        let Self { loss, duplicate, corrupt, reorder, delay: _, jitter, rate, mtu, down } = self;
        loss + duplicate + corrupt + reorder.0 == 0
            && jitter.is_zero()
            && rate.is_none()
            && mtu.is_none()
            && down.is_none()
    }
}

/// Receive side of a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receive {
    /// Maximum length of coalesced frames; 0 without LRO.
    pub(crate) lro: usize,
    pub(crate) has_checksum_offload: bool,
    pub(crate) has_short_head: bool,
    /// Interval in which the host takes frames from its port.
    pub(crate) poll: Duration,
    /// Probability, in parts of 1000, with which no buffer is free to retain a frame.
    pub(crate) no_buffer: u64,
}

/// Transmit queue of a host.
#[derive(Clone, Debug)]
pub(crate) struct Transmit {
    /// Frames that the queue takes.
    pub(crate) room: usize,
    /// Time after which it is empty again.
    pub(crate) refill: Duration,
}
