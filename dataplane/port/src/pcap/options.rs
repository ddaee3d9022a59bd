//! pcap port configuration.

use super::{Output, Recording};
use std::sync::Arc;
use std::time::Duration;

/// Playback timing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Original packet intervals divided by this factor: 1 is original speed, 2 is twice as fast.
    Recorded(f64),
    /// Full speed.
    Fast,
}

impl Default for Pace {
    fn default() -> Self {
        Pace::Recorded(1.0)
    }
}

/// Number of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// A fixed number of times.
    Times(u64),
    /// Until the port is removed.
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Repeat::Times(1)
    }
}

/// Playback settings.
#[derive(Clone, Debug)]
pub struct Playback {
    /// Packets to play.
    pub recording: Arc<Recording>,
    /// Timing.
    pub pace: Pace,
    /// Repetitions.
    pub repeat: Repeat,
    /// Delay from port start to the first packet.
    pub after: Duration,
}

impl Playback {
    /// Plays once, at original speed, without delay.
    pub fn new(recording: Recording) -> Self {
        let (pace, repeat) = (Pace::default(), Repeat::default());
        Self { recording: Arc::new(recording), pace, repeat, after: Duration::ZERO }
    }
}

/// Files of a port.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Interface name in the written file.
    pub name: String,
    /// Playback of received packets.
    pub read: Option<Playback>,
    /// Output pcapng file for sent packets.
    pub write: Option<Output>,
}
