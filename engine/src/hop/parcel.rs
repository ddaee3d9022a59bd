//! What travels in a hop: a buffer, and what is known of the packet in it.

use mem::pool::Buffer;
use port::{Offload, PortId, Route};

/// A buffer of a packet. A packet that is longer than one is as many parcels in a row, which are published together.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) buffer: Buffer,
    pub(super) offload: Offload,
    from: PortId,
    to: PortId,
    pair: u16,
    /// Parcels of the same packet behind this one.
    pub(super) more: u16,
}

/// Two lie on a line.
const _: () = assert!(size_of::<Parcel>() == 32);

impl Parcel {
    #[inline]
    pub(super) fn new(buffer: Buffer, offload: Offload, route: Route, more: u16) -> Self {
        Self { buffer, offload, from: route.from, to: route.to, pair: route.pair, more }
    }

    #[inline]
    pub(super) fn route(&self) -> Route {
        Route { from: self.from, pair: self.pair, to: self.to }
    }
}
