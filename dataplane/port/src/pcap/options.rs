//! What a pcap port may be told.

use super::{Output, Recording};
use std::sync::Arc;
use std::time::Duration;

/// When the packets of a recording enter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// With the times between them divided by this: 1 is as they were recorded, 2 twice as fast.
    Recorded(f64),
    /// As fast as it goes.
    Fast,
}

impl Default for Pace {
    fn default() -> Self {
        Pace::Recorded(1.0)
    }
}

/// How often a recording is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// So often.
    Times(u64),
    /// Until the port is removed.
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Repeat::Times(1)
    }
}

/// What enters, and when.
#[derive(Clone, Debug)]
pub struct Playing {
    /// The packets.
    pub recording: Arc<Recording>,
    /// How fast.
    pub pace: Pace,
    /// How often.
    pub repeat: Repeat,
    /// How long after the port's start the first packet enters.
    pub after: Duration,
}

impl Playing {
    /// Once, as it was recorded, at once.
    pub fn new(recording: Recording) -> Self {
        let (pace, repeat) = (Pace::default(), Repeat::default());
        Self { recording: Arc::new(recording), pace, repeat, after: Duration::ZERO }
    }
}

/// Which files a port is.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The interface's name in the file that is written.
    pub name: String,
    /// What enters.
    pub read: Option<Playing>,
    /// Where what leaves is written, as pcapng.
    pub write: Option<Output>,
}
