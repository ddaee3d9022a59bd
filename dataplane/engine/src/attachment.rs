//! Attachment: the interface of one port to the engine, which assigns the port's queues to workers and takes them
//! back.
//!
//! `rx_affinity` selects the worker of a receive queue. A transmit queue exists on every worker: with one worker it
//! is passed on unchanged and needs no lock; with several it is forked. Each worker gets the port's XPS map, and an
//! update before a receive queue starts on another worker.
//!
//! A stuck worker keeps its queues. A command to release them is open until the worker has handled it. While a port
//! has open commands, none of its queues is started, because two queues on one ring would both write to it.

mod rx_affinity;
mod shared;
mod staged;
mod stopped;

pub(crate) use rx_affinity::MoveError;
use rx_affinity::{Placed, RxAffinity};
use stopped::{Starts, Stopped};

use crate::clock::Clock;
use crate::command::{Command, Generation, Injected, QueueKey, XpsMap};
use crate::link::Link;
use crate::stage::Layout;
use crate::stealable::StealableQueue;
use port::{Attach, PortFault, PortId, QueueId, RxQueue, TxQueue};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Placement of all receive queues. Owned by the control thread.
pub(crate) struct Placement {
    pub(crate) links: Vec<Arc<Link>>,
    clock: Clock,
    rx: HashMap<QueueKey, Placed>,
    tx: HashMap<QueueKey, Generation>,
    /// Receive queues that several workers serve.
    stealable_queues: HashMap<QueueKey, Arc<StealableQueue>>,
    /// Stopped shared queues that a stuck worker may still serve.
    kept: Vec<Arc<StealableQueue>>,
    pub(crate) rx_affinity: RxAffinity,
    /// XPS map last sent to workers, by port.
    sent_xps_maps: HashMap<PortId, XpsMap>,
    /// Generations that were started and not stopped.
    running: HashSet<Generation>,
    starts: u64,
    /// How often the last queue of a port was stopped.
    stops: HashMap<PortId, u64>,
    /// Open commands by port: worker and command number.
    open: HashMap<PortId, Vec<(usize, u64)>>,
    /// Queues stopped for a hand-over, until their ports take them back.
    stopped: Stopped,
    /// Queues of ports that are taken over, while they are started.
    starts_at_once: Option<Starts>,
    pub(crate) layout: Layout,
    /// Ports with software RSS.
    pub(crate) rss: HashSet<PortId>,
    /// Pipeline model: the outlet of each port with transmit queues, as an index into the layout's outlets.
    pub(crate) outlets: HashMap<PortId, usize>,
}

impl Placement {
    pub(crate) fn new(links: Vec<Arc<Link>>, layout: Layout, clock: Clock) -> Self {
        Self {
            links,
            layout,
            rss: HashSet::new(),
            outlets: HashMap::new(),
            clock,
            rx: HashMap::new(),
            tx: HashMap::new(),
            stealable_queues: HashMap::new(),
            kept: Vec::new(),
            rx_affinity: RxAffinity::default(),
            sent_xps_maps: HashMap::new(),
            running: HashSet::new(),
            starts: 0,
            stops: HashMap::new(),
            open: HashMap::new(),
            stopped: Stopped::default(),
            starts_at_once: None,
        }
    }

    /// The clock of bursts.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether the queue started under `generation` has not been stopped since.
    pub(crate) fn is_running(&self, generation: Generation) -> bool {
        self.running.contains(&generation)
    }

    /// The queue started under `generation`, unless stopped since.
    fn queue_of(&self, generation: Generation) -> Option<QueueId> {
        let rx = self.rx.iter().find(|(_, placed)| placed.generation == generation);
        let tx = self.tx.iter().find(|(_, of)| **of == generation);
        rx.map(|(key, _)| QueueId::Rx(key.pair)).or(tx.map(|(key, _)| QueueId::Tx(key.pair)))
    }

    /// A worker that may still use rings or memory of `port` after it was told to release them.
    pub(crate) fn holder(&mut self, port: PortId) -> Option<usize> {
        let open = self.open.get_mut(&port)?;
        open.retain(|&(worker, number)| !self.links[worker].is_done(number));
        let holder = open.first().map(|&(worker, _)| worker);
        if holder.is_none() {
            self.open.remove(&port);
        }
        holder
    }

