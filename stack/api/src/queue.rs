//! Completion queue of one core: a program waits for batches of completions in a loop of its own (`MegaPipe`, OSDI
//! 2012).
//!
//! A [`Queue`] owns the [`Host`] of one core: its ports, its stack and its listeners. It shares nothing with the queues
//! of other cores. Calls of the program are collected, and leave together when it waits again.
//!
//! ```no_run
//! # fn serve(mut queue: api::queue::Queue) {
//! loop {
//!     queue.wait(16, std::time::Duration::from_millis(100));
//!     while let Some(completion) = queue.pop() {
//!         println!("{}: {:?}", completion.user, completion.event);
//!     }
//! }
//! # }
//! ```
//!
//! The module must not look up user data by hashing, and must not allocate for a completion once its tables have grown
//! to the number of connections.

mod users;

use host::{Buffer, Host};
use stack::tcp::{ConnectionId, ListenerId, Options};
use stack::{ConnectError, Endpoint, Event, ListenError, SocketId, Stack, Time, UdpError, UdpOptions};
use std::time::Duration;
use users::{Connections, Table};

/// Maximum number of completions of a batch: the frames of one burst.
pub const MAX_BATCH: usize = 64;

/// An event of the stack, with the user data of its connection or socket.
#[derive(Clone, Debug)]
pub struct Completion {
    /// User data that the program last set for the connection or socket. An accepted connection
    /// starts with the user data of its listener.
    pub user: u64,
    /// The event.
    pub event: Event<Buffer>,
}

/// The completions of one core.
#[derive(Debug)]
pub struct Queue {
    host: Host,
    connections: Connections,
    listeners: Table,
    sockets: Table,
    /// Completions of the current batch that were not popped.
    left: usize,
}

impl Queue {
    /// The queue of a host. Should be created on the thread that uses it, which is prepared for the use of ports.
    pub fn new(host: Host) -> Self {
        port::prepare_thread();
        let (listeners, sockets) = (Table::default(), Table::default());
        Self { host, connections: Connections::default(), listeners, sockets, left: 0 }
    }

    /// The host.
    pub fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The host, without its user data.
    pub fn into_host(self) -> Host {
        self.host
    }

    /// The stack, for all operations without user data. Events must be taken by [`Queue::pop`].
    #[inline]
    pub fn stack(&mut self) -> &mut Stack<Buffer> {
        self.host.stack()
    }

    /// Current time.
    pub fn now(&self) -> Time {
        self.host.now()
    }

    /// Sends what the program's calls have queued, and waits for completions, at most for `timeout`. Starts a batch of
    /// at most `max` of them, 1 to [`MAX_BATCH`]; other values are replaced by the nearest. Returns its length, 0 after
    /// the timeout. An idle queue sleeps as [`Host::run`] does.
    ///
    /// One call receives at most one burst of each receive queue, and nothing while completions are pending, so `max`
    /// bounds the work between two calls.
    #[inline]
    pub fn wait(&mut self, max: usize, timeout: Duration) -> usize {
        self.left = self.host.wait(timeout).min(max.clamp(1, MAX_BATCH));
        self.left
    }

    /// Next completion of the batch; `None` at its end. Completions that are not popped belong to the next batch.
    #[inline]
    pub fn pop(&mut self) -> Option<Completion> {
        self.left = self.left.checked_sub(1)?;
        let event = self.host.stack().poll_event()?;
        Some(Completion { user: self.user_of(&event), event })
    }

    #[inline]
    fn user_of(&mut self, event: &Event<Buffer>) -> u64 {
        match *event {
            Event::Data { connection, .. }
            | Event::Connected { connection }
            | Event::Finished { connection }
            | Event::Writable { connection }
            | Event::Acknowledged { connection, .. } => self.connections.get(connection),
            Event::Accepted { connection, listener, .. } => {
                let user = self.listeners.get(listener.to_bits() as usize);
                self.connections.set(connection, user);
                user
            }
            Event::Closed { connection, .. } => self.connections.take(connection),
            Event::Datagram { socket, .. } | Event::DatagramLost { socket, .. } => {
                self.sockets.get(socket.index())
            }
        }
    }

    /// Accepts connections ([`Stack::listen`]), which start with this user data.
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of this stack.
    pub fn listen(
        &mut self,
        local: Endpoint,
        options: Options,
        user: u64,
    ) -> Result<ListenerId, ListenError> {
        let listener = self.stack().listen(local, options)?;
        self.listeners.set(listener.to_bits() as usize, user);
        Ok(listener)
    }

    /// Opens a connection ([`Stack::connect`]) with this user data. It ends with [`Event::Connected`], or with
    /// [`Event::Closed`] if it fails.
    ///
    /// # Errors
    /// If there is no route, no free port, or a limit is reached.
    pub fn connect(
        &mut self,
        (local, remote): (Endpoint, Endpoint),
        options: Options,
        user: u64,
    ) -> Result<ConnectionId, ConnectError> {
        let now = self.now();
        let connection = self.stack().connect(local, remote, options, now)?;
        self.connections.set(connection, user);
        Ok(connection)
    }

    /// Opens a UDP socket ([`Stack::udp_bind`]) with this user data.
    ///
    /// # Errors
    /// If the port is in use, the address is not one of this stack, or the limit of sockets is reached.
    pub fn udp_bind(
        &mut self,
        local: Endpoint,
        options: UdpOptions,
        user: u64,
    ) -> Result<SocketId, UdpError> {
        let socket = self.stack().udp_bind(local, options)?;
        self.sockets.set(socket.index(), user);
        Ok(socket)
    }

    /// Sets the user data of a connection, for all of its completions that are not popped. Returns `false`, without
    /// effect, if the connection has ended.
    #[inline]
    pub fn set_user(&mut self, connection: ConnectionId, user: u64) -> bool {
        let exists = self.stack().endpoints(connection).is_some();
        if exists {
            self.connections.set(connection, user);
        }
        exists
    }
}
