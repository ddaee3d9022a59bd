//! Stack and application on two threads: events and calls pass through bounded rings, in batches.
//!
//! The thread of the stack runs its host with an [`App`] that forwards events and replays calls; the other thread calls
//! the application with a [`Remote`] in place of the stack. The two are pinned to different CPUs ([`Threads::Split`]),
//! or to one and yield to each other ([`Threads::Merge`]), as in "iip" (2023), which compares them.
//!
//! The side of the application knows how much each send buffer takes: the stack reports space that acknowledgements free. The thread
//! of the stack waits if the ring of events is full, and replays calls meanwhile, so the two never wait for each other.
//! Nothing else is shared, and no call returns a value of the stack.

mod remote;
mod sides;

pub use remote::Remote;

use crate::workers::StopOnPanic;
use crate::{App, Buffer, Host};
use engine::Doorbell;
use sides::{AppSide, StackSide};
use stack::tcp::ConnectionId;
use stack::{Endpoint, Event, SendError, Slice, SocketId, Stack, Time, UdpError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Entries of each ring.
const RING: usize = 1024;
/// Maximum number of events or calls that are published at once.
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
    /// [`Stack::send`].
    ///
    /// # Errors
    /// If the send buffer is full or the sending side is closed; no data was queued then.
    fn send(&mut self, connection: ConnectionId, data: Slice<Buffer>) -> Result<(), SendError>;
    /// [`Stack::send_space`].
    fn send_space(&self, connection: ConnectionId) -> usize;
    /// [`Stack::consumed`].
    fn consumed(&mut self, connection: ConnectionId, bytes: usize);
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
    #[inline]
    fn send(&mut self, connection: ConnectionId, data: Slice<Buffer>) -> Result<(), SendError> {
        Stack::send(self, connection, data)
    }

    #[inline]
    fn send_space(&self, connection: ConnectionId) -> usize {
        Stack::send_space(self, connection)
    }

    #[inline]
    fn consumed(&mut self, connection: ConnectionId, bytes: usize) {
        Stack::consumed(self, connection, bytes);
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

/// A call on its way to the stack.
#[derive(Debug)]
enum Call {
    Send(ConnectionId, Slice<Buffer>),
    Consumed(ConnectionId, usize),
    Close(ConnectionId),
    Abort(ConnectionId),
    UdpSend(SocketId, Option<Endpoint>, Vec<Slice<Buffer>>),
}

/// Runs a host on this thread and its application on another one until `stop` is set. `on_start` is called on each
/// thread first, and places it. With `yields`, both threads are on one CPU.
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
    let (events, from_stack) = ring::spsc::ring::<Event<Buffer>>(RING);
    let (calls, from_app) = ring::spsc::ring::<Call>(RING);
    let [wakes_app, wakes_stack] = [Arc::new(Doorbell::new()?), Arc::new(Doorbell::new()?)];
    let remote = Remote::new(calls, wakes_stack.clone(), host.send_buffer(), stop.clone());
    let mut of_app = AppSide::new(from_stack, remote, wakes_app.clone(), host.pace(), yields);
    let mut of_stack = StackSide::new(events, from_app, (wakes_app, wakes_stack), yields, stop);
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
    Ok(())
}
