//! What a client captures, and what it gets. A capture goes on in a process that takes the switch over: it begins there
//! with the first packet, and waits until its client has connected again.

use port::pcap::Filter;
use rustix::fd::OwnedFd;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A capture to be read.
pub(crate) struct Captured {
    /// The packets, as a file.
    pub(crate) pipe: OwnedFd,
    /// Why the pipe has ended, unless the capture is complete.
    pub(crate) end: Arc<OnceLock<CaptureEnd>>,
    /// Time without capture since the part before, if packets are missing.
    pub(crate) interruption: Option<Duration>,
}

/// Why a capture is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaptureEnd {
    /// An error.
    BrokeOff(String),
    /// Another process has taken over, and continues it.
    Continues(Continuation),
}

/// What a client captures.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaptureRequest {
    /// Names of ports; empty: all.
    pub(crate) ports: Vec<String>,
    pub(crate) received: bool,
    pub(crate) sent: bool,
    pub(crate) dropped: bool,
    /// Maximum bytes of a packet.
    pub(crate) snap: Option<u32>,
    /// Maximum number of packets.
    pub(crate) limit: Option<u64>,
    pub(crate) filter: Option<Filter>,
    /// Maximum number of packets per second of a worker that are followed; `None`: packets are not followed.
    pub(crate) trace: Option<u32>,
    /// The part before that it continues.
    pub(crate) continues: Option<Continuation>,
    /// The parameters for a process that takes over, if the client connects again.
    pub(crate) query: Option<String>,
}

/// The parts of a capture before. Its text is opaque to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// Identifies the capture.
    pub(crate) key: u64,
    /// Packets captured.
    pub(crate) packets: u64,
    /// Packets that did not fit into a ring.
    pub(crate) missed: u64,
    /// Time of the end in nanoseconds since the Unix epoch.
    pub(crate) time: u64,
}

impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, packets, missed, time } = self;
        write!(f, "{key}-{packets}-{missed}-{time}")
    }
}

impl FromStr for Continuation {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fields: Result<Vec<u64>, _> = text.split('-').map(str::parse).collect();
        match fields.as_deref() {
            Ok(&[key, packets, missed, time]) => Ok(Self { key, packets, missed, time }),
            _ => Err("expected the trailer `linerate-continues` of an answer"),
        }
    }
}

/// Time of day in nanoseconds since the Unix epoch.
pub(super) fn time_of_day() -> u64 {
    // Zero before 1970.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continuation_is_read_as_it_was_written() {
        let end = Continuation { key: 7, packets: u64::MAX, missed: 0, time: 9 };
        assert_eq!(end.to_string().parse(), Ok(end));
        for other in ["", "1-2-3", "1-2-3-4-5", "1-2-x-4"] {
            assert!(other.parse::<Continuation>().is_err(), "{other}");
        }
    }
}