    /// Handles what stuck workers have released since the last call: queues that no request waits for any more, and those
    /// that a hand-over that failed meant to stop. Returns the ports that no worker holds any more.
    pub(crate) fn released(&mut self) -> Vec<PortId> {
        self.collect();
        self.restart_late();
        self.kept.retain(|stealable| Arc::strong_count(stealable) > 1);
        let ports: Vec<_> = self.open.keys().copied().collect();
        ports.into_iter().filter(|&port| self.holder(port).is_none()).collect()
    }

    fn next_serial(&mut self) -> Generation {
        self.starts += 1;
        self.running.insert(Generation(self.starts));
        Generation(self.starts)
    }

    /// Posts a command to every worker. Returns the numbers to wait for.
    fn post_all(&self, command: impl FnMut() -> Command) -> Vec<(usize, u64)> {
        self.links.iter().zip(std::iter::repeat_with(command)).map(|(l, c)| l.post(c)).enumerate().collect()
    }

    /// Posts a command to each of these workers. Returns the numbers to wait for.
    pub(crate) fn post_to(
        &self,
        workers: &[usize],
        mut command: impl FnMut() -> Command,
    ) -> Vec<(usize, u64)> {
        workers.iter().map(|&worker| (worker, self.links[worker].post(command()))).collect()
    }

    /// How often the last queue of `port` was stopped so far.
    pub(crate) fn stops(&self, port: PortId) -> u64 {
        self.stops.get(&port).copied().unwrap_or_default()
    }

    /// Counts a stop if `port` has no queues left.
    fn note_stop(&mut self, port: PortId) {
        if !self.has_queues(port) {
            *self.stops.entry(port).or_default() += 1;
        }
    }

    /// Whether a queue of `port` is running.
    pub(crate) fn has_queues(&self, port: PortId) -> bool {
        self.rx.keys().chain(self.tx.keys()).any(|key| key.port == port)
    }
}

/// The engine as seen by one port.
pub(crate) struct Attachment<'a> {
    placement: &'a mut Placement,
    port: PortId,
    failure: Option<PortFault>,
    faulty_queue: Option<QueueId>,
}

impl<'a> Attachment<'a> {
    pub(crate) fn new(placement: &'a mut Placement, port: PortId) -> Self {
        Self { placement, port, failure: None, faulty_queue: None }
    }

    /// Sets the queue that a worker found faulty.
    pub(crate) fn set_faulty(&mut self, generation: Generation) {
        self.faulty_queue = self.placement.queue_of(generation);
    }

    fn key(&self, pair: u16) -> QueueKey {
        QueueKey { port: self.port, pair }
    }

    /// Assigns a receive queue to a worker. Returns the commands to wait for.
    fn post_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>) -> Vec<(usize, u64)> {
        let key = self.key(pair);
        let (at, worker) = self.placement.place(key);
        let generation = self.placement.next_serial();
        let placed = Placed { worker, at, generation, bound: queue.is_bound() };
        self.placement.rx.insert(key, placed);
        self.send_xps_map();
        if self.placement.layout.steals {
            return self.share(key, placed, queue);
        }
        vec![(worker, self.placement.links[worker].post(Command::StartRx(key, generation, queue)))]
    }

    /// Whether the port has an open command; sets `failure` then.
    fn is_held(&mut self) -> bool {
        let holder = self.placement.holder(self.port);
        self.failure = holder.map(PortFault::WorkerHung).or(self.failure.take());
        holder.is_some()
    }

    /// Waits until all commands are handled. Returns whether they are; the others become open.
    fn wait(&mut self, commands: &[(usize, u64)]) -> bool {
        if let Some(starts) = &mut self.placement.starts_at_once {
            starts.wait_later(commands);
            return true;
        }
        for &(worker, number) in commands {
            if !self.placement.links[worker].wait(number) {
                self.placement.open.entry(self.port).or_default().push((worker, number));
            }
        }
        !self.is_held()
    }
}

