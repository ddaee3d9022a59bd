//! A worker that a bench steps by hand: the code that the threads of an [`crate::Engine`] run, without thread,
//! mailbox traffic or sleep.

use crate::command::{Command, Event, QueueKey, Serial};
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::hop::Hops;
use crate::link::{Bell, Link};
use crate::pipeline::Pipeline;
use crate::sleeper::Sleeper;
use crate::worker::{Parts, Worker};
use mem::copy::Choice;
use mem::ticks;
use port::{PortFault, PortId, RxQueue, Spread, TxQueue};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// What a stepped worker is made of.
#[derive(Debug)]
pub struct StepConfig {
    /// Port numbers are below this.
    pub max_ports: usize,
    /// The kernel that copies heads.
    pub kernel: Choice,
    /// Ticks of [`mem::ticks`] per nanosecond; infinity stops the clock that the pipeline sees.
    pub ticks_per_ns: f64,
}

/// Packets so far, over all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken from receive queues.
    pub received: u64,
    /// Put into transmit queues.
    pub sent: u64,
    /// Lost, whatever the reason.
    pub dropped: u64,
}

/// A worker without a thread.
pub struct SteppedWorker {
    worker: Worker,
    counters: Arc<WorkerCounters>,
    events: Receiver<Event>,
}

impl std::fmt::Debug for SteppedWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SteppedWorker").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl SteppedWorker {
    /// A worker without queues.
    pub fn new(config: &StepConfig, pipeline: Box<dyn Pipeline>) -> std::io::Result<Self> {
        let (sender, events) = channel();
        let link = Arc::new(Link::new(sender, Bell::new()?)?);
        let counters = Arc::new(WorkerCounters::new(config.max_ports));
        let parts = Parts {
            sleeper: Sleeper::new(link.bell.clone())?,
            link,
            counters: counters.clone(),
            pipeline,
            kernel: config.kernel,
            ticks_per_ns: config.ticks_per_ns,
            start: ticks(),
            max_ports: config.max_ports,
            workers: 1,
            spread: Spread::default(),
            hops: Hops::new(config.kernel, config.max_ports, false, false),
        };
        Ok(Self { worker: Worker::new(WorkerConfig::default(), parts), counters, events })
    }

    /// Takes from the receive queue and sends to the transmit queue of `port` from now on.
    pub fn start(&mut self, port: PortId, rx: Box<dyn RxQueue>, tx: Box<dyn TxQueue>) {
        let key = QueueKey { port, pair: 0 };
        self.worker.obey_one(Command::StartRx(key, Serial(0), rx));
        self.worker.obey_one(Command::StartTx(key, Serial(0), tx, [0].into()));
    }

    /// Polls every queue once. The last burst of a round is judged and sent at the start of the next one.
    #[inline]
    pub fn round(&mut self) -> bool {
        self.worker.round()
    }

    /// A queue that was found broken, and is used no more.
    pub fn fault(&self) -> Option<(PortId, PortFault)> {
        self.events.try_recv().ok().map(|event| (event.port, event.fault))
    }

    /// Packets so far.
    pub fn counts(&self) -> Counts {
        let sum = |of: fn(&crate::counters::PortCounters) -> u64| {
            self.counters.ports.iter().map(|p| of(&p.0)).sum()
        };
        Counts {
            received: sum(|port| port.rx_packets.get()),
            sent: sum(|port| port.tx_packets.get()),
            dropped: sum(|port| port.drops.iter().map(crate::counters::Counter::get).sum()),
        }
    }
}
