//! The client's side: sockets of a service, usable from all threads of a program.
//!
//! The service may have several workers, with rings and arenas of their own ([`lane`]). A connection is on one worker,
//! that of its flow; a listener and a UDP socket whose port the program chose are on all, because segments of new
//! connections and datagrams arrive at all.
//!
//! One thread of a client ([`dispatch`]) takes completions from the rings and changes the state of sockets. Calls work
//! on that state and append commands. Locks are taken in one order: the state of a socket, then one of the others; only
//! the arena's list of waiting sockets is used without holding the state of another socket. No call waits for room in
//! the ring of commands while it holds a lock.

mod dispatch;
mod group;
mod lane;
mod open;
mod placement;
mod socket;
mod state;
mod transfer;

pub use socket::Handle;
pub use state::Readiness;

use crate::entry::ACCEPTED;
use crate::limits::Sizes;
use crate::region::Parts;
use crate::{Reason, handshake};
use lane::{Lane, WorkerSet};
use rustix::fd::{AsFd, OwnedFd};
use socket::Socket;
use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A connection to a service. A clone is another handle of the same connection, which ends with the last handle and the
/// last socket.
#[derive(Clone, Debug)]
pub struct Client(Arc<Core>);

/// Ends the thread when the last handle is dropped.
#[derive(Debug)]
struct Core {
    shared: Arc<Shared>,
}

/// Sockets by number. The service chooses numbers for each worker, and the client for all.
#[derive(Debug, Default)]
struct Sockets {
    by_id: HashMap<(usize, u32), Arc<Socket>>,
    next: u32,
    /// Worker of the last connection.
    last_worker: usize,
}

/// State that the threads of a client share.
#[derive(Debug)]
struct Shared {
    /// By worker.
    lanes: Box<[Lane]>,
    sockets: Mutex<Sockets>,
    /// Number of workers that open new connections: the first ones.
    active: AtomicUsize,
    sizes: Sizes,
    to_client: OwnedFd,
    socket: UnixStream,
    /// No handle exists any more.
    stop: AtomicBool,
    /// The service ended.
    ended: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Connects to the service of another process.
    ///
    /// # Errors
    /// If the socket does not exist, or its peer is not a service of this version.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::over(UnixStream::connect(path)?)
    }

    /// Receives the memory from the service and starts the client's thread.
    pub(crate) fn over(socket: UnixStream) -> io::Result<Self> {
        let (sizes, fds) = handshake::receive(socket.as_fd())?;
        let (mut lanes, mut completions) = (Vec::new(), Vec::new());
        for own in fds.own {
            let parts = Parts::map(own.memory.as_fd(), &sizes)?;
            completions.push(parts.completions.clone());
            lanes.push(Lane::new(parts, own.to_service, &sizes));
        }
        let shared = Arc::new(Shared {
            active: AtomicUsize::new(sizes.active as usize),
            lanes: lanes.into(),
            sockets: Mutex::default(),
            sizes,
            to_client: fds.to_client,
            socket,
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let core = Arc::new(Core { shared: shared.clone() });
        let thread = dispatch::Dispatcher::new(shared, completions, Arc::downgrade(&core));
        std::thread::Builder::new().name("linerate-client".to_owned()).spawn(move || thread.run())?;
        Ok(Self(core))
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The thread reads the flag after the signal.
        self.shared.stop.store(true, Ordering::SeqCst);
        port::eventfd::signal(self.shared.to_client.as_fd());
    }
}

impl Shared {
    fn find(&self, worker: usize, id: u32) -> Option<Arc<Socket>> {
        lock(&self.sockets).by_id.get(&key(worker, id)).cloned()
    }

    /// Adds a socket with a free number below [`ACCEPTED`]. Its home is one of `workers`, in turn.
    fn open(self: &Arc<Self>, workers: WorkerSet) -> Result<Arc<Socket>, Reason> {
        let mut sockets = lock(&self.sockets);
        // Read under the lock under which the dispatcher fails all sockets.
        if self.ended.load(Ordering::SeqCst) {
            return Err(Reason::Service);
        }
        sockets.last_worker = (sockets.last_worker + 1) % self.active.load(Ordering::Relaxed);
        let home = workers.next(sockets.last_worker);
        loop {
            sockets.next = (sockets.next + 1) % ACCEPTED;
            let id = sockets.next;
            if let std::collections::hash_map::Entry::Vacant(e) = sockets.by_id.entry(key(home, id)) {
                let socket = Arc::new(Socket::new(id, home, self.clone()));
                e.insert(socket.clone());
                return Ok(socket);
            }
        }
    }

    /// Removes a socket whose number is free.
    fn forget(&self, socket: &Socket) {
        lock(&self.sockets).by_id.remove(&key(socket.home(), socket.id));
    }
}

/// Key of a socket. Numbers that the client chose are the same on all workers.
fn key(worker: usize, id: u32) -> (usize, u32) {
    if id < ACCEPTED { (0, id) } else { (worker, id) }
}
