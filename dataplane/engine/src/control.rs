//! The control thread: it drives every port's life, and nothing else does.
//!
//! It waits for what ports wait for (sockets, deadlines), for requests from outside and for faults that workers
//! report. It never blocks on a port: a port's `handle` does what can be done now and returns.

mod balancing;

pub(crate) use balancing::Latest;

use crate::attachment::{Attachment, Placement};
use crate::balance::{Rebalancing, Sample};
use crate::command::{Event, QueueKey};
use crate::link::{Doorbell, Link};
use crate::model::Role;
use crate::placement::QueueAffinity;
use crate::snapshot::Registry;
use crate::stage::Joiner;
use balancing::Balancing;
use port::{PortControl, PortId, PortObserver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// From outside to the control thread.
pub(crate) enum Request {
    Add(PortId, Box<dyn PortControl>),
    /// As [`Request::Add`], with its packets spread over all workers.
    AddSpread(PortId, Box<dyn PortControl>),
    /// Another stage, whose thread runs.
    Stage(Role, Arc<Link>, Sender<std::io::Result<()>>),
    /// The answer names the worker that may still use what belongs to the port.
    Remove(PortId, Sender<Option<usize>>),
    /// Rules for receive queues that start from now on.
    Seat(QueueAffinity),
    /// Load is watched from now on, or no longer.
    Rebalance(Option<Rebalancing>),
    /// What was counted until now.
    Weigh(Sender<Sample>),
    /// Receive queues are to be elsewhere; the answer says, for each, why it was not moved.
    Move(Vec<(QueueKey, usize)>, Sender<Vec<Option<String>>>),
    Quit,
}

pub(crate) struct Control {
    pub(crate) placement: Placement,
    pub(crate) ports: BTreeMap<PortId, Box<dyn PortControl>>,
    pub(crate) requests: Receiver<Request>,
    pub(crate) events: Receiver<Event>,
    pub(crate) doorbell: Doorbell,
    pub(crate) registry: Arc<Registry>,
    /// Where there are stages.
    pub(crate) joiner: Option<Joiner>,
    pub(crate) balancing: Option<Balancing>,
    pub(crate) latest: Arc<Latest>,
    /// Where the pipelines depend on which ports run.
    pub(crate) observer: Option<Box<dyn PortObserver>>,
}

impl Control {
    /// Runs until told to quit; then every port is closed.
    pub(crate) fn run(mut self) {
        loop {
            let ready = self.wait();
            self.doorbell.quiet();
            let now = Instant::now();
            self.faults(now);
            self.released();
            self.punted();
            self.balance(now);
            for port in ready {
                self.with_port(port, |control, engine| control.handle(now, engine));
            }
            while let Ok(request) = self.requests.try_recv() {
                if !self.handle_request(request) {
                    return self.close_all();
                }
            }
        }
    }

    /// Waits for anything to do; the ports that are readable or due.
    fn wait(&self) -> Vec<PortId> {
        let look = self.balancing.as_ref().map(|balancing| balancing.due);
        let deadline = self.ports.values().filter_map(|p| p.deadline()).chain(look).min();
        let patience = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let mut fds = vec![PollFd::new(self.doorbell.fd(), PollFlags::IN)];
        let waiting: Vec<_> = self.ports.iter().filter_map(|(id, p)| Some((*id, p.poll_fd()?))).collect();
        fds.extend(waiting.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        // An interrupted wait is a wait that found nothing; the loop comes back here.
        let _ = poll(&mut fds, patience.map(timespec).as_ref());
        let readable = waiting.iter().zip(&fds[1..]).filter(|(_, fd)| !fd.revents().is_empty());
        let mut ready: Vec<_> = readable.map(|((id, _), _)| *id).collect();
        let now = Instant::now();
        let due = self.ports.iter().filter(|(_, p)| p.deadline().is_some_and(|at| at <= now));
        ready.extend(due.map(|(id, _)| *id));
        ready.sort_unstable();
        ready.dedup();
        ready
    }

    /// Queues that workers found broken.
    fn faults(&mut self, now: Instant) {
        while let Ok(Event { port, generation, fault, retired }) = self.events.try_recv() {
            drop(retired);
            // Stopped since, perhaps by a front end that left and came back: nothing to blame the new one for.
            if !self.placement.is_running(generation) {
                continue;
            }
            self.with_port(port, |control, engine| control.fault(now, fault, engine));
        }
    }

    /// Packets that pipelines handed over. Without an observer they are discarded.
    fn punted(&mut self) {
        for packet in self.placement.links.iter().flat_map(|link| link.punted()) {
            if let Some(observer) = &mut self.observer {
                observer.punted(packet);
            }
        }
    }

    /// Ports that were removed while a stuck worker held something of them, and that it has let go of.
    fn released(&mut self) {
        let released = self.placement.released();
        // What their workers handed over belongs to the ports that had the numbers before.
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
        self.registry.update(port, control.status(), control.details());
        if self.placement.stops(port) != stops {
            // Of a port that has stopped, nothing comes any more.
            self.punted();
            if let Some(observer) = &mut self.observer {
                observer.stopped(port, self.placement.clock().now());
            }
        }
    }

    fn handle_request(&mut self, request: Request) -> bool {
        match request {
            Request::Add(port, control) => self.add(port, control),
            Request::AddSpread(port, control) => {
                self.placement.rss.insert(port);
                self.add(port, control);
            }
            Request::Stage(role, link, reply) => {
                let joined = match &self.joiner {
                    Some(joiner) => joiner.add(&mut self.placement, role, link),
                    None => Ok(()),
                };
                // The requester may have given up waiting.
                let _ = reply.send(joined);
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
            Request::Seat(affinity) => self.placement.obey_rules(affinity),
            Request::Rebalance(wanted) => self.rebalance_as(wanted),
            Request::Weigh(reply) => drop(reply.send(self.sample())),
            Request::Move(moves, reply) => {
                // A queue that was found broken is the port's to mend first.
                self.faults(Instant::now());
                let _ = reply.send(self.transfer(&moves));
            }
            Request::Quit => return false,
        }
        true
    }

    fn add(&mut self, port: PortId, control: Box<dyn PortControl>) {
        self.placement.rx_affinity.call(port, self.registry.name(port));
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
