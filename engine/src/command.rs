//! What control and workers say to each other.

use crate::hop::Sender;
use crate::pipeline::Pipeline;
use port::{PortFault, PortId, RxQueue, TxQueue};

/// One direction of one queue pair of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    pub(crate) port: PortId,
    pub(crate) pair: u16,
}

/// Which start of a queue something belongs to, so that news of a queue that was stopped meanwhile is known as
/// old news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Serial(pub(crate) u64);

/// From control to a worker. Obeyed at a burst boundary, in order.
pub(crate) enum Command {
    StartRx(QueueKey, Serial, Box<dyn RxQueue>),
    StopRx(QueueKey),
    /// The number is the port's home: the worker that has the receive queue of pair 0; pair n's is n workers further.
    StartTx(QueueKey, Serial, Box<dyn TxQueue>, usize),
    StopTx(QueueKey),
    Refresh(PortId),
    Inject(PortId, Box<[u8]>),
    /// Another hop begins here, behind those that there are.
    AddHop(Sender),
    /// Packets for this port go by the hop at that place, or nowhere.
    Route(PortId, Option<u8>),
    /// Everything that is in hops to this stage is judged and sent before this is obeyed.
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
    Rx(Serial, Box<dyn RxQueue>),
    Tx(Serial, Box<dyn TxQueue>),
}

/// From a worker to control: a queue was found broken, and the worker has stopped using it.
pub(crate) struct Event {
    pub(crate) port: PortId,
    pub(crate) serial: Serial,
    pub(crate) fault: PortFault,
    pub(crate) retired: Option<Retired>,
}
