//! Control thread: drives the lifecycle of every port.
//!
//! It waits for the ports' file descriptors and deadlines, for requests and for faults reported by workers. It does
//! not block on a port: `handle` of a port does the work that is possible now and returns.

mod balancing;
mod handover;
mod stages;

pub(crate) use balancing::Latest;
pub use handover::OnFault;
pub(crate) use handover::{Failed, HandoverRequest};
pub(crate) use stages::NotChanged;

use crate::attachment::{Attachment, Placement};
use crate::balance::{Rebalancing, Sample};
use crate::command::{Event, QueueKey};
use crate::link::Doorbell;
use crate::placement::QueueAffinity;
use crate::snapshot::Registry;
use crate::stage::{Joiner, StageChange};
use balancing::Balancing;
use port::{PortControl, PortId, PortObserver, PortState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// A request to the control thread.
pub(crate) enum Request {
    Add(PortId, Box<dyn PortControl>),
    /// [`Request::Add`] with software RSS over all workers.
    AddRssPort(PortId, Box<dyn PortControl>),
    /// Adds or removes stages. After an error, nothing has changed.
    ChangeStages(StageChange, Sender<Result<(), NotChanged>>),
    /// Removes a port. The reply names a worker that may still use resources of the port.
    Remove(PortId, Sender<Option<usize>>),
    /// Sets the affinity rules for receive queues that start from now on.
    SetQueueAffinity(QueueAffinity),
    /// Enables or disables load monitoring.
    Rebalance(Option<Rebalancing>),
    /// Requests the current counts.
    ReportLoad(Sender<Sample>),
    /// Moves receive queues. The reply has, for each, the reason if it was not moved.
    Move(Vec<(QueueKey, usize)>, Sender<Vec<Option<String>>>),
    /// Hands ports over to another process, or takes them over.
    Handover(HandoverRequest),
    Quit,
}

pub(crate) struct Control {
    pub(crate) placement: Placement,
    pub(crate) ports: BTreeMap<PortId, Box<dyn PortControl>>,
    pub(crate) requests: Receiver<Request>,
    pub(crate) events: Receiver<Event>,
    pub(crate) doorbell: Doorbell,
    pub(crate) registry: Arc<Registry>,
    /// Present if there are handoff queues.
    pub(crate) joiner: Option<Joiner>,
    pub(crate) balancing: Option<Balancing>,
    pub(crate) latest: Arc<Latest>,
    /// Ports that can send.
    pub(crate) up: BTreeSet<PortId>,
    /// Present if the pipelines track port state.
    pub(crate) observer: Option<Box<dyn PortObserver>>,
    /// Whether ports wait because they are handed over to another process.
    pub(crate) is_handed_over: bool,
    /// Ports that another process opens, during a hand-over.
    pub(crate) not_handed_over: BTreeSet<PortId>,
}

impl Control {
    /// Runs until [`Request::Quit`], then closes every port.
    pub(crate) fn run(mut self) {
        loop {
            let ready = self.wait();
            self.doorbell.clear();
            if !self.is_handed_over {
                self.serve(ready);
            }
            while let Ok(request) = self.requests.try_recv() {
                if !self.handle_request(request) {
                    return self.close_all();
                }
            }
        }
    }

    /// Handles what has happened to ports and workers.
    fn serve(&mut self, ready: Vec<PortId>) {
        let now = Instant::now();
        self.faults(now);
        self.released();
        self.punted();
        self.balance(now);
        for port in ready {
            self.with_port(port, |control, engine| control.handle(now, engine));
        }
    }

    /// Waits for an event. Returns the ports that are readable or whose deadline has passed.
    fn wait(&self) -> Vec<PortId> {
        if self.is_handed_over {
            // An interrupted wait finds no request.
            let _ = poll(&mut [PollFd::new(self.doorbell.fd(), PollFlags::IN)], None);
            return Vec::new();
        }
        let look = self.balancing.as_ref().map(|balancing| balancing.due);
        let deadline = self.ports.values().filter_map(|p| p.deadline()).chain(look).min();
        let timeout = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let mut fds = vec![PollFd::new(self.doorbell.fd(), PollFlags::IN)];
        let waiting: Vec<_> = self.ports.iter().filter_map(|(id, p)| Some((*id, p.poll_fd()?))).collect();
        fds.extend(waiting.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        // An interrupted wait returns no readable ports; the loop calls `wait` again.
        let _ = poll(&mut fds, timeout.map(timespec).as_ref());
        let readable = waiting.iter().zip(&fds[1..]).filter(|(_, fd)| !fd.revents().is_empty());
        let mut ready: Vec<_> = readable.map(|((id, _), _)| *id).collect();
        let now = Instant::now();
        let due = self.ports.iter().filter(|(_, p)| p.deadline().is_some_and(|at| at <= now));
        ready.extend(due.map(|(id, _)| *id));
        ready.sort_unstable();
        ready.dedup();
        ready
    }

    /// Handles queue faults reported by workers.
    fn faults(&mut self, now: Instant) {
        while let Ok(Event { port, generation, fault, retired }) = self.events.try_recv() {
            drop(retired);
            // The queue was stopped since, for example because the front end reconnected: the fault does not concern
            // the new one.
            if !self.placement.is_running(generation) {
                continue;
            }
            self.with_port(port, |control, engine| {
                engine.set_faulty(generation);
                control.fault(now, fault, engine);
            });
        }
    }

    /// Passes punted packets to the observer; without one they are discarded.
    fn punted(&mut self) {
        for packet in self.placement.links.iter().flat_map(|link| link.punted()) {
            if let Some(observer) = &mut self.observer {
                observer.punted(packet);
            }
        }
    }

    /// Frees removed ports that a hung worker held and has released.
    fn released(&mut self) {
        let released = self.placement.released();
        // Packets punted by these workers belong to the previous ports with these numbers.
        self.punted();
        for port in released {
            if !self.ports.contains_key(&port) {
                self.registry.remove(port);
            }
        }
    }

    fn with_port(&mut self, port: PortId, act: impl FnOnce(&mut dyn PortControl, &mut Attachment<'_>)) {
        let Some(control) = self.ports.get_mut(&port) else { return };
        let stops = self.placement.stops(port);
        act(control.as_mut(), &mut Attachment::new(&mut self.placement, port));
        let status = control.status();
        let is_up = matches!(status.state, PortState::Connected) && self.placement.has_queues(port);
        self.registry.update(port, status, control.details());
        let has_stopped = self.placement.stops(port) != stops;
        self.set_up(port, is_up && !has_stopped);
        if has_stopped {
            // The port has stopped: its remaining punted packets are delivered before the observer is notified.
            self.punted();
            if let Some(observer) = &mut self.observer {
                observer.stopped(port, self.placement.clock().now());
            }
        }
        self.set_up(port, is_up);
    }

    /// Notifies the observer if whether a port can send has changed.
    fn set_up(&mut self, port: PortId, is_up: bool) {
        let is_changed = if is_up { self.up.insert(port) } else { self.up.remove(&port) };
        if let Some(observer) = self.observer.as_mut().filter(|_| is_changed) {
            observer.changed(port, is_up, self.placement.clock().now());
        }
    }

    fn handle_request(&mut self, request: Request) -> bool {
        match request {
            Request::Add(port, control) => self.add(port, control),
            Request::AddRssPort(port, control) => {
                self.placement.rss.insert(port);
                self.add(port, control);
            }
            Request::ChangeStages(change, reply) => {
                // The requester may have given up waiting.
                let _ = reply.send(self.change_stages(change));
            }
            Request::Remove(port, reply) => {
                self.with_port(port, |control, engine| control.close(engine));
                self.ports.remove(&port);
                self.placement.rss.remove(&port);
                self.placement.rx_affinity.forget(port);
                let holder = self.placement.holder(port);
                match holder {
                    Some(_) => self.registry.hide(port),
                    None => self.registry.remove(port),
                }
                // The requester may have given up waiting.
                let _ = reply.send(holder);
            }
            Request::SetQueueAffinity(affinity) => self.placement.apply_rules(affinity),
            Request::Rebalance(wanted) => self.rebalance_as(wanted),
            Request::ReportLoad(reply) => drop(reply.send(self.sample())),
            Request::Move(moves, reply) => {
                // A queue fault must be handled by its port first.
                self.faults(Instant::now());
                let _ = reply.send(self.transfer(&moves));
            }
            Request::Handover(request) => self.handle_handover(request),
            Request::Quit => return false,
        }
        true
    }

    fn add(&mut self, port: PortId, control: Box<dyn PortControl>) {
        self.placement.rx_affinity.set_name(port, self.registry.name(port));
        self.ports.insert(port, control);
        self.with_port(port, |control, engine| control.handle(Instant::now(), engine));
    }

    fn close_all(&mut self) {
        let ports: Vec<_> = self.ports.keys().copied().collect();
        for port in ports {
            self.with_port(port, |control, engine| control.close(engine));
        }
    }
}

fn timespec(wait: Duration) -> Timespec {
    // Rounded up, so that a deadline has passed when the wait ends.
    let wait = wait + Duration::from_millis(1);
    Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: i64::from(wait.subsec_nanos()) }
}
