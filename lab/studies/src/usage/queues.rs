//! The bare queues of two ports that are joined, without an engine: for what is measured call by call.

use generator::rig::{Desk, RigError};
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::wrap::{TxCoalesce, Wrappers, wrap};
use port::{Burst, BurstStats, PLACES, PortControl, PortFault, RxQueue, TxQueue};
use std::time::Instant;

/// One direction of a wire.
pub(super) struct Wire {
    pub(super) tx: Box<dyn TxQueue>,
    pub(super) rx: Box<dyn RxQueue>,
    /// The ports live as long as their queues are used.
    _ends: [Box<dyn PortControl>; 2],
}

impl Wire {
    /// A wire with rings of so many entries, and a buffer in front of it where one is wanted.
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
        let mut desks = [Desk::default(), Desk::default()];
        // Whoever sits down first hears of the other the second time.
        for _ in 0..2 {
            ends.iter_mut().zip(&mut desks).for_each(|(end, desk)| end.handle(now, desk));
        }
        let [one, other] = desks;
        match (one.into_tx(), other.into_rx()) {
            (Some(tx), Some(rx)) => Ok(Self { tx, rx, _ends: ends }),
            _ => Err(wire(&"its ends did not meet")),
        }
    }
}

/// Frames of one size that are sent over and over again.
pub(super) struct Frames {
    pub(super) burst: Burst,
}

impl Frames {
    /// A burst of `packets` frames of `size` bytes, 128 at most.
    pub(super) fn new(packets: usize, size: usize) -> Self {
        let mut burst = Burst::new();
        burst.begin(0);
        for n in 0..packets.min(port::BURST) {
            burst.push_own(&vec![n as u8; size.min(port::HEAD)]);
        }
        Self { burst }
    }

    /// Offers them once. How many were taken.
    pub(super) fn send(&self, to: &mut dyn TxQueue, stats: &mut BurstStats) -> Result<usize, PortFault> {
        to.tx(&self.burst, &PLACES[..self.burst.len()], stats)
    }
}

/// Takes one burst and forgets it. How many packets.
pub(super) fn discard(from: &mut dyn RxQueue, burst: &mut Burst) -> Result<usize, PortFault> {
    burst.begin(0);
    from.rx(burst, &mut BurstStats::default())?;
    if !burst.is_untouched() {
        from.complete(burst.buf_ids());
    }
    Ok(burst.len())
}
