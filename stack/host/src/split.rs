//! Stack and application on two threads: events and calls pass through bounded rings, in batches.
//!
//! The thread of the stack runs its host with an [`App`] that forwards events and replays calls; the other thread calls
//! the application with a [`Remote`] in place of the stack. The two are pinned to different CPUs ([`Threads::Split`]),
//! or to one and yield to each other ([`Threads::Merge`]), as in "iip" (2023), which compares them.
//!
//! No call waits for the stack. The side of the application knows how much each send buffer takes, because the stack
//! reports the space that acknowledgements free. It chooses the identifiers of connections and listeners, so `connect`
//! and `listen` return them at once and fail by a message. The thread of the stack waits if the ring of messages is
//! full, and replays calls meanwhile, so the two never wait for each other. Nothing else is shared.

mod names;
mod remote;
mod sides;
#[cfg(test)]
mod tests;

pub use remote::Remote;
pub(crate) use remote::RemoteLimits;

use crate::workers::StopOnPanic;
use crate::{App, Buffer, Host};
use engine::Doorbell;
use names::Target;
use sides::{AppSide, StackSide};
use stack::tcp::{ConnectionId, ListenerId, Options};
use stack::{ConnectError, Endpoint, Event, ListenError, SendError, Slice, SocketId, Stack, Time, UdpError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Entries of each ring.
const RING: usize = 1024;
/// Maximum number of messages or calls that are published at once.
const BATCH: usize = 64;

/// Threads of a host and its application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// One thread, run to completion.
    #[default]
    Unified,
    /// Two threads, on different CPUs.
    Split,
    /// Two threads on one CPU, which yield to each other.
    Merge,
}

/// Part of the program that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The stack; with one thread, also the application.
    Stack,
    /// The application.
    App,
}

/// Calls of an application that runs in every thread model: on a [`Stack`], or on a [`Remote`].
pub trait Calls {
    /// [`Stack::connect`]. With a [`Remote`], a route or port that is missing is reported by [`App::connect_failed`].
    ///
    /// # Errors
    /// If the connection cannot be opened.
    fn connect(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        options: Options,
        now: Time,
    ) -> Result<ConnectionId, ConnectError>;
    /// [`Stack::listen`]. With a [`Remote`], an address that cannot be used is reported by [`App::listen_failed`].
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of the stack.
    fn listen(&mut self, local: Endpoint, options: Options) -> Result<ListenerId, ListenError>;
    /// [`Stack::unlisten`].
    fn unlisten(&mut self, listener: ListenerId);
    /// [`Stack::send`].
    ///
    /// # Errors
    /// If the send buffer is full or the sending side is closed; no data was queued then.
    fn send(&mut self, connection: ConnectionId, data: Slice<Buffer>) -> Result<(), SendError>;
    /// [`Stack::send_space`].
    fn send_space(&self, connection: ConnectionId) -> usize;
    /// Size of a connection's send buffer in bytes.
    fn send_buffer(&self) -> usize;
    /// [`Stack::consumed`].
    fn consumed(&mut self, connection: ConnectionId, bytes: usize);
    /// [`Stack::report_acks`].
    fn report_acks(&mut self, connection: ConnectionId, report: bool);
    /// [`Stack::close`].
    fn close(&mut self, connection: ConnectionId);
    /// [`Stack::abort`].
    fn abort(&mut self, connection: ConnectionId);
    /// [`Stack::udp_send`]. A [`Remote`] reports no error; the datagram is lost.
    ///
    /// # Errors
    /// If the datagram cannot be sent.
    fn udp_send(
        &mut self,
        socket: SocketId,
        to: Option<Endpoint>,
        data: Vec<Slice<Buffer>>,
        now: Time,
    ) -> Result<(), UdpError>;
}

impl Calls for Stack<Buffer> {
    fn connect(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        options: Options,
        now: Time,
    ) -> Result<ConnectionId, ConnectError> {
        Stack::connect(self, local, remote, options, now)
    }

    fn listen(&mut self, local: Endpoint, options: Options) -> Result<ListenerId, ListenError> {
        Stack::listen(self, local, options)
    }

