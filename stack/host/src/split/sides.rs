//! The two sides of the rings: on the thread of the stack, and on that of the application.

use super::names::Target;
use super::{BATCH, Call, Connect, Message, Remote};
use crate::clock::Clock;
use crate::{App, Buffer};
use engine::Doorbell;
use ring::spsc::{Consumer, Producer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use stack::tcp::{ConnectionId, ListenerId, Options};
use stack::{Endpoint, Event, Stack, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Minimum number of rounds without work before a sleep.
const IDLE_ROUNDS: u32 = 256;
/// Maximum time between two looks at the stop flag, in nanoseconds.
const MAX_SLEEP: u64 = 100_000_000;

/// Forwards events and replays calls.
pub(super) struct StackSide<'a> {
    messages: Producer<Message>,
    calls: Consumer<Call>,
    /// Messages that are not published yet.
    staged: VecDeque<Message>,
    opened: Opened,
    wakes_app: Arc<Doorbell>,
    wakes_stack: Arc<Doorbell>,
    yields: bool,
    stop: &'a AtomicBool,
}

/// Sockets that posted calls opened.
#[derive(Default)]
struct Opened {
    /// Connections by the number of their entry. A later call for an entry follows the last one for the connection
    /// before.
    connections: Vec<ConnectionId>,
    /// Listeners of the stack, with the identifiers that the application chose.
    listeners: Vec<(ListenerId, ListenerId)>,
}

impl Opened {
    /// Identifier of no connection; calls for it have no effect.
    const NONE: ConnectionId = ConnectionId::from_bits(u64::MAX);

    #[inline]
    fn resolve(&self, target: Target) -> ConnectionId {
        match target {
            Target::Known(id) => id,
            Target::Posted(number) => self.connections.get(number as usize).copied().unwrap_or(Self::NONE),
        }
    }

    /// The message with an event. Acknowledgements of a new connection are reported.
    #[inline]
    fn message(&self, stack: &mut Stack<Buffer>, mut event: Event<Buffer>) -> Message {
        match &mut event {
            Event::Accepted { connection, listener, .. } => {
                *listener = self.listener(*listener);
                stack.report_acks(*connection, true);
            }
            Event::Connected { connection } => stack.report_acks(*connection, true),
            _ => {}
        }
        Message::Event(event)
    }

    /// Stages the events that the stack has reported, before a call changes what their identifiers mean.
    fn forward(&self, stack: &mut Stack<Buffer>, staged: &mut VecDeque<Message>) {
        while let Some(event) = stack.poll_event() {
            staged.push_back(self.message(stack, event));
        }
    }

    /// Opens a connection, whose acknowledgements are reported.
    fn connect(&mut self, stack: &mut Stack<Buffer>, call: &Connect, now: Time) -> Message {
        let result = stack.connect(call.local, call.remote, call.options, now);
        let at = call.number as usize;
        if self.connections.len() <= at {
            self.connections.resize(at + 1, Self::NONE);
        }
        self.connections[at] = result.unwrap_or(Self::NONE);
        match result {
            Ok(id) => {
                stack.report_acks(id, true);
                Message::Opened(call.number, id)
            }
            Err(error) => Message::NotOpened(call.number, error),
        }
    }

    /// Listens. Returns a message if it failed.
    fn listen(
        &mut self,
        stack: &mut Stack<Buffer>,
        chosen: ListenerId,
        (local, options): (Endpoint, Options),
    ) -> Option<Message> {
        match stack.listen(local, options) {
            Ok(listener) => {
                self.listeners.push((listener, chosen));
                None
            }
            Err(error) => Some(Message::NotListening(chosen, error)),
        }
    }

    fn unlisten(&mut self, stack: &mut Stack<Buffer>, chosen: ListenerId) {
        match self.listeners.iter().position(|(_, own)| *own == chosen) {
            Some(at) => stack.unlisten(self.listeners.swap_remove(at).0),
            // One that listened before the application started.
            None => stack.unlisten(chosen),
        }
    }

    /// The identifier that the application has chosen for a listener.
    fn listener(&self, listener: ListenerId) -> ListenerId {
        let chosen = self.listeners.iter().find(|(of_stack, _)| *of_stack == listener);
        chosen.map_or(listener, |(_, chosen)| *chosen)
    }
}

impl<'a> StackSide<'a> {
    pub(super) fn new(
        messages: Producer<Message>,
        calls: Consumer<Call>,
        (wakes_app, wakes_stack): (Arc<Doorbell>, Arc<Doorbell>),
        yields: bool,
        stop: &'a AtomicBool,
    ) -> Self {
        let (staged, opened) = (VecDeque::with_capacity(BATCH), Opened::default());
        Self { messages, calls, staged, opened, wakes_app, wakes_stack, yields, stop }
    }

    /// Publishes messages, as many as fit. Returns whether there were any.
    pub(super) fn push(&mut self) -> bool {
        let fits = self.messages.room(self.staged.len()).min(self.staged.len());
        self.messages.push_all(&mut self.staged.drain(..fits));
        // Orders the messages before the check whether the application sleeps.
        fence(Ordering::SeqCst);
        self.wakes_app.ring();
        fits > 0
    }

    /// Publishes all messages. While the ring is full, replays calls, which lets the application go on.
    fn publish(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        while !self.staged.is_empty() {
            if !self.push() {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                self.replay(stack, now);
                std::thread::yield_now();
            }
        }
    }

    /// Replays the calls in the ring. Returns whether there were any.
    pub(super) fn replay(&mut self, stack: &mut Stack<Buffer>, now: Time) -> bool {
        let Self { calls, opened, staged, .. } = self;
        let calls = calls.drain(usize::MAX);
        let has_any = calls.len() > 0;
        for call in calls {
            match call {
                Call::Send(target, data) => {
                    let connection = opened.resolve(target);
                    let sent = stack.send(connection, data);
                    // A stream with a gap must not continue; a connection that ended meanwhile has reported it.
                    if sent == Err(stack::SendError::Full) {
                        stack.abort(connection);
                    }
                }
                Call::Consumed(target, bytes) => stack.consumed(opened.resolve(target), bytes),
                Call::Close(target) => stack.close(opened.resolve(target)),
                Call::Abort(target) => stack.abort(opened.resolve(target)),
                Call::Connect(call) => {
                    // The end of an earlier connection precedes one that has its number in the stack.
                    opened.forward(stack, staged);
                    staged.push_back(opened.connect(stack, &call, now));
                }
                Call::Listen(chosen, call) => staged.extend(opened.listen(stack, chosen, *call)),
                Call::Unlisten(chosen) => {
                    // The identifier of a listener is known until its connections were reported.
                    opened.forward(stack, staged);
                    opened.unlisten(stack, chosen);
                }
                // The datagram is lost, as it could be in the network.
                Call::UdpSend(socket, to, data) => drop(stack.udp_send(socket, to, data, now)),
            }
        }
        has_any
    }
}

impl App for StackSide<'_> {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        self.staged.push_back(self.opened.message(stack, event));
        if self.staged.len() >= BATCH {
            self.publish(stack, now);
        }
    }

    #[inline]
    fn poll(&mut self, stack: &mut Stack<Buffer>, now: Time) -> bool {
        self.publish(stack, now);
        if self.yields {
            std::thread::yield_now();
        }
        self.replay(stack, now)
    }

    fn prepare_sleep(&mut self) -> bool {
        self.wakes_stack.set();
        self.calls.ready(1) == 0
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.wakes_stack.fd()]
    }

    fn resume(&mut self) {
        self.wakes_stack.stop();
    }

    fn port_lost(&mut self, name: &str, state: &str) {
        self.staged.push_back(Message::PortLost(Box::new((name.to_owned(), state.to_owned()))));
    }
}

