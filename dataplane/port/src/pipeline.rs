//! What decides where each packet goes.
//!
//! A pipeline sees a burst whose heads are loaded and gives a verdict on each packet ([`Verdicts`]). It must never block,
//! allocate on the common path or keep anything of a burst after [`Pipeline::process`] returns.

use crate::{Burst, Now, PortId, Verdicts};

/// Why a pipeline hands a packet to the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntReason {
    /// No table entry matched it.
    NoMatch,
    /// An entry says so.
    Action,
    /// Its time to live is not valid.
    InvalidTtl,
}

/// A packet for the control plane, as it was when the pipeline gave its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Punted {
    /// Where it came from.
    pub context: Context,
    /// Why it is here.
    pub reason: PuntReason,
    /// The frame, without its checksum.
    pub frame: Box<[u8]>,
}

/// Where a burst comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The port that the packets came in by.
    pub from: PortId,
    /// When the burst was received.
    pub now: Now,
    /// Whether the switch made the packets on behalf of the front end of port `from`. The guest did not send them, so a
    /// pipeline may trust them further.
    pub injected: bool,
    /// 0 for a packet that was received; what [`Verdicts::recirculate`] gave for one that passes through again.
    pub stage: u32,
}

impl Context {
    /// Of packets that port `from` received at `now`.
    pub fn received(from: PortId, now: Now) -> Self {
        Self { from, now, injected: false, stage: 0 }
    }
}

/// Decides where the packets of a burst go. Each worker has its own instance over shared tables.
pub trait Pipeline: Send {
    /// Gives a verdict on every packet of `burst`.
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts);

    /// Whether `process` needs packet headers. If `false`, heads are not copied, and outputs take packets whole from where
    /// they lie.
    fn needs_heads(&self) -> bool {
        true
    }

    /// Runs timers that are due, without packets. Returns when it is to be called next at the latest; `None` if no timer
    /// runs.
    ///
    /// Called when a worker takes the pipeline over, when the returned moment has come, before each sleep of the worker, and
    /// at least every 0.1 ms while the worker runs. So a deadline that arises in `process` needs no other announcement: a
    /// sleep ends with it, and a worker that never sleeps sees it at most 0.1 ms late. A call that finds no timer due
    /// must be cheap.
    fn tick(&mut self, now: Now) -> Option<Now> {
        let _ = now;
        None
    }
}

/// Makes each worker's pipeline over tables that they share.
pub trait Pipelines: Send + Sync {
    /// The pipeline of worker `index`.
    fn worker(&self, index: usize) -> Box<dyn Pipeline>;

    /// Receives changes of ports' states; `None` if the pipelines do not depend on them. Called once, at the start.
    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        None
    }
}

/// What a pipeline has on the control thread: changes of ports' states and punted packets. Must not wait for a worker.
pub trait PortObserver: Send {
    /// The last queue of `port` has stopped: its peer disconnected, its link went down, or it was removed. No worker
    /// processes a packet of it after this call, until its next queue starts; a hung worker excepted.
    fn stopped(&mut self, port: PortId, now: Now);

    /// A packet that a worker's pipeline handed over ([`Verdicts::punt`]). Packets of one worker come in their order.
    fn punted(&mut self, packet: Punted) {
        drop(packet);
    }
}
