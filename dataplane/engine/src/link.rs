//! Link: the control thread's interface to one worker, with its commands, doorbell and retired queues.
//!
//! Protocol: the control thread waits for a burst boundary at most for a limit, because a worker may be delayed
//! without bound (a page fault on a slow disk, a debugger). A worker that exceeds the limit for a command is stuck
//! until it has handled that command, and is not waited for again before. Its resources are not taken away: its own
//! references keep them alive, and commands stay in the mailbox in order.
//!
//! After handling commands, a worker first stores the number in the mailbox (release; pairs with the acquire load in
//! [`Mailbox::is_done`]) and then rings the control thread, which may have stopped waiting: in the opposite order,
//! the control thread could check too early and miss the update. Retired queues, load and punted packets are
//! passed under locks. `ended` is stored last (release) and loaded before anything that the worker held is reused
//! (acquire); `stuck` is a number without other data, stored and loaded `Relaxed`.

use crate::command::{Command, Event, LoadReport, Retired};
use crate::mailbox::Mailbox;
use port::{PortId, Punted, Punts};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the control thread waits for one burst boundary, shared by all links of an engine. A burst takes
/// microseconds, and on an overloaded machine a worker may wait for its CPU; the default far exceeds both.
#[derive(Clone)]
pub(crate) struct ResponseLimit(Arc<AtomicU64>);

impl Default for ResponseLimit {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(Duration::from_secs(5).as_nanos() as u64)))
    }
}

