//! Handoff queue: transfers packets from one stage to the next, usually on another thread.
//!
//! A handoff queue is a ring with one sender and one receiver (`ring::spsc`) of `HandoffEntry`s. An entry is a pool
//! buffer with the metadata of its packet, 32 bytes in total. A packet from a port is copied into a buffer once; the
//! buffer is passed from stage to stage, and the last stage writes it to the destination and frees it. Both ends use
//! the buffer cache of their thread ([`store`]), so a thread that allocates as many buffers as it frees never
//! accesses the shared pool.
//!
//! Sleep protocol (`doorbell`): the receiver sets `asleep`, executes a sequentially consistent fence and checks the
//! ring again; only if the ring is empty, it sleeps on the descriptor of the doorbell. The sender publishes entries,
//! executes a sequentially consistent fence (the worker's, once per round) and reads `asleep`; if set, it clears
//! `asleep` and rings. One of the two fences comes first: either the receiver sees the entries or the sender sees
//! `asleep`. Ringing for a receiver that has just woken by itself causes one spurious wake-up.
//!
//! A handoff queue must not lose an entry, share a buffer between two stages, count as traffic of a port, or block.

mod backlog;
mod doorbell;
mod entry;
mod exchange;
mod handoffs;
mod receiver;
mod sender;
pub mod sizes;
pub(crate) mod store;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use doorbell::Doorbell;
pub use exchange::Exchange;
pub(crate) use exchange::exchange;
pub(crate) use handoffs::Handoffs;
pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;

use crate::config::{EngineError, QueueFull};
use crate::model::HandoffConfig;
use mem::pool::{Pages, Pool, PoolSpec};
use port::PortId;
use sizes::{BUFFER, HEADROOM};
use std::sync::Arc;

/// Packet bytes per buffer.
const DATA: usize = BUFFER as usize - HEADROOM;

/// Maximum number of stages of an engine; as many port numbers are reserved for handoff queues.
pub(crate) const MAX_STAGES: usize = 256;

/// Port number of the handoff queues to stage `stage`, as used by the stages in front of it. Numbers start at
/// `max_ports`.
pub(crate) fn port(max_ports: usize, stage: usize) -> PortId {
    PortId((max_ports + stage) as u16)
}

/// Creates a handoff queue and returns both ends.
pub(crate) fn handoff(pool: &Arc<Pool>, config: &HandoffConfig) -> std::io::Result<(Sender, Receiver)> {
    let (producer, consumer) = ring::spsc::ring(config.ring);
    let doorbell = Arc::new(Doorbell::new()?);
    let holds = config.full == QueueFull::Wait;
    let sender = Sender::new(producer, doorbell.clone(), config.write_unit, holds);
    Ok((sender, Receiver::new(consumer, doorbell, config.read_unit, pool.clone())))
}

/// Buffer pool for `handoffs` handoff queues between `threads` threads, large enough that a buffer is available while
/// a ring has room. Pages are touched on first use. Reserved huge pages are not used, so that they stay available to
/// other programs.
pub(crate) fn pool(
    config: &HandoffConfig,
    handoffs: usize,
    threads: usize,
) -> Result<Arc<Pool>, EngineError> {
    let buffers = sizes::buffers(config, handoffs, threads);
    let spec = PoolSpec { buffers: buffers as u32, size: BUFFER, pages: Pages::Ordinary };
    Pool::new(spec).map_err(|e| EngineError::NoPool(e.to_string()))
}
