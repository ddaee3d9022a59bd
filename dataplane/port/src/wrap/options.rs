//! Wrapper configuration.

use crate::spool::Output;
use std::time::Duration;

/// Packet directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Directions {
    /// Both directions.
    #[default]
    Both,
    /// Packets received by the switch on this port.
    In,
    /// Packets sent by the switch to this port.
    Out,
}

impl Directions {
    pub(super) fn has_in(self) -> bool {
        self != Directions::Out
    }

    pub(super) fn has_out(self) -> bool {
        self != Directions::In
    }
}

/// Packet capture to a pcapng file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Output file.
    pub output: Output,
    /// Maximum number of bytes kept per packet; `None`: all.
    pub snap: Option<u32>,
    /// Directions.
    pub directions: Directions,
}

/// Packet trace with outcomes, as lines of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Output file.
    pub output: Output,
    /// Directions.
    pub directions: Directions,
}

/// Fault injection: probabilities from 0 to 1 per packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Seed of the generator: the same packets in the same order get the same faults.
    pub seed: u64,
    /// Probability of loss.
    pub drop: f64,
    /// Probability of duplication.
    pub duplicate: f64,
    /// Probability of reordering behind a later packet.
    pub reorder: f64,
    /// Probability of flipping one bit.
    pub corrupt: f64,
    /// Minimum and maximum delay.
    pub delay: (Duration, Duration),
    /// Maximum number of delayed packets per queue; others pass undelayed.
    pub hold: u32,
    /// Directions.
    pub directions: Directions,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            seed: 1,
            drop: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            delay: (Duration::ZERO, Duration::ZERO),
            hold: 1024,
            directions: Directions::Both,
        }
    }
}

/// Transmit coalescing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxCoalesce {
    /// Number of frames sent together: 1 to 256.
    pub frames: u16,
    /// Maximum wait of the first packet. If `None`, until enough packets are present or the worker is idle (also if it
    /// never sleeps).
    pub delay: Option<Duration>,
}

/// Wrappers of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wrappers {
    /// Capture file, for tools.
    pub capture: Option<Capture>,
    /// Trace file, human-readable.
    pub trace: Option<Trace>,
    /// Fault injection.
    pub fault: Option<Faults>,
    /// Transmit coalescing; `None`: packets are sent immediately.
    pub tx_coalesce: Option<TxCoalesce>,
}
