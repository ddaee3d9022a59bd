//! Queues of two joined ports without an engine, for measurements of single calls.

use engine::AttachedQueues;
use generator::rig::RigError;
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::wrap::{TxCoalesce, Wrappers, wrap};
use port::{Burst, BurstStats, PLACES, PortControl, PortFault, RxQueue, TxQueue};
use std::time::Instant;

/// One direction of a wire.
pub(super) struct Wire {
    pub(super) tx: Box<dyn TxQueue>,
    pub(super) rx: Box<dyn RxQueue>,
    /// Keeps the ports alive while their queues are used.
    _ends: [Box<dyn PortControl>; 2],
}

impl Wire {
    /// Creates a wire with rings of `ring_size` entries, and optionally a transmit buffer in front of it.
    pub(super) fn new(ring_size: u16, tx_coalesce: Option<TxCoalesce>) -> Result<Self, RigError> {
        let (exchange, now) = (Exchange::default(), Instant::now());
        let options = Options { ring_size, ..Options::default() };
        let wire = |error: &dyn std::fmt::Display| RigError::Wire(error.to_string());
        let end = |name: &str, peer: &str, tx_coalesce| {
            let pair = Patch::new(name, peer, options, &exchange).map_err(|error| wire(&error))?;
            let wrappers = Wrappers { tx_coalesce, ..Wrappers::default() };
            wrap(Box::new(pair), name, &wrappers).map_err(|error| wire(&error))
        };
        let mut ends = [end("a", "b", tx_coalesce)?, end("b", "a", None)?];
        let mut queues = [AttachedQueues::default(), AttachedQueues::default()];
        // The first end learns of the other one only in the second pass.
        for _ in 0..2 {
            ends.iter_mut().zip(&mut queues).for_each(|(end, queues)| end.handle(now, queues));
        }
        let [one, other] = queues;
        match (one.into_tx(), other.into_rx()) {
            (Some(tx), Some(rx)) => Ok(Self { tx, rx, _ends: ends }),
            _ => Err(wire(&"its ends did not meet")),
        }
    }
}

/// Frames of one size that are sent repeatedly.
pub(super) struct Frames {
    pub(super) burst: Burst,
}

impl Frames {
    /// Creates a burst of `packets` frames of `size` bytes, at most `BURST` frames of at most `HEAD` bytes.
    pub(super) fn new(packets: usize, size: usize) -> Self {
        let mut burst = Burst::new();
        burst.begin(0);
        for n in 0..packets.min(port::BURST) {
            burst.push_own(&vec![n as u8; size.min(port::HEAD)]);
        }
        Self { burst }
    }

    /// Sends the burst once; returns the number of accepted packets.
    pub(super) fn send(&self, to: &mut dyn TxQueue, stats: &mut BurstStats) -> Result<usize, PortFault> {
        to.tx(&self.burst, &PLACES[..self.burst.len()], stats)
    }
}

/// Receives and discards one burst; returns the number of packets.
pub(super) fn discard(from: &mut dyn RxQueue, burst: &mut Burst) -> Result<usize, PortFault> {
    burst.begin(0);
    from.rx(burst, &mut BurstStats::default())?;
    if !burst.is_untouched() {
        from.complete(burst.buf_ids());
    }
    Ok(burst.len())
}
