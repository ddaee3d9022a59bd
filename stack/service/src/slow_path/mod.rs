//! The slow path of a service: clients come and leave, on a thread that may block.
//!
//! It accepts clients, allocates and maps their memory, watches for their end, and prints about them. Workers receive
//! clients whose memory is ready, and remove their own sockets of those that left (TAS, `EuroSys` 2019: connections are
//! opened and closed apart from the fast path; here the stacks keep that part, within [`crate::Limits::control`]). Must
//! not touch rings, arenas or connections.

mod thread;

pub use thread::SlowPathThread;

use crate::connector::Connector;
use crate::limits::Sizes;
use crate::link::{self, Order, Report, WorkerLink};
use crate::region::{Descriptors, Parts};
use crate::service::{Channel, Client};
use crate::{Fault, Service, ServiceOptions, Statistics, handshake};
use host::MAX_WORKERS;
use mem::Region;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::AsFd;
use slab::Slab;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Interval between two attempts to accept a client after a failed one, and between two looks at memory in use.
const INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of clients that are accepted before reports and ends are handled.
const ARRIVALS: u32 = 16;

/// A client of all workers.
#[derive(Debug)]
struct Attached {
    /// Ends with the client. Workers look at it if an address is in use.
    socket: Arc<UnixStream>,
    fault: Option<Fault>,
    /// Workers that hold sockets of the client.
    workers: usize,
    regions: Vec<Arc<Region>>,
}

