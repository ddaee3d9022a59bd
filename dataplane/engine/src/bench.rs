//! A worker for benchmarks that is stepped by the caller: the code that the threads of an [`crate::Engine`] run,
//! without threads, mailboxes or sleep. Either a run-to-completion worker, or the three stages of a pipeline in turn.

use crate::command::{Command, Event, Generation, QueueKey};
use crate::config::WorkerConfig;
use crate::counters::WorkerCounters;
use crate::debts::WorkDebts;
use crate::handoff::{self, Handoffs, store};
use crate::link::{Doorbell, Link, ResponseLimit};
use crate::model::HandoffConfig;
use crate::sleeper::Sleeper;
use crate::stage::{Deliver, Distributor};
use crate::worker::{Alone, Parts, Stage, Worker};
use mem::copy::Choice;
use mem::ticks;
use port::{Pipeline, PortFault, PortId, Rss, RxQueue, TxQueue};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Configuration of a stepped worker.
#[derive(Debug)]
pub struct StepConfig {
    /// Port numbers are below this.
    pub max_ports: usize,
    /// Copy kernel for packet headers.
    pub kernel: Choice,
    /// Ticks of [`mem::ticks`] per nanosecond; infinity stops the clock that the pipeline sees.
    pub ticks_per_ns: f64,
}

/// Packet counts over all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Dropped, for any reason.
    pub dropped: u64,
}

/// A worker without a thread.
pub struct SteppedWorker {
    model: SteppedModel,
    counters: Vec<Arc<WorkerCounters>>,
    events: Receiver<Event>,
}

enum SteppedModel {
    /// A run-to-completion worker.
    Alone(Box<Worker>),
    /// The Rx, worker and Tx stages of a pipeline.
    Staged(Vec<Worker<Stage>>),
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
        let (parts, counters) = parts(config, &sender, pipeline, false)?;
        let worker = Box::new(Worker::new(WorkerConfig::default(), parts, Alone));
        Ok(Self { model: SteppedModel::Alone(worker), counters: vec![counters], events })
    }

    /// Three stages without queues, connected by handoff queues. Sets the buffer cache of the calling thread.
    pub fn staged(config: &StepConfig, pipeline: Box<dyn Pipeline>) -> std::io::Result<Self> {
        let (sender, events) = channel();
        let handoffs = HandoffConfig::default();
        let pool = handoff::pool(&handoffs, 2, 1).map_err(std::io::Error::other)?;
        store::open(&pool);
        let debts = Arc::new(WorkDebts::new(config.max_ports));
        let distributor: Box<dyn Pipeline> =
            Box::new(Distributor::new(handoffs.order, Rss::default(), &[handoff::port(config.max_ports, 1)]));
        let mut stages = Vec::new();
        let mut counters = Vec::new();
        let last: Box<dyn Pipeline> = Box::new(Deliver);
        for (pipeline, waits) in [(distributor, true), (pipeline, true), (last, false)] {
            let (parts, counted) = parts(config, &sender, pipeline, waits)?;
            stages.push(Worker::new(WorkerConfig::default(), parts, Stage::new(debts.clone())));
            counters.push(counted);
        }
        for from in 0..2 {
            let port = handoff::port(config.max_ports, from + 1);
            let (sender, receiver) = handoff::handoff(&pool, &handoffs)?;
            stages[from].handle(Command::AddHandoff(port, sender));
            let key = QueueKey { port, pair: 0 };
            stages[from + 1].handle(Command::StartRx(key, Generation(0), Box::new(receiver)));
        }
        Ok(Self { model: SteppedModel::Staged(stages), counters, events })
    }

    /// Starts the receive queue and the transmit queue of `port`.
    pub fn start(&mut self, port: PortId, rx: Box<dyn RxQueue>, tx: Box<dyn TxQueue>) {
        let key = QueueKey { port, pair: 0 };
        let (start_rx, start_tx) =
            (Command::StartRx(key, Generation(0), rx), Command::StartTx(key, Generation(0), tx, [0].into()));
        match &mut self.model {
            SteppedModel::Alone(worker) => {
                worker.handle(start_rx);
                worker.handle(start_tx);
            }
            SteppedModel::Staged(stages) => {
                let commands = [start_rx, Command::Route(port, Some(2)), start_tx];
                for (stage, command) in stages.iter_mut().zip(commands) {
                    stage.handle(command);
                }
            }
        }
    }

    /// Stops the receive queue of `port`.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn stop(&mut self, port: PortId) {
        let stop = Command::StopRx(QueueKey { port, pair: 0 });
        match &mut self.model {
            SteppedModel::Alone(worker) => worker.handle(stop),
            SteppedModel::Staged(stages) => stages[0].handle(stop),
        };
    }

    /// Polls every queue once. The last burst of a round is classified and sent at the start of the next round.
    #[inline]
    pub fn round(&mut self) -> bool {
        match &mut self.model {
            SteppedModel::Alone(worker) => worker.round(),
            SteppedModel::Staged(stages) => {
                stages.iter_mut().fold(false, |worked, stage| stage.round() | worked)
            }
        }
    }

    /// The next fault of a queue, which has been removed.
    pub fn fault(&self) -> Option<(PortId, PortFault)> {
        self.events.try_recv().ok().map(|event| (event.port, event.fault))
    }

    /// Packet counts so far.
    pub fn counts(&self) -> Counts {
        let sum = |of: fn(&crate::counters::PortCounters) -> u64| {
            let ports = self.counters.iter().flat_map(|stage| &stage.ports[..stage.max_ports()]);
            ports.map(|p| of(&p.0)).sum()
        };
        Counts {
            received: sum(|port| port.rx_packets.get()),
            sent: sum(|port| port.tx_packets.get()),
            dropped: sum(|port| port.drops.iter().map(crate::counters::Counter::get).sum()),
        }
    }
}

/// Parts of a worker with this pipeline; `waits` enables backpressure.
fn parts(
    config: &StepConfig,
    events: &Sender<Event>,
    pipeline: Box<dyn Pipeline>,
    waits: bool,
) -> std::io::Result<(Parts, Arc<WorkerCounters>)> {
    let link = Arc::new(Link::new(events.clone(), Doorbell::new()?, ResponseLimit::default())?);
    let counters = Arc::new(WorkerCounters::new(config.max_ports));
    let numbers = config.max_ports + 3;
    let parts = Parts {
        sleeper: Sleeper::new(link.doorbell.clone())?,
        link,
        counters: counters.clone(),
        pipeline,
        kernel: config.kernel,
        ticks_per_ns: config.ticks_per_ns,
        start: ticks(),
        numbers,
        rss: Rss::default(),
        handoffs: Handoffs::new(config.kernel, numbers, waits),
    };
    Ok((parts, counters))
}
