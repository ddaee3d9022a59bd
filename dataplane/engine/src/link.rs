//! One worker as control sees it: where to leave commands, how to wake it, and what it has let go of.
//!
//! Control waits for a burst boundary, and no longer than a limit: what keeps a worker for seconds (a page that a
//! disk does not deliver, a debugger) may keep it for ever. A worker beyond the limit is *stuck* from the command
//! that it did not obey, and is not waited for again until it has obeyed that one. Nothing is taken from it: what
//! it holds stays alive by its own references, and commands wait in its mailbox in their order. When a worker has
//! obeyed, it says so in the mailbox first and rings control then: control may have given up waiting, and would look
//! too early, and never again, if the doorbell came before the word.

use crate::command::{Command, Event, Retired, Weights};
use crate::mailbox::Mailbox;
use port::{PortId, Punted, Punts};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long control waits for one burst boundary. A burst takes microseconds, but on a crowded machine a worker
/// may wait for its CPU; this is far beyond either.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// Most packets of one worker that wait for the control plane.
const MOST_PUNTED: usize = 256;
/// Most of them that came in by one port: packets of one port do not keep away those of others.
const MOST_OF_PORT: u16 = 64;

/// Packets that wait for the control plane.
#[derive(Default)]
struct Waiting {
    packets: VecDeque<Punted>,
    /// How many of them came in by each port.
    of: Vec<u16>,
}

