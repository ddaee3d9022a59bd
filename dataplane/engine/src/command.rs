//! What control and workers say to each other.

use crate::handoff::Sender;
use crate::stealable::StealableQueue;
use crate::worker::Peer;
use port::{Pipeline, PortFault, PortId, RxQueue, TxQueue};
use std::sync::Arc;

/// One direction of one queue pair of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    pub(crate) port: PortId,
    pub(crate) pair: u16,
}

/// Which start of a queue something belongs to, so that news of a queue that was stopped meanwhile is known as
/// old news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Generation(pub(crate) u64);

/// By pair of a port: the worker that has its receive queue, by its place among those that take packets.
pub(crate) type XpsMap = Arc<[u16]>;

/// From control to a worker. Obeyed at a burst boundary, in order.
pub(crate) enum Command {
    StartRx(QueueKey, Generation, Box<dyn RxQueue>),
    StopRx(QueueKey),
    StartTx(QueueKey, Generation, Box<dyn TxQueue>, XpsMap),
    StopTx(QueueKey),
    Refresh(PortId),
    Inject(PortId, Box<[u8]>),
    /// Receive queues of this port are elsewhere from now on.
    SetXpsMap(PortId, XpsMap),
    /// A queue that several workers serve.
    Share(Arc<StealableQueue>),
    /// A queue that is touched no more.
    Unshare(QueueKey),
    /// Where queues are shared: this worker's place among all, and those.
    Meet(usize, Arc<[Peer]>),
    /// By place: the workers that serve an isolated queue, so that they take nothing of others.
    LeaveAlone(Arc<[bool]>),
    /// Say how much each receive queue has brought.
    Weigh,
    /// Another handoff queue begins here, behind those that there are, and is this port.
    AddHandoff(PortId, Sender),
    /// Packets for this port go by the handoff queue at that place, or nowhere.
    Route(PortId, Option<u8>),
    /// Everything that is in handoff queues to this stage is judged and sent before this is obeyed.
    Drain,
    /// Nothing is taken, or again.
    Pause(bool),
    /// What judges from now on.
    Judge(Box<dyn Pipeline>),
    Quit,
}

/// A queue that a worker has let go of, and the start that it belonged to. It is dropped by control, because
/// dropping may unmap memory.
pub(crate) enum Retired {
    Rx(Generation, Box<dyn RxQueue>),
    Tx(Generation, Box<dyn TxQueue>),
}

/// From a worker to control: a queue was found broken, and the worker has stopped using it.
pub(crate) struct Event {
    pub(crate) port: PortId,
    pub(crate) generation: Generation,
    pub(crate) fault: PortFault,
    pub(crate) retired: Option<Retired>,
}

/// From a worker to control: how long it had packets, in ticks, and what its receive queues brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) busy_ticks: u64,
    pub(crate) queues: Vec<Weight>,
}

/// What a receive queue has brought since it was started here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) key: QueueKey,
    pub(crate) generation: Generation,
    pub(crate) packets: u64,
}