    fn unlisten(&mut self, listener: ListenerId) {
        Stack::unlisten(self, listener);
    }

    #[inline]
    fn send(&mut self, connection: ConnectionId, data: Slice<Buffer>) -> Result<(), SendError> {
        Stack::send(self, connection, data)
    }

    #[inline]
    fn send_space(&self, connection: ConnectionId) -> usize {
        Stack::send_space(self, connection)
    }

    #[inline]
    fn send_buffer(&self) -> usize {
        self.config().limits.send_buffer as usize
    }

    #[inline]
    fn consumed(&mut self, connection: ConnectionId, bytes: usize) {
        Stack::consumed(self, connection, bytes);
    }

    fn report_acks(&mut self, connection: ConnectionId, report: bool) {
        Stack::report_acks(self, connection, report);
    }

    fn close(&mut self, connection: ConnectionId) {
        Stack::close(self, connection);
    }

    fn abort(&mut self, connection: ConnectionId) {
        Stack::abort(self, connection);
    }

    #[inline]
    fn udp_send(
        &mut self,
        socket: SocketId,
        to: Option<Endpoint>,
        data: Vec<Slice<Buffer>>,
        now: Time,
    ) -> Result<(), UdpError> {
        Stack::udp_send(self, socket, to, data, now)
    }
}

/// A connection to open, for an entry of the application's table.
#[derive(Debug)]
struct Connect {
    number: u32,
    local: Endpoint,
    remote: Endpoint,
    options: Options,
}

/// A call on its way to the stack.
#[derive(Debug)]
enum Call {
    Connect(Box<Connect>),
    Listen(ListenerId, Box<(Endpoint, Options)>),
    Unlisten(ListenerId),
    Send(Target, Slice<Buffer>),
    Consumed(Target, usize),
    Close(Target),
    Abort(Target),
    UdpSend(SocketId, Option<Endpoint>, Vec<Slice<Buffer>>),
}

/// A message on its way to the application.
#[derive(Debug)]
enum Message {
    Event(Event<Buffer>),
    /// A posted call opened this connection of the stack. Precedes its events.
    Opened(u32, ConnectionId),
    /// A posted call opened no connection.
    NotOpened(u32, ConnectError),
    /// A posted call did not listen.
    NotListening(ListenerId, ListenError),
    /// Name and state of a port that was lost.
    PortLost(Box<(String, String)>),
}

/// Runs a host on this thread and its application on another one until `stop` is set. `on_start` is called on each
/// thread first, and places it. With `yields`, both threads are on one CPU. Identifiers of connections and listeners in
/// calls of the application and in events are not those of the stack.
///
/// # Errors
/// If the kernel refuses a descriptor.
///
/// # Panics
/// If the application panics. The host ends before.
pub fn run_split<A: App<Remote> + Send>(
    host: &mut Host,
    app: &mut A,
    yields: bool,
    on_start: &(impl Fn(Part) + Sync),
    stop: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    let (messages, from_stack) = ring::spsc::ring::<Message>(RING);
    let (calls, from_app) = ring::spsc::ring::<Call>(RING);
    let [wakes_app, wakes_stack] = [Arc::new(Doorbell::new()?), Arc::new(Doorbell::new()?)];
    let remote = Remote::new(calls, wakes_stack.clone(), host.remote_limits(), stop.clone());
    let mut of_app = AppSide::new(from_stack, remote, wakes_app.clone(), host.pace(), yields);
    let mut of_stack = StackSide::new(messages, from_app, (wakes_app, wakes_stack), yields, stop);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _guard = StopOnPanic(stop);
            on_start(Part::App);
            of_app.run(app, stop);
        });
        let _guard = StopOnPanic(stop);
        on_start(Part::Stack);
        host.run(&mut of_stack, stop);
    });
    // Messages in flight when both threads stopped, such as the events of a port that has ended.
    let now = host.now();
    while of_stack.push() | of_app.take(app, now) | of_stack.replay(host.stack(), now) {}
    Ok(())
}
