//! Messages between the control thread and workers.

use crate::capture::{Capture, CaptureId};
use crate::config::WorkerConfig;
use crate::handoff::Sender;
use crate::injector::Permit;
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

/// One start of a queue. Identifies messages about a queue that was stopped in the meantime, so that they can be
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Generation(pub(crate) u64);

/// For each pair of a port: index of the worker that serves its receive queue, among the workers that receive
/// packets.
pub(crate) type XpsMap = Arc<[u16]>;

/// A command from the control thread to a worker. Handled at a burst boundary, in order.
pub(crate) enum Command {
    StartRx(QueueKey, Generation, Box<dyn RxQueue>),
    StopRx(QueueKey),
    StartTx(QueueKey, Generation, Box<dyn TxQueue>, XpsMap),
    StopTx(QueueKey),
    Refresh(PortId),
    Inject(Injected),
    /// Replaces the XPS map of a port, because its receive queues have moved.
    SetXpsMap(PortId, XpsMap),
    /// Adds a queue that several workers serve.
    Share(Arc<StealableQueue>),
    /// Removes a shared queue; the worker does not access it afterwards.
    Unshare(QueueKey),
    /// Sets the number of workers among which the queue pairs of a port are divided. No queue is running.
    SetWorkers(usize),
    /// Changes polling and the handling of full queues.
    Configure(WorkerConfig),
    /// Queue sharing: index of this worker, and all workers.
    SetPeers(usize, Arc<[Peer]>),
    /// By worker index: whether the worker serves an isolated queue. Such a worker does not steal.
    SetDedicated(Arc<[bool]>),
    /// Requests the packet count of each receive queue.
    ReportLoad,
    /// Adds a sender of a handoff queue, after the existing ones. The pipeline addresses it by this port number.
    AddHandoff(PortId, Sender),
    /// Removes the sender of the handoff queue with this port number.
    RemoveHandoff(PortId),
    /// Routes packets for this port to the handoff queue to this stage; `None` removes the route.
    Route(PortId, Option<usize>),
    /// Classifies and sends everything in the handoff queues to this stage before the command counts as handled.
    Drain,
    /// Captures packets from now on.
    StartCapture(Box<Capture>),
    StopCapture(CaptureId),
    /// Replaces the pipeline.
    SetPipeline(Box<dyn Pipeline>),
    Quit,
}

/// A frame created by the switch, to be classified as if `port` had received it.
pub(crate) struct Injected {
    pub(crate) port: PortId,
    pub(crate) frame: Box<[u8]>,
    /// See [`port::Context::stage`].
    pub(crate) stage: u32,
    /// Counts the frame as waiting, if it is from an [`crate::Injector`].
    pub(crate) _permit: Option<Permit>,
}

/// A queue released by a worker, and its generation. Dropped by the control thread, because dropping it may unmap
/// memory.
pub(crate) enum Retired {
    Rx(Generation, Box<dyn RxQueue>),
    Tx(Generation, Box<dyn TxQueue>),
}

/// From a worker to the control thread: a queue failed and the worker has stopped using it.
pub(crate) struct Event {
    pub(crate) port: PortId,
    pub(crate) generation: Generation,
    pub(crate) fault: PortFault,
    pub(crate) retired: Option<Retired>,
}

/// From a worker to the control thread: ticks spent in rounds with packets, and the packet count of each receive
/// queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadReport {
    pub(crate) busy_ticks: u64,
    pub(crate) queues: Vec<QueuePackets>,
}

/// Packets received from a queue since it was started on this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePackets {
    pub(crate) key: QueueKey,
    pub(crate) generation: Generation,
    pub(crate) packets: u64,
}
