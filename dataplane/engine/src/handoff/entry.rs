//! Entry of a handoff queue: a buffer and the metadata of its packet.

use mem::pool::Buffer;
use port::{Offload, PortId, Route};

/// One buffer of a packet. A packet longer than a buffer consists of several consecutive entries, which are published
/// together.
#[derive(Debug)]
pub(super) struct HandoffEntry {
    pub(super) buffer: Buffer,
    pub(super) offload: Offload,
    run: Run,
}

/// Origin and destination of a packet, and the number of its entries after this one: one word, so that packets of the
/// same run are found with one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run(u64);

/// Two entries fit in a cache line.
const _: () = assert!(size_of::<HandoffEntry>() == 32);

impl Run {
    /// The run of packets with one entry each.
    #[inline(always)]
    pub(super) fn of(route: Route) -> Self {
        Self::with(route, 0)
    }

    #[inline(always)]
    fn with(route: Route, more: u16) -> Self {
        let Route { from, pair, to } = route;
        Self(u64::from(from.0) | u64::from(pair) << 16 | u64::from(to.0) << 32 | u64::from(more) << 48)
    }
}

impl HandoffEntry {
    #[inline(always)]
    pub(super) fn new(buffer: Buffer, offload: Offload, route: Route, more: u16) -> Self {
        Self { buffer, offload, run: Run::with(route, more) }
    }

    /// The run of this entry; equal for whole packets with the same route.
    #[inline(always)]
    pub(super) fn run(&self) -> Run {
        self.run
    }

    /// Number of entries of the same packet after this one.
    #[inline(always)]
    pub(super) fn more(&self) -> u16 {
        (self.run.0 >> 48) as u16
    }

    #[inline]
    pub(super) fn route(&self) -> Route {
        let Run(run) = self.run;
        Route { from: PortId(run as u16), pair: (run >> 16) as u16, to: PortId((run >> 32) as u16) }
    }
}