impl Drop for Attached {
    /// Shuts the socket down, because workers hold references to it.
    fn drop(&mut self) {
        // A client that has ended is disconnected already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// The slow path.
#[derive(Debug)]
pub struct SlowPath {
    options: ServiceOptions,
    sizes: Sizes,
    workers: Vec<WorkerLink>,
    reports: Receiver<Report>,
    connector: Connector,
    arrivals: Receiver<UnixStream>,
    listener: Option<UnixListener>,
    /// The last client could not be accepted.
    is_short: bool,
    clients: Slab<Attached>,
    /// Memory of clients that left, which a stack may still send from. It is unmapped here.
    retired: Vec<Arc<Region>>,
    statistics: Statistics,
}

impl SlowPath {
    /// The slow path of a service without clients, and the part of each worker.
    ///
    /// # Errors
    /// If the limits or the number of workers are invalid, or the kernel has no descriptors.
    pub fn new(options: ServiceOptions, workers: usize) -> io::Result<(Self, Vec<Service>)> {
        let sizes = options.limits.sizes(workers);
        if workers > MAX_WORKERS || !sizes.are_valid() {
            let text = "invalid number of workers, or sizes of rings or arenas";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let (connector, arrivals) = Connector::new()?;
        let (sender, reports) = channel();
        let mut links = Vec::new();
        let mut services = Vec::new();
        for worker in 0..workers as u16 {
            let of = (worker, workers as u16);
            let (ours, theirs) = link::connect(of, sender.clone(), connector.event().clone())?;
            links.push(ours);
            services.push(Service::new(options.clone(), theirs));
        }
        let slow_path = Self {
            options,
            sizes,
            workers: links,
            reports,
            connector,
            arrivals,
            listener: None,
            is_short: false,
            clients: Slab::new(),
            retired: Vec::new(),
            statistics: Statistics::default(),
        };
        Ok((slow_path, services))
    }

    /// Connects clients of this process.
    pub fn connector(&self) -> Connector {
        self.connector.clone()
    }

    /// Serves other processes at a Unix socket. The permissions of its file decide which users may connect, and the
    /// caller removes the file.
    ///
    /// # Errors
    /// If the socket cannot be made non-blocking.
    pub fn listen(&mut self, listener: UnixListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Clients that came and left; other counts are those of the workers.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Number of clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Number of regions that stacks may still send from.
    #[cfg(test)]
    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Handles what waits, without waiting for more. Returns whether there was anything.
    pub(crate) fn turn(&mut self) -> bool {
        port::eventfd::clear(self.connector.event());
        let mut worked = false;
        while let Ok(report) = self.reports.try_recv() {
            self.reported(report);
            worked = true;
        }
        for _ in 0..ARRIVALS {
            let Some(socket) = self.arrival() else { break };
            self.attach(socket);
            worked = true;
        }
        if worked {
            // There may be more.
            port::eventfd::signal(self.connector.event().as_fd());
        }
        for key in 0..self.clients.capacity() {
            let client = self.clients.get(key).filter(|client| client.fault.is_none());
            if client.is_some_and(|client| handshake::has_ended(&client.socket)) {
                self.detach(key, Fault::Left);
                worked = true;
            }
        }
        self.retired.retain(|region| Arc::strong_count(region) > 1);
        worked
    }

    /// The next client.
    fn arrival(&mut self) -> Option<UnixStream> {
        if let Ok(socket) = self.arrivals.try_recv() {
            return Some(socket);
        }
        let accepted = self.listener.as_ref()?.accept();
        self.is_short = accepted.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock);
        accepted.ok().map(|(socket, _)| socket)
    }

    pub(crate) fn attach(&mut self, socket: UnixStream) {
        let most = self.options.limits.clients as usize;
        if self.clients.len() >= most || self.retired.len() >= most * self.workers.len() {
            return (self.options.on_client)("client refused: too many clients");
        }
        let (entry, socket) = (self.clients.vacant_entry(), Arc::new(socket));
        let key = entry.key();
        let active = self.options.activity.as_ref().map_or(self.sizes.workers, |own| own.active() as u32);
        match create(&socket, &Sizes { active, ..self.sizes }, key) {
            Ok((of_workers, regions)) => {
                entry.insert(Attached { socket, fault: None, workers: self.workers.len(), regions });
                for (worker, client) in self.workers.iter().zip(of_workers) {
                    worker.send(Order::Attach(Box::new(client)));
                }
                self.statistics.clients += 1;
                (self.options.on_client)(&format!("client {key} connected"));
            }
            Err(error) => (self.options.on_client)(&format!("client refused: {error}")),
        }
    }

    /// Begins to remove a client from all workers.
    fn detach(&mut self, key: usize, fault: Fault) {
        let Some(client) = self.clients.get_mut(key).filter(|client| client.fault.is_none()) else { return };
        client.fault = Some(fault);
        self.workers.iter().for_each(|worker| worker.send(Order::Detach { client: key, fault }));
    }

    fn reported(&mut self, report: Report) {
        let key = match report {
            Report::Fault { client, fault } => return self.detach(client, fault),
            Report::Removed { client } => client,
        };
        let Some(client) = self.clients.get_mut(key) else { return };
        client.workers -= 1;
        if client.workers > 0 {
            return;
        }
        let mut client = self.clients.remove(key);
        self.retired.append(&mut client.regions);
        let fault = client.fault.unwrap_or(Fault::Left);
        *self.statistics.left.entry(fault).or_default() += 1;
        (self.options.on_client)(&format!("client {key} removed: {fault}"));
    }

    /// Waits until there is something to do.
    fn wait(&self) {
        let listener = self.listener.as_ref().filter(|_| !self.is_short);
        let clients = self.clients.iter().filter(|(_, client)| client.fault.is_none());
        let fds = clients.map(|(_, client)| client.socket.as_fd()).chain(listener.map(AsFd::as_fd));
        let fds = fds.chain([self.connector.event().as_fd()]);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let is_limited = self.is_short || !self.retired.is_empty();
        let limit = Timespec { tv_sec: 0, tv_nsec: INTERVAL.subsec_nanos().into() };
        // An interrupted wait counts as an event.
        let _ = rustix::event::poll(&mut fds, is_limited.then_some(&limit));
    }
}

/// Creates the memory of a client and sends it. Returns the part of each worker.
fn create(
    socket: &Arc<UnixStream>,
    sizes: &Sizes,
    number: usize,
) -> io::Result<(Vec<Client>, Vec<Arc<Region>>)> {
    let fds = Descriptors::new(sizes)?;
    let parts = fds.own.iter().map(|own| Parts::map(own.memory.as_fd(), sizes));
    let parts = parts.collect::<io::Result<Vec<_>>>()?;
    let uid = rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw();
    handshake::send(socket.as_fd(), sizes, &fds)?;
    let (to_client, regions) = (Arc::new(fds.to_client), parts.iter().map(|parts| parts.region.clone()));
    let regions = regions.collect();
    let of_workers = parts.into_iter().zip(fds.own).map(|(parts, own)| {
        let channel = Channel::new(parts, (own.to_service, to_client.clone()), sizes);
        Client::new(channel, number, uid, socket.clone())
    });
    Ok((of_workers.collect(), regions))
}
