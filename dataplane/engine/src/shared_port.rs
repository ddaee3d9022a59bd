//! A port whose queues are divided among threads of the caller, each with a [`LocalPort`].
//!
//! A control thread drives the port as in an engine: [`Attachment`] gives the queue of pair n to thread n modulo their
//! number and takes it back at a burst boundary. A thread handles these commands in [`LocalPort::poll_control`], which
//! it must call periodically; the control thread waits for it meanwhile, for a limited time. Transmit queues are
//! forked, so that every thread can send; a thread uses those of its own pairs if there are any, without contention.
//! Threads hand packets to each other by an [`Exchange`].
//!
//! This module must not run on the path of a packet.

use crate::attachment::Placement;
use crate::clock::Clock;
use crate::command::{Command, Event, Generation, Retired};
use crate::config::EngineError;
use crate::control::{Control, Request};
use crate::handoff::{Exchange, Receiver, exchange};
use crate::link::{Doorbell, Link, ResponseLimit};
use crate::local::LocalPort;
use crate::snapshot::Registry;
use crate::stage::Layout;
use port::{Attach, PortControl, PortFault, PortId, PortState, PortStatus, QueueId, RxQueue};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// The number of the port: a control thread has one port.
const PORT: PortId = PortId(0);

/// The control thread of a shared port. Dropping it closes the port; the shares must be closed or dropped before.
pub struct SharedPort {
    requests: Sender<Request>,
    doorbell: Doorbell,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for SharedPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedPort").finish_non_exhaustive()
    }
}

/// One thread's share of a port.
#[derive(Debug)]
pub struct PortShare {
    /// Its queues, and the handoff queues from other threads as receive queues.
    pub port: LocalPort,
    /// The handoff queues to other threads.
    pub exchange: Exchange,
}

impl SharedPort {
    /// Opens a port for `workers` threads. Returns their shares in order. With `exclusive`, each transmit queue belongs
    /// to one thread, and a thread without a pair in use cannot send.
    ///
    /// # Errors
    /// If there is no thread, or the kernel refuses memory, a descriptor or the control thread.
    pub fn open(
        name: &str,
        control: Box<dyn PortControl>,
        workers: usize,
        exclusive: bool,
    ) -> Result<(Self, Vec<PortShare>), EngineError> {
        if workers == 0 {
            return Err(EngineError::NoWorkers);
        }
        let (events, from_workers) = channel();
        let (requests, from_owner) = channel();
        let doorbell = Doorbell::new()?;
        let registry = Arc::new(Registry::default());
        registry.reserve(name, 1, &[])?;
        registry.update(PORT, control.status(), control.details());
        let link = || Link::new(events.clone(), doorbell.clone(), ResponseLimit::default()).map(Arc::new);
        let links = (0..workers).map(|_| link()).collect::<Result<Vec<_>, _>>()?;
        let ends = links.iter().zip(exchange(workers)?);
        let shares = ends.map(|(link, end)| share(name, link, &registry, end)).collect();
        let thread = Control {
            placement: Placement::new(links, Layout::shared(workers, exclusive), Clock::start()),
            ports: BTreeMap::new(),
            requests: from_owner,
            events: from_workers,
            doorbell: doorbell.clone(),
            registry,
            joiner: None,
            balancing: None,
            latest: Arc::default(),
            up: BTreeSet::new(),
            observer: None,
            is_handed_over: false,
            not_handed_over: BTreeSet::new(),
        };
        let thread = Builder::new().name("control".into()).spawn(move || thread.run())?;
        let port = Self { requests, doorbell, thread: Some(thread) };
        port.request(Request::Add(PORT, control));
        Ok((port, shares))
    }

    fn request(&self, request: Request) {
        // Fails only if the control thread has ended.
        let _ = self.requests.send(request);
        self.doorbell.ring();
    }
}

