//! The client's side: sockets of a service, usable from all threads of a program.
//!
//! One thread of a client ([`dispatch`]) takes completions from the ring and changes the state of sockets. Calls work on
//! that state and append commands. Locks are taken in one order: the state of a socket, then one of the others; only the
//! arena's list of waiting sockets is used without holding the state of another socket. No call waits for room in the
//! ring of commands while it holds a lock.

mod dispatch;
mod group;
mod open;
mod socket;
mod state;
mod transfer;

pub use socket::Handle;
pub use state::Readiness;

use crate::chunks::FreeChunks;
use crate::entry::{ACCEPTED, Command};
use crate::limits::Sizes;
use crate::region::{Descriptors, Parts};
use crate::ring::Producer;
use crate::{Reason, handshake};
use mem::SharedRange;
use rustix::fd::{AsFd, OwnedFd};
use socket::Socket;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Commands on their way to the service.
#[derive(Debug)]
struct Sender {
    commands: Producer<SharedRange>,
    /// Commands for which the ring had no room. Its length is bounded by the number of sockets and of their limits.
    overflow: VecDeque<Command>,
}

/// The arena for data to send.
#[derive(Debug)]
struct Arena {
    free: FreeChunks,
    /// Sockets that wait for a chunk.
    starved: Vec<Arc<Socket>>,
}

/// Sockets by number.
#[derive(Debug, Default)]
struct Sockets {
    by_id: HashMap<u32, Arc<Socket>>,
    next: u32,
}

/// What the threads of a client share.
#[derive(Debug)]
struct Shared {
    sender: Mutex<Sender>,
    arena: Mutex<Arena>,
    sockets: Mutex<Sockets>,
    outbound: SharedRange,
    inbound: SharedRange,
    sizes: Sizes,
    to_service: OwnedFd,
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
        let parts = Parts::map(fds.memory.as_fd(), &sizes)?;
        let Descriptors { to_service, to_client, .. } = fds;
        let commands = Producer::new(parts.commands, sizes.ring);
        let shared = Arc::new(Shared {
            sender: Mutex::new(Sender { commands, overflow: VecDeque::new() }),
            arena: Mutex::new(Arena { free: FreeChunks::new(sizes.arena), starved: Vec::new() }),
            sockets: Mutex::default(),
            outbound: parts.outbound,
            inbound: parts.inbound,
            sizes,
            to_service,
            to_client,
            socket,
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let core = Arc::new(Core { shared: shared.clone() });
        let thread = dispatch::Dispatcher::new(shared, parts.completions, Arc::downgrade(&core));
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
    /// Appends a command. Never blocks.
    fn send(&self, command: Command) {
        let mut sender = lock(&self.sender);
        sender.overflow.push_back(command);
        self.flush(&mut sender);
    }

    /// Passes waiting commands to the ring. Returns whether all had room.
    fn flush(&self, sender: &mut Sender) -> bool {
        while let Some(command) = sender.overflow.front() {
            // A service with an invalid position has ended for this client, which the dispatcher notices.
            if sender.commands.push(&command.encode()) != Ok(true) {
                break;
            }
            sender.overflow.pop_front();
        }
        if sender.commands.publish() && sender.commands.consumer_sleeps() {
            port::eventfd::signal(self.to_service.as_fd());
        }
        sender.overflow.is_empty()
    }

    fn find(&self, id: u32) -> Option<Arc<Socket>> {
        lock(&self.sockets).by_id.get(&id).cloned()
    }

    /// Adds a socket with a free number below [`ACCEPTED`].
    fn open(self: &Arc<Self>) -> Result<Arc<Socket>, Reason> {
        let mut sockets = lock(&self.sockets);
        // Read under the lock under which the dispatcher fails all sockets.
        if self.ended.load(Ordering::SeqCst) {
            return Err(Reason::Service);
        }
        loop {
            sockets.next = (sockets.next + 1) % ACCEPTED;
            let id = sockets.next;
            if let std::collections::hash_map::Entry::Vacant(e) = sockets.by_id.entry(id) {
                let socket = Arc::new(Socket::new(id, self.clone()));
                e.insert(socket.clone());
                return Ok(socket);
            }
        }
    }

    /// Removes a socket whose number is free.
    fn forget(&self, id: u32) {
        lock(&self.sockets).by_id.remove(&id);
    }
}
