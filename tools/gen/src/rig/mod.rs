//! Runs generator and meter: ports, a source and a clock on one thread.
//!
//! Only this module reads a clock. A turn of the loop sends due frames and receives; periodically it runs the ports'
//! control and reports progress. The loop ends by time alone, so a switch that drops, blocks or disconnects affects
//! frames but does not stall the run.

mod outcome;
mod ports;
mod switch;
#[cfg(test)]
mod tests;
mod work;

pub use outcome::{Limit, Missed, Outcome, StreamOutcome};
pub use ports::{InlineWork, RigPorts, receive};
pub use switch::{Bench, inline};
pub use work::Rig;

use super::description::StreamError;
use super::memory::MemoryError;
use super::rate::Rate;
use super::schedule::Pace;
use std::time::Duration;

/// Maximum number of streams of a run: each takes 576 KiB in the meter.
pub const MAX_RIG_STREAMS: usize = 256;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Rate of all streams together that have no rate of their own.
    pub rate: Rate,
    /// Distribution of frames over time.
    pub pace: Pace,
    /// Duration of the measurement.
    pub duration: Duration,
    /// Duration of the warm-up before it; up to a second longer if `announce` and no frame has arrived.
    pub warm_up: Duration,
    /// Maximum number of frames that a late stream sends at once; default: the frames due in ten milliseconds, at least
    /// a burst, and at most 1024 or those due in one millisecond, whichever is larger.
    pub catch_up: Option<u64>,
    /// Maximum time until ports carry packets.
    pub timeout: Duration,
    /// Whether the receiver sends frames with its addresses, so that switches need not flood: once before the warm-up,
    /// and every few milliseconds during it until a frame has arrived.
    pub announce: bool,
}

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for the ports.
    Waiting,
    /// Sending warm-up frames.
    WarmUp,
    /// Sending measured frames.
    Measuring,
    /// Receiving frames that are still in flight.
    Draining,
}

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Phase.
    pub phase: Phase,
    /// Time in this phase.
    pub since: Duration,
    /// Frames sent in this phase.
    pub sent: u64,
    /// Frames received, over all phases.
    pub received: u64,
}

/// Progress callback; ends the run if it returns `false`.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// Invalid stream.
    #[error("stream {0}: {1}")]
    Stream(usize, #[source] StreamError),
    /// Invalid number of streams.
    #[error("invalid number of streams {0}; describe 1 to 256")]
    Streams(usize),
    /// Memory allocation failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A port did not become ready; nothing was sent.
    #[error("port {name} carried no packets within {timeout:?}: {state}")]
    NotReady {
        /// Name of the port.
        name: String,
        /// Timeout.
        timeout: Duration,
        /// State of the port.
        state: String,
    },
    /// The ports cannot be created.
    #[error("cannot create the loopback baseline: {0}")]
    Wire(String),
    /// The run ended before the measurement.
    #[error("the run ended before the measurement started")]
    Ended,
}

/// Selects the fastest copy kernel for this process. Must be called before the first port is created.
pub fn settle() {
    mem::copy::settle_fastest(mem::ticks);
}
