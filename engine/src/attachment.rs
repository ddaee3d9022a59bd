//! The engine as one port's control side sees it: queues go to workers and come back.
//!
//! A receive queue lives on one worker, the one with the fewest at the time. A transmit queue lives on every
//! worker: with a single worker it is handed over as it is and needs no lock; with several it is forked.

use crate::command::{Command, QueueKey, Retired, Serial};
use crate::link::Link;
use port::{Attach, PortId, RxQueue, TxQueue};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Which worker has which receive queue, for all ports. Owned by the control thread.
pub(crate) struct Placement {
    pub(crate) links: Vec<Arc<Link>>,
    rx: HashMap<QueueKey, (usize, Serial)>,
    tx: HashMap<QueueKey, Serial>,
    /// Starts that were not stopped yet.
    running: HashSet<Serial>,
    starts: u64,
}

impl Placement {
    pub(crate) fn new(links: Vec<Arc<Link>>) -> Self {
        Self { links, rx: HashMap::new(), tx: HashMap::new(), running: HashSet::new(), starts: 0 }
    }

    /// Whether a queue started under `serial` has not been stopped since.
    pub(crate) fn is_running(&self, serial: Serial) -> bool {
        self.running.contains(&serial)
    }

    fn next_serial(&mut self) -> Serial {
        self.starts += 1;
        self.running.insert(Serial(self.starts));
        Serial(self.starts)
    }

    fn least_loaded(&self) -> usize {
        let load = |worker: usize| self.rx.values().filter(|placed| placed.0 == worker).count();
        (0..self.links.len()).min_by_key(|&w| load(w)).unwrap_or(0)
    }

    /// Has every worker obey what `command` makes, and waits until all have.
    fn order_all(&self, mut command: impl FnMut() -> Command) {
        let numbers: Vec<_> = self.links.iter().map(|link| link.post(command())).collect();
        for (link, number) in self.links.iter().zip(numbers) {
            link.wait(number);
        }
    }
}

/// The engine, for one port.
pub(crate) struct Attachment<'a> {
    pub(crate) placement: &'a mut Placement,
    pub(crate) port: PortId,
}

impl Attachment<'_> {
    fn key(&self, pair: u16) -> QueueKey {
        QueueKey { port: self.port, pair }
    }
}

impl Attach for Attachment<'_> {
    fn start_rx(&mut self, pair: u16, queue: Box<dyn RxQueue>) {
        let (key, worker) = (self.key(pair), self.placement.least_loaded());
        let serial = self.placement.next_serial();
        self.placement.rx.insert(key, (worker, serial));
        self.placement.links[worker].order(Command::StartRx(key, serial, queue));
    }

    fn stop_rx(&mut self, pair: u16) -> Option<Box<dyn RxQueue>> {
        let key = self.key(pair);
        let (worker, serial) = self.placement.rx.remove(&key)?;
        self.placement.running.remove(&serial);
        let link = &self.placement.links[worker];
        link.order(Command::StopRx(key));
        link.retired().into_iter().find_map(|retired| match retired {
            Retired::Rx(queue) => Some(queue),
            Retired::Tx(_) => None,
        })
    }

    fn start_tx(&mut self, pair: u16, queue: Box<dyn TxQueue>) {
        let key = self.key(pair);
        let serial = self.placement.next_serial();
        self.placement.tx.insert(key, serial);
        let mut first = queue;
        for link in self.placement.links.iter().skip(1) {
            link.order(Command::StartTx(key, serial, first.fork()));
        }
        self.placement.links[0].order(Command::StartTx(key, serial, first));
    }

    fn stop_tx(&mut self, pair: u16) -> Option<Box<dyn TxQueue>> {
        let key = self.key(pair);
        let serial = self.placement.tx.remove(&key)?;
        self.placement.running.remove(&serial);
        self.placement.order_all(|| Command::StopTx(key));
        // All handles come back; any of them can say where the queue stopped.
        let handles = self.placement.links.iter().flat_map(|link| link.retired());
        let mut queues = handles.filter_map(|retired| match retired {
            Retired::Tx(queue) => Some(queue),
            Retired::Rx(_) => None,
        });
        let last = queues.next();
        queues.for_each(drop);
        last
    }

    fn refresh(&mut self) {
        let port = self.port;
        self.placement.order_all(|| Command::Refresh(port));
    }

    fn inject(&mut self, frame: &[u8]) {
        self.placement.links[0].order(Command::Inject(self.port, frame.into()));
    }
}
