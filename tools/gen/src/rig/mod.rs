//! Generator and meter at work: ports, a source and a clock on one thread.
//!
//! This is the part of the folder that reads a clock. One turn of the loop sends what is due, takes what has come, and
//! now and then lets the ports' control run and whoever watches look at the numbers. The loop ends by the clock alone, so
//! a switch that takes nothing, gives nothing or goes away costs its frames and never the run.

mod ends;
mod outcome;
mod side;
mod switch;
#[cfg(test)]
mod tests;
mod work;

pub use ends::{Beside, Ends};
pub use outcome::{Limit, Missed, Outcome, StreamOutcome};
pub use side::{Desk, Side};
pub use switch::{Bench, inline};
pub use work::Rig;

use super::description::StreamError;
use super::memory::NoMemory;
use super::rate::Rate;
use super::schedule::Pace;
use std::time::Duration;

/// Most streams of a run: each takes 576 KiB in the meter.
pub const MOST: usize = 256;

/// What is asked of a run.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The rate of all streams together that have none of their own.
    pub rate: Rate,
    /// How frames are spread.
    pub pace: Pace,
    /// How long frames are sent that count.
    pub duration: Duration,
    /// How long frames are sent before that.
    pub warm_up: Duration,
    /// Most frames that a late stream sends at once; left out: what is due in ten milliseconds, but no more than 1024 or
    /// what is due in one.
    pub catch_up: Option<u64>,
    /// How long ports may take until they carry packets.
    pub timeout: Duration,
    /// Whether the receiver says where it is, so that switches need not flood: once before, and every few milliseconds of
    /// the warm-up until a frame has come.
    pub announce: bool,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Ports are not ready.
    Waiting,
    /// Frames that do not count.
    WarmUp,
    /// Frames that count.
    Measuring,
    /// Frames may be on their way still.
    Draining,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What it is doing.
    pub phase: Phase,
    /// For how long.
    pub since: Duration,
    /// Frames of this phase that were sent.
    pub sent: u64,
    /// Frames that came, all phases together.
    pub received: u64,
}

/// Whoever watches a run, and may end it by `false`.
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// A stream is wrong.
    #[error("stream {0}: {1}")]
    Stream(usize, #[source] StreamError),
    /// There is none, or too many.
    #[error("there are {0} streams; describe 1 to 256")]
    Streams(usize),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// A port did not come to life; nothing was sent.
    #[error("port {name} carried no packets within {timeout:?}: it is {state}")]
    NotReady {
        /// Which one.
        name: String,
        /// How long was waited.
        timeout: Duration,
        /// What it is doing.
        state: String,
    },
    /// The wire of our own could not be made.
    #[error("the wire of the generator's own could not be made: {0}")]
    Wire(String),
    /// It was ended before anything counted.
    #[error("it was ended before a frame was sent that counts")]
    Ended,
}

/// Has the copies of this process made by the kernel that is fastest here. Before the first port is made.
pub fn settle() {
    mem::copy::settle(mem::copy::choose(mem::ticks));
}
