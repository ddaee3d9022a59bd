//! A handoff queue: packets on their way from one stage to the next, which is mostly on another thread.
//!
//! A handoff queue is a ring with one sender and one receiver (`ring::spsc`) of [`HandoffEntry`]s. An entry is a pool buffer with what
//! has to be known of the packet beside it, in 32 bytes. A packet that comes from a port is copied into a buffer once;
//! from stage to stage the buffer goes on, and the last stage writes it to its destination and gives it back. Both ends
//! use the cache of pool buffers of the thread that they are on ([`store`]), so a thread that takes and gives back as
//! many buffers as it gets never asks the pool.
//!
//! Protocol of sleeping (`doorbell`): the receiver raises `asleep`, executes a sequentially consistent fence and looks at the ring
//! again; only if that is empty it sleeps on the doorbell's descriptor. The sender publishes entries, executes a
//! sequentially consistent fence (the worker's, once for a round) and looks at `asleep`; if it is raised, it takes it down and
//! rings. One of the two fences comes first: either the receiver sees the entries or the sender sees `asleep`. An doorbell that
//! is rung for a receiver which has just woken by itself wakes it once too often, and no harm is done.
//!
//! What a handoff queue must never do: lose an entry, let two stages have one buffer, count as a port's traffic, or wait.

mod backlog;
mod doorbell;
mod entry;
mod handoffs;
mod receiver;
mod sender;
pub(crate) mod store;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub(crate) use handoffs::Handoffs;
pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

use crate::config::{EngineError, QueueFull};
use crate::model::HandoffConfig;
use doorbell::Doorbell;
use mem::pool::{Pages, Pool, PoolSpec};
use port::PortId;
use std::sync::Arc;

/// Bytes in front of a packet for headers that pipelines add: a burst's head grows by no more.
const HEADROOM: usize = 64;
/// Bytes of one buffer: a full Ethernet frame lies in one, and the distance to the next is an odd number of line pairs
/// without waste.
const BUFFER: u16 = 17 * 128;
/// Bytes of a packet in one buffer.
const DATA: usize = BUFFER as usize - HEADROOM;
/// Buffers that a thread may have beside those in rings: two bursts of two stages, and a cache of the pool.
const BESIDE: usize = 512;

/// Most stages of an engine: there are as many numbers for handoff queues.
pub(crate) const MOST_STAGES: usize = 256;

/// The port that handoff queues to stage number `stage` are for those in front of it: numbers from `max_ports` on.
pub(crate) fn port(max_ports: usize, stage: usize) -> PortId {
    PortId((max_ports + stage) as u16)
}

/// Both ends of a new handoff queue.
pub(crate) fn handoff(pool: &Arc<Pool>, config: &HandoffConfig) -> std::io::Result<(Sender, Receiver)> {
    let (producer, consumer) = ring::spsc::ring(config.ring);
    let doorbell = Arc::new(Doorbell::new()?);
    let holds = config.full == QueueFull::Wait;
    let sender = Sender::new(producer, doorbell.clone(), config.write_unit, holds);
    Ok((sender, Receiver::new(consumer, doorbell, config.read_unit, pool.clone())))
}

/// Buffers for `handoffs` handoff queues between `threads` threads, so that none is missing while a ring has room. Pages are touched when
/// they are first used; huge ones that the administrator set aside are left to programs that need them.
pub(crate) fn pool(
    config: &HandoffConfig,
    handoffs: usize,
    threads: usize,
) -> Result<Arc<Pool>, EngineError> {
    let ring = config.ring.next_power_of_two() + config.read_unit;
    // As many again as in rings may be in bursts, where packets are longer than a buffer.
    let buffers = (2 * handoffs * ring + threads * BESIDE).max(config.buffers);
    let spec = PoolSpec { buffers: buffers as u32, size: BUFFER, pages: Pages::Ordinary };
    Pool::new(spec).map_err(|e| EngineError::NoPool(e.to_string()))
}
