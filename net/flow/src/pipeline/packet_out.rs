//! Packet-outs: actions of a controller on a frame that it sends (OpenFlow 1.3.5, 7.3.7).
//!
//! The engine has a worker process the frame at a stage of its own, which names the slot where the actions wait. A
//! worker takes a slot without waiting: the only other access at that time would be by control, if it gives up a
//! packet-out whose worker has not come for [`LOST`].

use super::directory::{Bridge, Member};
use super::error::UnknownBridge;
use super::exchange::lock;
use super::switch::FlowSwitch;
use crate::action::Action;
use crate::modify::PortNo;
use crate::tables::{ActionError, Tables};
use port::{Now, PortId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Maximum number of packet-outs that wait for a worker.
const WAITING: usize = 1024;
/// Stages of packet-outs have this bit and their number. Other stages are lower, [`super::worker::NORMAL`], or
/// [`port::Context::TRANSMIT`].
const STAGE: u32 = 1 << 31;
/// Numbers of packet-outs, after which they start again at 0.
const NUMBERS: u32 = 1 << 30;
/// Time after which a packet-out is lost, because its worker hangs or has ended; in nanoseconds.
const LOST: u64 = 10_000_000_000;
/// Lengths of frames in bytes.
const LENGTHS: std::ops::RangeInclusive<usize> = 14..=65_535;

/// Has a worker process a frame with a context of this port and stage. Returns `false` if it is discarded.
type Inject = Box<dyn Fn(PortId, Box<[u8]>, u32) -> bool + Send + Sync>;

/// Why a packet-out is refused. Nothing is sent then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketOutError {
    /// See [`UnknownBridge`].
    #[error(transparent)]
    Bridge(#[from] UnknownBridge),
    /// `OFPBRC_BAD_PORT`: not the number of a port, LOCAL, CONTROLLER, or none.
    #[error("port {0:?} is not valid as the ingress port of a packet-out")]
    InPort(PortNo),
    /// The length is not that of an Ethernet frame.
    #[error("a frame of {0} bytes cannot be sent: expected 14 to 65535 bytes")]
    Length(usize),
    /// An action is not valid.
    #[error(transparent)]
    Action(#[from] ActionError),
    /// The bridge has no port, so that no worker executes the actions.
    #[error("bridge \"{0}\" has no port")]
    NoPort(String),
    /// Too many packet-outs wait for a worker, or the engine does not run.
    #[error("too many packet-outs wait for a worker")]
    Busy,
}

/// Whether packets of a stage are packet-outs.
#[inline]
pub(super) fn is_packet_out(stage: u32) -> bool {
    stage & (STAGE | NUMBERS) == STAGE
}

/// A packet-out without its frame.
pub(super) struct PacketOut {
    pub(super) bridge: Arc<Bridge>,
    /// Ingress port of the message.
    pub(super) origin: Member,
    pub(super) actions: Box<[Action]>,
    /// The tables at the time of the message; the worker may have newer ones.
    pub(super) tables: Arc<Tables>,
}

#[derive(Default)]
struct Slot {
    /// Time at which it was filled; 0 if it is empty.
    since: AtomicU64,
    /// With its stage.
    content: Mutex<Option<(u32, PacketOut)>>,
}

impl Slot {
    /// Whether control may fill it: it is empty, or its packet-out is lost.
    fn is_free(&self, now: Now) -> bool {
        // Acquire pairs with the Release in `take`: no worker accesses an empty slot.
        let since = self.since.load(Ordering::Acquire);
        since == 0 || now.0.saturating_sub(since) >= LOST
    }
}

/// Packet-outs that wait for a worker.
pub(super) struct PacketOuts {
    slots: Box<[Slot]>,
    /// Number of the next packet-out. The lock keeps actions and frames in the same order.
    next: Mutex<u32>,
    inject: OnceLock<Inject>,
}

impl PacketOuts {
    pub(super) fn new() -> Self {
        let slots = (0..WAITING).map(|_| Slot::default()).collect();
        Self { slots, next: Mutex::new(0), inject: OnceLock::new() }
    }

    fn slot(&self, number: u32) -> &Slot {
        &self.slots[number as usize % WAITING]
    }

    /// Has a worker execute a packet-out on behalf of `port`. Returns `false` if none can.
    fn put(&self, (port, frame): (PortId, &[u8]), packet_out: PacketOut, now: Now) -> bool {
        let Some(inject) = self.inject.get() else { return false };
        let mut next = lock(&self.next);
        // A frame that the engine loses occupies its slot for some time: others use the next ones.
        let numbers = (0..WAITING as u32).map(|i| (*next + i) % NUMBERS);
        let Some((number, slot)) =
            numbers.map(|number| (number, self.slot(number))).find(|(_, slot)| slot.is_free(now))
        else {
            return false;
        };
        let stage = STAGE | number;
        *lock(&slot.content) = Some((stage, packet_out));
        // The worker is told of the slot later, by the engine.
        slot.since.store(now.0.max(1), Ordering::Relaxed);
        if !inject(port, frame.into(), stage) {
            *lock(&slot.content) = None;
            slot.since.store(0, Ordering::Relaxed);
            return false;
        }
        *next = (number + 1) % NUMBERS;
        true
    }

    /// The packet-out of a stage. Called by its worker. Returns `None` if control has given it up.
    pub(super) fn take(&self, stage: u32) -> Option<PacketOut> {
        let slot = self.slot(stage & !STAGE);
        let found = slot.content.try_lock().ok()?.take_if(|(of, _)| *of == stage);
        let (_, packet_out) = found?;
        // Pairs with the Acquire in `put`.
        slot.since.store(0, Ordering::Release);
        Some(packet_out)
    }
}

impl FlowSwitch {
    /// Sets the function by which the engine has a worker process a frame with `injected` contexts of this port and
    /// stage, unless it is set. It must keep the order of frames, must not wait, and returns `false` if it discards the
    /// frame. Until then, packet-outs are refused.
    pub fn connect(&self, inject: impl Fn(PortId, Box<[u8]>, u32) -> bool + Send + Sync + 'static) {
        // Set already: the engine is the same.
        let _ = self.exchange.packet_outs.inject.set(Box::new(inject));
    }

    /// Executes the actions of a packet-out on a frame. `in_port` is the number of a port, [`PortNo::LOCAL`],
    /// [`PortNo::CONTROLLER`] or [`PortNo::ANY`] for none. Packet-outs of one caller are executed in order, with the
    /// tables of all changes that were made before. Does not wait for a worker.
    ///
    /// The frame is counted as received on the ingress port, or on the first port of the bridge.
    ///
    /// # Errors
    /// If it is not valid or cannot be executed.
    pub fn packet_out(
        &self,
        bridge: &str,
        in_port: PortNo,
        actions: &[Action],
        frame: &[u8],
        now: Now,
    ) -> Result<(), PacketOutError> {
        let directory = self.published.current();
        let (number, view) = directory.named(bridge).ok_or_else(|| UnknownBridge(bridge.to_owned()))?;
        let special = [PortNo::LOCAL, PortNo::CONTROLLER, PortNo::ANY];
        if in_port.0 == 0 || in_port > PortNo::MAX && !special.contains(&in_port) {
            return Err(PacketOutError::InPort(in_port));
        }
        if !LENGTHS.contains(&frame.len()) {
            return Err(PacketOutError::Length(frame.len()));
        }
        let tables = view.bridge.tables.current();
        tables.check_packet_out(actions)?;
        let place = view.ports.get(&in_port).or_else(|| view.ports.values().next());
        let port = place.ok_or_else(|| PacketOutError::NoPort(bridge.to_owned()))?.port;
        let origin = Member { bridge: number, number: in_port, receives: true };
        let packet_out = PacketOut { bridge: view.bridge.clone(), origin, actions: actions.into(), tables };
        let is_put = self.exchange.packet_outs.put((port, frame), packet_out, now);
        if is_put { Ok(()) } else { Err(PacketOutError::Busy) }
    }
}