impl ResponseLimit {
    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, limit: Duration) {
        self.0.store(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Maximum number of punted packets queued per worker.
const MAX_PUNTED: usize = 256;
/// Polls without a pause, some 10 µs.
const SPINS: u32 = 500;
/// Maximum number of these per input port, so that one port does not displace packets of others.
const MAX_PUNTED_OF_PORT: u16 = 64;

/// Punted packets queued for the control thread.
#[derive(Default)]
struct Waiting {
    packets: VecDeque<Punted>,
    /// Number of queued packets by input port.
    of: Vec<u16>,
}

impl Waiting {
    fn have_room(&self, from: PortId) -> bool {
        self.packets.len() < MAX_PUNTED
            && self.of.get(usize::from(from.0)).is_none_or(|&waiting| waiting < MAX_PUNTED_OF_PORT)
    }

    fn push(&mut self, packet: Punted) {
        let from = usize::from(packet.context.from.0);
        if self.of.len() <= from {
            self.of.resize(from + 1, 0);
        }
        self.of[from] += 1;
        self.packets.push_back(packet);
    }
}

/// An eventfd for wake-ups, which can be polled with other descriptors.
#[derive(Clone, Debug)]
pub(crate) struct Doorbell(Arc<OwnedFd>);

impl Doorbell {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    pub(crate) fn ring(&self) {
        // If the counter is full, a wake-up is already pending.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        // Fails if nothing is pending.
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

/// State shared by one worker and the control thread.
pub(crate) struct Link {
    pub(crate) mailbox: Mailbox<Command>,
    pub(crate) doorbell: Doorbell,
    retired: Mutex<Vec<Retired>>,
    load: Mutex<LoadReport>,
    events: Mutex<Sender<Event>>,
    punts: Mutex<Waiting>,
    control: Doorbell,
    ended: AtomicBool,
    /// Number of the command that the worker did not handle within the limit; 0 if none. Written only by the control
    /// thread.
    stuck: AtomicU64,
    limit: ResponseLimit,
}

impl Link {
    pub(crate) fn new(
        events: Sender<Event>,
        control: Doorbell,
        limit: ResponseLimit,
    ) -> std::io::Result<Self> {
        Ok(Self {
            mailbox: Mailbox::new(),
            doorbell: Doorbell::new()?,
            retired: Mutex::new(Vec::new()),
            load: Mutex::default(),
            events: Mutex::new(events),
            punts: Mutex::default(),
            control,
            ended: AtomicBool::new(false),
            stuck: AtomicU64::new(0),
            limit,
        })
    }

    /// Marks the worker's thread as ended, for any reason, so that waits for it return.
    pub(crate) fn end(&self) {
        // Pairs with the acquire loads in `is_done`, `is_out_of_service` and `post`: what the worker did happened
        // before.
        self.ended.store(true, Ordering::Release);
        self.control.ring();
    }

    /// Called by the worker: marks all commands up to `number` as handled, and rings the control thread, which may
    /// have stopped waiting.
    pub(crate) fn handled(&self, number: u64) {
        self.mailbox.handled(number);
        self.control.ring();
    }

    /// Whether the worker has handled command `number`, or has ended and holds nothing.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.mailbox.is_done(number) || self.ended.load(Ordering::Acquire)
    }

    /// Whether the worker exceeded the limit and has not caught up since.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.is_done(self.stuck.load(Ordering::Relaxed))
    }

    /// Whether new work should go to another worker.
    pub(crate) fn is_out_of_service(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.is_stuck()
    }

    /// Posts `command` and wakes the worker. Returns the command's number. Drops the command if the worker has ended.
    pub(crate) fn post(&self, command: Command) -> u64 {
        if self.ended.load(Ordering::Acquire) {
            return 0;
        }
        let number = self.mailbox.post(command);
        self.doorbell.ring();
        number
    }

    /// Called by the control thread: waits for a command, polling with short intervals, because a burst takes
    /// microseconds. Returns `false` if the worker is stuck; it handles the command when it continues.
    ///
    /// Does not yield: on a CPU shared with busy threads, each yield lasts the time slice of another thread.
    pub(crate) fn wait(&self, number: u64) -> bool {
        if self.is_stuck() {
            return false;
        }
        let (began, mut looks) = (Instant::now(), 0u32);
        while !self.is_done(number) {
            looks += 1;
            match looks {
                0..SPINS => std::hint::spin_loop(),
                _ if began.elapsed() > self.limit.get() => {
                    self.stuck.store(number, Ordering::Relaxed);
                    return false;
                }
                _ => std::thread::sleep(Duration::from_micros(20)),
            }
        }
        true
    }

    /// Called by the control thread: takes the retired queues.
    pub(crate) fn retired(&self) -> Vec<Retired> {
        std::mem::take(&mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Called by the worker while it handles a command: retires a queue. [`Link::handled`] publishes it.
    pub(crate) fn retire(&self, queue: Retired) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
    }

    /// Called by the control thread: takes the last reported load, requested with [`Command::ReportLoad`].
    pub(crate) fn load(&self) -> LoadReport {
        std::mem::take(&mut *self.load.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Called by the worker while it handles a command: reports its load. [`Link::handled`] publishes it.
    pub(crate) fn report_load(&self, load: LoadReport) {
        *self.load.lock().unwrap_or_else(PoisonError::into_inner) = load;
    }

    /// Called by the control thread: takes the punted packets, in order.
    pub(crate) fn punted(&self) -> VecDeque<Punted> {
        let mut waiting = self.punts.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.of.fill(0);
        std::mem::take(&mut waiting.packets)
    }

    /// Called by the worker when a queue has failed.
    pub(crate) fn report(&self, event: Event) {
        // Fails only if the control thread has ended.
        let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event);
        self.control.ring();
    }
}

/// Called by the worker: punted packets.
impl Punts for &Link {
    fn have_room(&self, from: PortId) -> bool {
        self.punts.lock().unwrap_or_else(PoisonError::into_inner).have_room(from)
    }

    fn push(&mut self, packet: Punted) -> bool {
        let mut waiting = self.punts.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = waiting.have_room(packet.context.from);
        if has_room {
            waiting.push(packet);
            if waiting.packets.len() == 1 {
                self.control.ring();
            }
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::{Context, Now, PuntReason};
    use std::sync::mpsc::channel;

    fn link() -> Link {
        let limit = ResponseLimit::default();
        limit.set(Duration::from_millis(5));
        Link::new(channel().0, Doorbell::new().unwrap(), limit).unwrap()
    }

    fn handle_all(link: &Link) {
        let upto = link.mailbox.take(&mut Vec::new()).unwrap();
        link.handled(upto);
    }

    /// Whether the control thread was rung since the last call.
    fn is_rung(link: &Link) -> bool {
        rustix::io::read(&*link.control.0, &mut [0u8; 8]).is_ok()
    }

    #[test]
    fn unresponsive_worker_is_waited_for_once_until_it_recovers() {
        let link = link();
        let first = link.post(Command::Quit);
        assert!(!link.wait(first) && link.is_stuck() && link.is_out_of_service());
        // A stuck worker is not waited for: the call returns although the limit is infinite.
        link.limit.set(Duration::MAX);
        let second = link.post(Command::Quit);
        assert!(!link.wait(second));
        handle_all(&link);
        assert!(!link.is_stuck() && link.is_done(second) && link.wait(second));
    }

    #[test]
    fn punted_packets_are_limited_per_port() {
        let link = link();
        let packet = |from| Punted {
            context: Context::received(PortId(from), Now(0)),
            reason: PuntReason::NoMatch,
            note: None,
            frame: Box::default(),
        };
        let taken = |from, n| (0..n).filter(|_| (&mut &link).push(packet(from))).count();
        assert_eq!((taken(7, 100), taken(0, 3), is_rung(&link)), (MAX_PUNTED_OF_PORT.into(), 3, true));
        assert!(!(&link).have_room(PortId(7)) && (&link).have_room(PortId(1000)));
        let all: usize = (1..7).map(|from| taken(from, 100)).sum();
        assert_eq!(all, MAX_PUNTED - 67, "and all ports together have a limit");
        assert_eq!((link.punted().len(), taken(7, 100)), (MAX_PUNTED, MAX_PUNTED_OF_PORT.into()));
    }

    #[test]
    fn control_is_woken_after_a_command_is_handled_or_a_worker_ends() {
        let link = link();
        let number = link.post(Command::Refresh(port::PortId(0)));
        assert!(!is_rung(&link) && !link.is_done(number));
        handle_all(&link);
        assert!(is_rung(&link) && link.is_done(number));
        let never = link.post(Command::Quit);
        link.end();
        assert!(is_rung(&link) && link.is_done(never));
    }

    #[test]
    fn ended_worker_holds_nothing() {
        let link = link();
        let number = link.post(Command::Quit);
        link.end();
        assert!(link.wait(number) && !link.is_stuck() && link.is_out_of_service());
    }
}