impl Attachment<'_> {
    /// Takes a receive queue from its workers, if they respond.
    fn take_rx(&mut self, key: QueueKey, placed: Placed) -> Option<Box<dyn RxQueue>> {
        if let Some(queue) = self.placement.stopped.rx.remove(&placed.generation) {
            return Some(queue);
        }
        if self.placement.layout.steals {
            return self.unshare(key);
        }
        let number = self.placement.links[placed.worker].post(Command::StopRx(key));
        if !self.wait(&[(placed.worker, number)]) {
            return None;
        }
        self.placement.collect();
        self.drain();
        self.placement.stopped.rx.remove(&placed.generation)
    }

    /// Takes a transmit queue from all workers, if they respond.
    fn take_tx(&mut self, key: QueueKey, generation: Generation) -> Option<Box<dyn TxQueue>> {
        if let Some(queue) = self.placement.stopped.tx.remove(&generation) {
            return Some(queue);
        }
        self.leave_outlet(key);
        let workers = self.placement.layout.outlets.clone();
        let commands = self.placement.post_to(&workers, || Command::StopTx(key));
        if !self.wait(&commands) {
            return None;
        }
        self.placement.collect();
        self.placement.stopped.tx.remove(&generation)
    }

    /// Waits for workers that get a transmit queue. A stuck worker sends nothing, so it may receive its handle later.
    fn wait_for_outlets(&mut self, commands: &[(usize, u64)]) {
        if let Some(starts) = &mut self.placement.starts_at_once {
            return starts.wait_later(commands);
        }
        for &(worker, number) in commands {
            let _ = self.placement.links[worker].wait(number);
        }
    }
}

impl Attach for Attachment<'_> {
    fn start_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>) {
        if self.is_held() {
            return;
        }
        if let Some(starts) = &mut self.placement.starts_at_once {
            return starts.hold(self.port, pair, queue);
        }
        let commands = self.post_rx(pair, queue);
        self.wait(&commands);
    }

    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>> {
        let key = self.key(pair);
        let held = self.placement.starts_at_once.as_mut().and_then(|starts| starts.take(self.port, pair));
        let Some(placed) = self.placement.rx.remove(&key) else { return held };
        self.placement.note_stop(self.port);
        // No worker has a queue that was to start again.
        let queue = held.or_else(|| self.take_rx(key, placed));
        self.placement.running.remove(&placed.generation);
        queue
    }

    fn start_tx(&mut self, pair: u16, queue: Box<dyn TxQueue>) {
        if self.is_held() {
            return;
        }
        let key = self.key(pair);
        let generation = self.placement.next_serial();
        self.placement.tx.insert(key, generation);
        let xps_map = self.placement.xps_map(self.port);
        if self.placement.layout.routed {
            return self.start_outlet(key, generation, queue);
        }
        self.placement.sent_xps_maps.insert(self.port, xps_map.clone());
        let own = self.placement.layout.paired.then(|| vec![self.placement.place(key).1]);
        let workers = own.unwrap_or_else(|| self.placement.layout.outlets.clone());
        let mut handles = vec![queue];
        for _ in 1..workers.len() {
            let another = handles[0].fork();
            handles.push(another);
        }
        let start = |(&worker, handle): (&usize, _)| {
            let command = Command::StartTx(key, generation, handle, xps_map.clone());
            (worker, self.placement.links[worker].post(command))
        };
        let commands: Vec<_> = workers.iter().zip(handles).map(start).collect();
        self.wait_for_outlets(&commands);
    }

    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>> {
        let key = self.key(pair);
        let generation = self.placement.tx.remove(&key)?;
        self.placement.note_stop(self.port);
        let queue = self.take_tx(key, generation);
        self.placement.running.remove(&generation);
        queue
    }

    fn refresh(&mut self) {
        let port = self.port;
        if self.is_held() || !self.placement.has_queues(port) {
            return;
        }
        let commands = self.placement.post_all(|| Command::Refresh(port));
        self.wait(&commands);
    }

    fn inject(&mut self, frame: &[u8]) {
        let mut classifiers =
            self.placement.layout.classifiers.iter().map(|classify| &self.placement.links[*classify]);
        if let Some(link) = classifiers.find(|link| !link.is_out_of_service()) {
            // A worker that hangs now sends the frame late.
            let injected = Injected { port: self.port, frame: frame.into(), stage: 0, _permit: None };
            let _ = link.wait(link.post(Command::Inject(injected)));
        }
    }

    fn failure(&self) -> Option<PortFault> {
        self.failure.clone()
    }

    fn faulty_queue(&self) -> Option<QueueId> {
        self.faulty_queue
    }

    fn epoch(&self) -> u64 {
        self.placement.clock.epoch()
    }
}