impl Drop for SharedPort {
    fn drop(&mut self) {
        self.request(Request::Quit);
        // A panic of the control thread was reported by its hook.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn share(
    name: &str,
    link: &Arc<Link>,
    registry: &Arc<Registry>,
    (exchange, receivers): (Exchange, Vec<Receiver>),
) -> PortShare {
    let control =
        ShareControl { link: link.clone(), registry: registry.clone(), running: Vec::new(), handled: 0 };
    let place = (exchange.index() as u16, exchange.workers() as u16);
    let others = receivers.into_iter().map(|queue| -> Box<dyn RxQueue> { Box::new(queue) });
    PortShare { port: LocalPort::share(name, Box::new(control), place, others), exchange }
}

/// The control of a share: handles the commands of the control thread.
struct ShareControl {
    link: Arc<Link>,
    registry: Arc<Registry>,
    running: Vec<(QueueId, Generation)>,
    /// Number of the last command handled.
    handled: u64,
}

impl ShareControl {
    fn execute(&mut self, command: Command, queues: &mut dyn Attach) {
        match command {
            Command::StartRx(key, generation, queue) => {
                self.running.push((QueueId::Rx(key.pair), generation));
                queues.start_rx(key.pair, queue);
            }
            Command::StartTx(key, generation, queue, _) => {
                self.running.push((QueueId::Tx(key.pair), generation));
                queues.start_tx(key.pair, queue);
            }
            Command::StopRx(key) => {
                let stopped = self.forget(QueueId::Rx(key.pair)).zip(queues.stop_rx(key.pair));
                if let Some((of, queue)) = stopped {
                    self.link.retire(Retired::Rx(of, queue));
                }
            }
            Command::StopTx(key) => {
                let stopped = self.forget(QueueId::Tx(key.pair)).zip(queues.stop_tx(key.pair));
                if let Some((of, queue)) = stopped {
                    self.link.retire(Retired::Tx(of, queue));
                }
            }
            Command::Refresh(_) => queues.refresh(),
            Command::Inject(injected) => queues.inject(&injected.frame),
            // The others concern classifiers, stages and the choice of a transmit queue.
            _ => {}
        }
    }

    fn forget(&mut self, queue: QueueId) -> Option<Generation> {
        let at = self.running.iter().position(|(running, _)| *running == queue)?;
        Some(self.running.swap_remove(at).1)
    }
}

impl PortControl for ShareControl {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.doorbell.fd().as_fd())
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn handle(&mut self, _now: Instant, queues: &mut dyn Attach) {
        self.link.doorbell.clear();
        let mut commands = Vec::new();
        if !self.link.mailbox.pending(self.handled) {
            return;
        }
        let Some(upto) = self.link.mailbox.take(&mut commands) else {
            // The control thread has the lock; the next call tries again.
            return self.link.doorbell.ring();
        };
        for command in commands {
            self.execute(command, queues);
        }
        self.handled = upto;
        self.link.handled(upto);
    }

    /// Reports the fault to the control thread. A fault of an unknown queue is that of any.
    fn fault(&mut self, _now: Instant, fault: PortFault, queues: &mut dyn Attach) {
        let faulty = queues.faulty_queue();
        let of = self.running.iter().find(|(queue, _)| Some(*queue) == faulty).or(self.running.first());
        if let Some(&(_, generation)) = of {
            self.link.report(Event { port: PORT, generation, fault, retired: None });
        }
    }

    fn close(&mut self, queues: &mut dyn Attach) {
        for (queue, _) in self.running.drain(..) {
            match queue {
                QueueId::Rx(pair) => drop(queues.stop_rx(pair)),
                QueueId::Tx(pair) => drop(queues.stop_tx(pair)),
            }
        }
        self.link.end();
    }

    fn status(&self) -> PortStatus {
        self.registry.status(PORT).unwrap_or_else(|| PortStatus {
            state: PortState::Closed,
            kind: "",
            place: String::new(),
            features: Vec::new(),
            queues: Vec::new(),
            connects: 0,
            memory: (0, 0),
        })
    }
}

impl Drop for ShareControl {
    /// The queues were dropped before, so the control thread waits no longer.
    fn drop(&mut self) {
        self.link.end();
    }
}
