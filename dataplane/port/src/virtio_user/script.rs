//! Requests of a front end after feature negotiation: memory, rings, driver status.
//!
//! Pure: generates requests in an order accepted by all known back ends, and the descriptor sent with each. The kick
//! descriptor comes last, because some back ends start a ring when they receive it.

use super::Negotiated;
use crate::vhost::Features;
use crate::vhost::message::{ProtocolFeatures, Request, VringAddress, VringFile, VringState};
use mem::RegionSpec;
use ring::Layout;
use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_DRIVER_OK,
    VIRTIO_CONFIG_S_FEATURES_OK,
};

/// Device status of a driver that uses its device (VIRTIO 1.2 section 2.1).
const READY: u32 = VIRTIO_CONFIG_S_ACKNOWLEDGE
    | VIRTIO_CONFIG_S_DRIVER
    | VIRTIO_CONFIG_S_FEATURES_OK
    | VIRTIO_CONFIG_S_DRIVER_OK;

/// Descriptor sent with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attached {
    Nothing,
    Memory,
    /// Call eventfd of this ring.
    Call(u8),
    /// Kick eventfd of this ring.
    Kick(u8),
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) request: Request,
    pub(super) file: Attached,
}

impl Line {
    fn plain(request: Request) -> Self {
        Self { request, file: Attached::Nothing }
    }
}

/// Base of a fresh ring: 0 for a split ring; for a packed ring both wrap counters are 1.
pub(super) fn fresh_base(features: Features) -> u32 {
    if features.has(Features::RING_PACKED) { 0x8000_8000 } else { 0 }
}

/// Shares one region that contains all memory.
pub(super) fn memory(agreed: Negotiated, spec: RegionSpec) -> Line {
    let request = if agreed.protocol.has(ProtocolFeatures::CONFIGURE_MEM_SLOTS) {
        Request::AddMemReg(spec)
    } else {
        Request::SetMemTable(vec![spec])
    };
    Line { request, file: Attached::Memory }
}

/// Describes ring `index`. Without a call or kick descriptor the other side polls.
pub(super) fn ring(index: u8, at: &Layout, call: bool, kick: bool) -> [Line; 5] {
    let state = |num| VringState { index: u32::from(index), num };
    let file = |has_descriptor| VringFile { index, has_descriptor };
    let address = VringAddress {
        index: u32::from(index),
        flags: 0,
        descriptor: at.descriptors,
        used: at.device,
        available: at.driver,
        log: 0,
    };
    let attached = |has, file| if has { file } else { Attached::Nothing };
    [
        Line::plain(Request::SetVringNum(state(u32::from(at.size)))),
        Line::plain(Request::SetVringBase(state(at.base))),
        Line::plain(Request::SetVringAddr(address)),
        Line { request: Request::SetVringCall(file(call)), file: attached(call, Attached::Call(index)) },
        Line { request: Request::SetVringKick(file(kick)), file: attached(kick, Attached::Kick(index)) },
    ]
}

/// A request that needs a reply, if the back end does not acknowledge: all earlier requests are processed when it
/// replies.
pub(super) fn barrier(agreed: Negotiated) -> Option<Line> {
    let acknowledges = agreed.protocol.has(ProtocolFeatures::REPLY_ACK);
    (!acknowledges).then(|| Line::plain(Request::GetFeatures))
}

/// Enables `rings` rings, if the back end supports it, and sets the driver status.
pub(super) fn ready(agreed: Negotiated, rings: u32) -> impl Iterator<Item = Line> {
    let enables = if agreed.features.has(Features::PROTOCOL) { rings } else { 0 };
    let enable = |index| Line::plain(Request::SetVringEnable(VringState { index, num: 1 }));
    let status = agreed.protocol.has(ProtocolFeatures::STATUS);
    let status = status.then(|| Line::plain(Request::SetStatus(READY.into())));
    (0..enables).map(enable).chain(status)
}
