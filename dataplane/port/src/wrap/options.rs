//! What wrappers may be told.

use crate::spool::Output;
use std::time::Duration;

/// Which packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ways {
    /// All.
    #[default]
    Both,
    /// Those that enter the switch by the port.
    In,
    /// Those that leave it by the port.
    Out,
}

impl Ways {
    pub(super) fn has_in(self) -> bool {
        self != Ways::Out
    }

    pub(super) fn has_out(self) -> bool {
        self != Ways::In
    }
}

/// What enters and leaves, as a pcapng file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Where to.
    pub output: Output,
    /// Most bytes kept of a packet; `None`: all.
    pub snap: Option<u32>,
    /// Which packets.
    pub ways: Ways,
}

/// What enters and leaves, and what became of it, as lines of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Where to.
    pub output: Output,
    /// Which packets.
    pub ways: Ways,
}

/// What goes wrong, and how often: probabilities from 0 to 1 for each packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Where the dice begin: equal packets in equal order have equal faults.
    pub seed: u64,
    /// It is lost.
    pub drop: f64,
    /// It comes twice.
    pub duplicate: f64,
    /// It comes behind a later one.
    pub reorder: f64,
    /// One of its bits is turned over.
    pub corrupt: f64,
    /// It comes late: at least and at most so much.
    pub delay: (Duration, Duration),
    /// Most packets that are late at a time, for each queue; others pass undelayed.
    pub hold: u32,
    /// Which packets.
    pub ways: Ways,
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
            ways: Ways::Both,
        }
    }
}

/// How packets leave that are not sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxCoalesce {
    /// So many are sent together: 1 to 256.
    pub packets: u16,
    /// The first of them waits no longer than this for the others; left out: until they are there, or its worker has
    /// nothing to do and sleeps, or would if it ever did.
    pub within: Option<Duration>,
}

/// What is around a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wrappers {
    /// What enters and leaves, for tools.
    pub capture: Option<Capture>,
    /// What enters and leaves, for people.
    pub trace: Option<Trace>,
    /// What goes wrong.
    pub fault: Option<Faults>,
    /// How packets are gathered before they leave; left out: not at all.
    pub tx_coalesce: Option<TxCoalesce>,
}
