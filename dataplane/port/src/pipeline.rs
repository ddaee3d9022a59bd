//! Pipelines: decide the output ports of each packet.
//!
//! A pipeline gets a burst with loaded heads and gives a verdict on each packet ([`Verdicts`]). It must never block,
//! allocate on the common path, or keep references to a burst after [`Pipeline::process`] returns.

use crate::{Burst, Now, PortId, Verdicts};
use std::any::Any;
use std::sync::Arc;

/// Why a packet is punted to the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntReason {
    /// No table entry matched.
    NoMatch,
    /// Action of a table entry.
    Action,
    /// Invalid time to live.
    InvalidTtl,
    /// Frame of a protocol between switches.
    Protocol,
}

/// Information of a pipeline for its control plane about a punted packet.
pub type PuntNote = Option<Arc<dyn Any + Send + Sync>>;

/// A packet for the control plane, as it was at the pipeline's verdict.
#[derive(Clone, Debug)]
pub struct Punted {
    /// Source of the packet.
    pub context: Context,
    /// Reason of the punt.
    pub reason: PuntReason,
    /// Passed to [`Verdicts::punt_with`].
    pub note: PuntNote,
    /// Frame, without its frame check sequence.
    pub frame: Box<[u8]>,
}

/// Source of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Input port.
    pub from: PortId,
    /// Time at which the burst was received.
    pub now: Now,
    /// Whether the switch created the packets on behalf of port `from`: for its front end, or in a later stage for the
    /// pipeline's control plane. The guest did not send them, so a pipeline may trust them more.
    pub injected: bool,
    /// 0 for a received packet; the stage passed to [`Verdicts::recirculate`] for a recirculated one, or to the
    /// engine's injector for a packet of the control plane.
    pub stage: u32,
}

impl Context {
    /// Stage of a frame that the pipeline's control plane sends on port `from`, as it is.
    pub const TRANSMIT: u32 = u32::MAX - 1;

    /// Context of packets received on port `from` at `now`.
    pub fn received(from: PortId, now: Now) -> Self {
        Self { from, now, injected: false, stage: 0 }
    }
}

/// Decides the outputs of the packets of a burst. Each worker has its own instance over shared tables.
pub trait Pipeline: Send {
    /// Gives a verdict on every packet of `burst`.
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts);

    /// Whether `process` needs packet headers. If `false`, heads are not copied, and outputs read packets completely
    /// from their source's memory.
    fn needs_heads(&self) -> bool {
        true
    }

    /// Runs due timers, without packets. Returns the deadline of the next call, or `None` if no timer runs.
    ///
    /// Called when a worker takes over the pipeline, at the returned deadline, before each sleep of the worker, and
    /// at least every 0.1 ms while the worker runs. A deadline set in `process` thus needs no other notification: it
    /// ends a sleep, and a worker that never sleeps sees it at most 0.1 ms late. A call without due timers must be
    /// cheap.
    fn tick(&mut self, now: Now) -> Option<Now> {
        let _ = now;
        None
    }
}

/// Creates the workers' pipelines over shared tables.
pub trait Pipelines: Send + Sync {
    /// Pipeline of worker `index`.
    fn worker(&self, index: usize) -> Box<dyn Pipeline>;

    /// Observer of port state changes; `None` if the pipelines do not need one. Called once, at the start.
    fn observer(&self) -> Option<Box<dyn PortObserver>> {
        None
    }
}

/// Control-thread side of the pipelines: port state changes and punted packets. Must not wait for a worker.
pub trait PortObserver: Send {
    /// Whether `port` can send has changed: a queue is running, its peer is connected and its link is up. A port cannot
    /// when it is added.
    fn changed(&mut self, port: PortId, is_up: bool, now: Now) {
        let _ = (port, is_up, now);
    }

    /// The last queue of `port` has stopped: its peer disconnected, its link went down, or it was removed. No worker
    /// processes a packet of the port after this call until its next queue starts, except for a hung worker.
    fn stopped(&mut self, port: PortId, now: Now);

    /// Receives a packet punted by a worker's pipeline ([`Verdicts::punt`]). Packets of one worker arrive in order.
    fn punted(&mut self, packet: Punted) {
        drop(packet);
    }
}