/// Calls the application.
pub(super) struct AppSide {
    messages: Consumer<Message>,
    remote: Remote,
    wakes_app: Arc<Doorbell>,
    clock: Clock,
    /// Time without work before a sleep in nanoseconds; `None` if the thread never sleeps.
    idle: Option<u64>,
    yields: bool,
}

impl AppSide {
    pub(super) fn new(
        messages: Consumer<Message>,
        remote: Remote,
        wakes_app: Arc<Doorbell>,
        (clock, idle): (Clock, Option<u64>),
        yields: bool,
    ) -> Self {
        Self { messages, remote, wakes_app, clock, idle, yields }
    }

    pub(super) fn run(&mut self, app: &mut impl App<Remote>, stop: &AtomicBool) {
        let (mut idle_rounds, mut worked_at) = (0, self.clock.now());
        while !stop.load(Ordering::Relaxed) {
            let now = self.clock.now();
            if self.round(app, now) {
                (idle_rounds, worked_at) = (0, now);
                continue;
            }
            idle_rounds += 1;
            if self.yields {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            let is_idle =
                self.idle.is_some_and(|idle| idle_rounds > IDLE_ROUNDS && now.0 - worked_at.0 > idle);
            if is_idle {
                self.sleep(app);
                (idle_rounds, worked_at) = (0, self.clock.now());
            }
        }
    }

    /// Runs one round: messages, and the work of the application that none announces. Returns whether there was any.
    #[inline]
    fn round(&mut self, app: &mut impl App<Remote>, now: Time) -> bool {
        let took = self.deliver(app, now);
        let worked = app.poll(&mut self.remote, now);
        self.remote.publish();
        took || worked
    }

    /// Passes one batch of messages to the application. Returns whether there were any.
    #[inline]
    fn deliver(&mut self, app: &mut impl App<Remote>, now: Time) -> bool {
        let Self { messages, remote, .. } = self;
        let messages = messages.drain(BATCH);
        let took = messages.len() > 0;
        messages.for_each(|message| remote.deliver(message, app, now));
        took
    }

    /// Passes a batch of the last messages to the application, and publishes its calls. Returns whether there were any.
    pub(super) fn take(&mut self, app: &mut impl App<Remote>, now: Time) -> bool {
        let took = self.deliver(app, now);
        self.remote.publish();
        took
    }

    #[cold]
    fn sleep(&mut self, app: &mut impl App<Remote>) {
        self.wakes_app.set();
        if app.prepare_sleep() && self.messages.ready(1) == 0 {
            let fds = std::iter::once(self.wakes_app.fd()).chain(app.wake_fds());
            let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let left = app.deadline().0.saturating_sub(self.clock.now().0);
            let limit = Timespec { tv_sec: 0, tv_nsec: left.min(MAX_SLEEP).cast_signed() };
            // An interrupted sleep counts as a wake-up.
            let _ = poll(&mut fds, Some(&limit));
        }
        app.resume();
        self.wakes_app.stop();
    }
}
