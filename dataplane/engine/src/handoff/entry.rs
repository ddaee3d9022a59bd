//! What travels in a handoff queue: a buffer, and what is known of the packet in it.

use mem::pool::Buffer;
use port::{Offload, PortId, Route};

/// A buffer of a packet. A packet that is longer than one is as many entries in a row, which are published together.
#[derive(Debug)]
pub(super) struct HandoffEntry {
    pub(super) buffer: Buffer,
    pub(super) offload: Offload,
    run: Run,
}

/// Where a packet comes from and goes to, and how many entries of it are behind this one: in one word, so that packets of one
/// run are found with one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run(u64);

/// Two lie on a line.
const _: () = assert!(size_of::<HandoffEntry>() == 32);

impl Run {
    /// Of packets that are an entry each.
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

    /// The run that it belongs to, if it is a whole packet.
    #[inline(always)]
    pub(super) fn run(&self) -> Run {
        self.run
    }

    /// Entries of the same packet behind this one.
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
