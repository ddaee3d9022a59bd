//! Messages between the slow path and the workers.
//!
//! A worker looks at its orders once per millisecond and after each sleep, which its eventfd ends. The number of
//! messages on their way is bounded by that of clients and workers. Must not carry data of connections.

use crate::Fault;
use crate::service::Client;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// To a worker. Clients have the numbers of the slow path, which are unique until each worker has reported the removal.
#[derive(Debug)]
pub(crate) enum Order {
    /// Serves a client.
    Attach(Box<Client>),
    /// Removes a client.
    Detach { client: usize, fault: Fault },
}

/// From a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report {
    /// A client violated the protocol.
    Fault { client: usize, fault: Fault },
    /// The worker holds nothing of a client any more.
    Removed { client: usize },
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Link {
    /// Number of the worker, and of all workers.
    pub(crate) worker: (u16, u16),
    orders: Receiver<Order>,
    /// Readable if there are orders.
    pub(crate) event: Arc<OwnedFd>,
    reports: Sender<Report>,
    to_slow_path: Arc<OwnedFd>,
}

impl Link {
    /// The oldest order.
    pub(crate) fn order(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// Sends a report. It is lost if the slow path has ended.
    #[cold]
    pub(crate) fn report(&self, report: Report) {
        let _ = self.reports.send(report);
        port::eventfd::signal(self.to_slow_path.as_fd());
    }
}

/// The slow path's end.
#[derive(Debug)]
pub(crate) struct WorkerLink {
    orders: Sender<Order>,
    event: Arc<OwnedFd>,
}

impl WorkerLink {
    /// Sends an order. It is lost if the worker has ended.
    pub(crate) fn send(&self, order: Order) {
        let _ = self.orders.send(order);
        port::eventfd::signal(self.event.as_fd());
    }
}

/// An eventfd that both ends hold.
pub(crate) fn shared_event() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

/// Connects a worker to the slow path, which `to_slow_path` wakes.
pub(crate) fn connect(
    worker: (u16, u16),
    reports: Sender<Report>,
    to_slow_path: Arc<OwnedFd>,
) -> io::Result<(WorkerLink, Link)> {
    let ((to_worker, orders), event) = (channel(), shared_event()?);
    let ours = WorkerLink { orders: to_worker, event: event.clone() };
    Ok((ours, Link { worker, orders, event, reports, to_slow_path }))
}