impl Waiting {
    fn have_room(&self, from: PortId) -> bool {
        self.packets.len() < MOST_PUNTED
            && self.of.get(usize::from(from.0)).is_none_or(|&waiting| waiting < MOST_OF_PORT)
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

/// A wake-up that can be waited for with other descriptors.
#[derive(Clone, Debug)]
pub(crate) struct Doorbell(Arc<OwnedFd>);

impl Doorbell {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    pub(crate) fn ring(&self) {
        // A full counter is a wake-up that is already pending.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn quiet(&self) {
        // Nothing pending is no error.
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

/// What one worker and control share.
pub(crate) struct Link {
    pub(crate) mailbox: Mailbox<Command>,
    pub(crate) doorbell: Doorbell,
    retired: Mutex<Vec<Retired>>,
    weights: Mutex<Weights>,
    events: Mutex<Sender<Event>>,
    punts: Mutex<Waiting>,
    control: Doorbell,
    ended: AtomicBool,
    /// The command that the worker did not obey within the limit; 0 is none. Control's own.
    stuck: AtomicU64,
    limit: Duration,
}

impl Link {
    pub(crate) fn new(events: Sender<Event>, control: Doorbell) -> std::io::Result<Self> {
        Ok(Self {
            mailbox: Mailbox::new(),
            doorbell: Doorbell::new()?,
            retired: Mutex::new(Vec::new()),
            weights: Mutex::default(),
            events: Mutex::new(events),
            punts: Mutex::default(),
            control,
            ended: AtomicBool::new(false),
            stuck: AtomicU64::new(0),
            limit: LIMIT,
        })
    }

    /// The worker's thread is over, whatever the reason: no one needs to wait for it any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.control.ring();
    }

    /// The worker's side: everything up to command `number` is obeyed. Control may have given up waiting.
    pub(crate) fn handled(&self, number: u64) {
        self.mailbox.handled(number);
        self.control.ring();
    }

    /// Control's side: whether the worker has obeyed command `number`, or is over and has let go of everything.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.mailbox.is_done(number) || self.ended.load(Ordering::Relaxed)
    }

    /// Control's side: whether the worker was waited for in vain and has not come back since.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.is_done(self.stuck.load(Ordering::Relaxed))
    }

    /// Control's side: whether new work is better given to another worker.
    pub(crate) fn is_out_of_service(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.is_stuck()
    }

    /// Control's side: leaves `command` and wakes the worker.
    pub(crate) fn post(&self, command: Command) -> u64 {
        let number = self.mailbox.post(command);
        self.doorbell.ring();
        number
    }

    /// Control's side: waits for a command. A burst takes microseconds, so this looks again soon. `false`: the
    /// worker is stuck, and the command will be obeyed when it comes back.
    pub(crate) fn wait(&self, number: u64) -> bool {
        if self.is_stuck() {
            return false;
        }
        let (began, mut looks) = (Instant::now(), 0u32);
        while !self.is_done(number) {
            looks += 1;
            match looks {
                0..100 => std::hint::spin_loop(),
                100..200 => std::thread::yield_now(),
                _ if began.elapsed() > self.limit => {
                    self.stuck.store(number, Ordering::Relaxed);
                    return false;
                }
                _ => std::thread::sleep(Duration::from_micros(20)),
            }
        }
        true
    }

    /// Control's side: what the worker has let go of.
    pub(crate) fn retired(&self) -> Vec<Retired> {
        std::mem::take(&mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The worker's side, only while it obeys a command: lets go of a queue. [`Link::handled`] announces it.
    pub(crate) fn retire(&self, queue: Retired) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
    }

    /// Control's side: what the worker has told last of its queues; [`Command::Weigh`] asks.
    pub(crate) fn weights(&self) -> Weights {
        std::mem::take(&mut *self.weights.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The worker's side, only while it obeys a command. [`Link::handled`] announces it.
    pub(crate) fn tell(&self, weights: Weights) {
        *self.weights.lock().unwrap_or_else(PoisonError::into_inner) = weights;
    }

    /// Control's side: the packets that were handed over, in order.
    pub(crate) fn punted(&self) -> VecDeque<Punted> {
        let mut waiting = self.punts.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.of.fill(0);
        std::mem::take(&mut waiting.packets)
    }

    /// The worker's side, only when a queue is broken.
    pub(crate) fn report(&self, event: Event) {
        // When control has ended, the report is not needed any more.
        let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event);
        self.control.ring();
    }
}

/// The worker's side: packets for the control plane.
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
        let link = Link::new(channel().0, Doorbell::new().unwrap()).unwrap();
        Link { limit: Duration::from_millis(5), ..link }
    }

    fn handle_all(link: &Link) {
        let upto = link.mailbox.take(&mut Vec::new()).unwrap();
        link.handled(upto);
    }

    /// Whether control was rung since this was asked last.
    fn is_rung(link: &Link) -> bool {
        rustix::io::read(&*link.control.0, &mut [0u8; 8]).is_ok()
    }

    #[test]
    fn a_worker_that_does_not_answer_is_waited_for_once_and_again_when_it_is_back() {
        let link = link();
        let first = link.post(Command::Quit);
        assert!(!link.wait(first) && link.is_stuck() && link.is_out_of_service());
        // Not waited for: not even for the whole of a limit that never ends.
        let link = Link { limit: Duration::MAX, ..link };
        let second = link.post(Command::Quit);
        assert!(!link.wait(second));
        handle_all(&link);
        assert!(!link.is_stuck() && link.is_done(second) && link.wait(second));
    }

    #[test]
    fn no_port_keeps_the_punted_packets_of_others_away() {
        let link = link();
        let packet = |from| Punted {
            context: Context::received(PortId(from), Now(0)),
            reason: PuntReason::NoMatch,
            frame: Box::default(),
        };
        let taken = |from, n| (0..n).filter(|_| (&mut &link).push(packet(from))).count();
        assert_eq!((taken(7, 100), taken(0, 3), is_rung(&link)), (MOST_OF_PORT.into(), 3, true));
        assert!(!(&link).have_room(PortId(7)) && (&link).have_room(PortId(1000)));
        let all: usize = (1..7).map(|from| taken(from, 100)).sum();
        assert_eq!(all, MOST_PUNTED - 67, "and all ports together have a limit");
        assert_eq!((link.punted().len(), taken(7, 100)), (MOST_PUNTED, MOST_OF_PORT.into()));
    }

    #[test]
    fn control_is_rung_when_it_can_see_that_a_command_is_obeyed_or_a_worker_over() {
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
    fn a_worker_that_is_over_holds_nothing() {
        let link = link();
        let number = link.post(Command::Quit);
        link.end();
        assert!(link.wait(number) && !link.is_stuck() && link.is_out_of_service());
    }
}
