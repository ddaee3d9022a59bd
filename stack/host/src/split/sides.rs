//! The two sides of the rings: on the thread of the stack, and on that of the application.

use super::{BATCH, Call, Remote};
use crate::clock::Clock;
use crate::{App, Buffer};
use engine::Doorbell;
use ring::spsc::{Consumer, Producer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use stack::{Event, Stack, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Minimum number of rounds without work before a sleep.
const IDLE_ROUNDS: u32 = 256;
/// Maximum time between two looks at the stop flag, in nanoseconds.
const MAX_SLEEP: u64 = 100_000_000;

/// Forwards events and replays calls.
pub(super) struct StackSide<'a> {
    events: Producer<Event<Buffer>>,
    calls: Consumer<Call>,
    /// Events that are not published yet.
    staged: VecDeque<Event<Buffer>>,
    wakes_app: Arc<Doorbell>,
    wakes_stack: Arc<Doorbell>,
    yields: bool,
    stop: &'a AtomicBool,
}

impl<'a> StackSide<'a> {
    pub(super) fn new(
        events: Producer<Event<Buffer>>,
        calls: Consumer<Call>,
        (wakes_app, wakes_stack): (Arc<Doorbell>, Arc<Doorbell>),
        yields: bool,
        stop: &'a AtomicBool,
    ) -> Self {
        let staged = VecDeque::with_capacity(BATCH);
        Self { events, calls, staged, wakes_app, wakes_stack, yields, stop }
    }

    /// Publishes all events. While the ring is full, replays calls, which lets the application go on.
    fn publish(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        while !self.staged.is_empty() {
            let fits = self.events.room(self.staged.len()).min(self.staged.len());
            self.events.push_all(&mut self.staged.drain(..fits));
            // Orders the events before the check whether the application sleeps.
            fence(Ordering::SeqCst);
            self.wakes_app.ring();
            if fits == 0 {
                if self.stop.load(Ordering::Relaxed) {
                    return self.staged.clear();
                }
                self.replay(stack, now);
                std::thread::yield_now();
            }
        }
    }

    /// Replays the calls in the ring. Returns whether there were any.
    fn replay(&mut self, stack: &mut Stack<Buffer>, now: Time) -> bool {
        let calls = self.calls.drain(usize::MAX);
        let has_any = calls.len() > 0;
        for call in calls {
            match call {
                Call::Send(connection, data) => {
                    let sent = stack.send(connection, data);
                    // A stream with a gap must not continue; a connection that ended meanwhile has reported it.
                    if sent == Err(stack::SendError::Full) {
                        stack.abort(connection);
                    }
                }
                Call::Consumed(connection, bytes) => stack.consumed(connection, bytes),
                Call::Close(connection) => stack.close(connection),
                Call::Abort(connection) => stack.abort(connection),
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
        if let Event::Accepted { connection, .. } | Event::Connected { connection } = event {
            stack.report_acks(connection, true);
        }
        self.staged.push_back(event);
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
}

/// Calls the application.
pub(super) struct AppSide {
    events: Consumer<Event<Buffer>>,
    remote: Remote,
    wakes_app: Arc<Doorbell>,
    clock: Clock,
    /// Time without work before a sleep in nanoseconds; `None` if the thread never sleeps.
    idle: Option<u64>,
    yields: bool,
}

impl AppSide {
    pub(super) fn new(
        events: Consumer<Event<Buffer>>,
        remote: Remote,
        wakes_app: Arc<Doorbell>,
        (clock, idle): (Clock, Option<u64>),
        yields: bool,
    ) -> Self {
        Self { events, remote, wakes_app, clock, idle, yields }
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

    /// Passes one batch of events to the application. Returns whether there was any work.
    #[inline]
    fn round(&mut self, app: &mut impl App<Remote>, now: Time) -> bool {
        let Self { events, remote, .. } = self;
        let events = events.drain(BATCH);
        let mut worked = events.len() > 0;
        for event in events {
            if let Some(event) = remote.note(event) {
                app.event(remote, event, now);
            }
        }
        worked |= app.poll(remote, now);
        remote.publish();
        worked
    }

    #[cold]
    fn sleep(&mut self, app: &mut impl App<Remote>) {
        self.wakes_app.set();
        if app.prepare_sleep() && self.events.ready(1) == 0 {
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
