//! One worker as control sees it: where to leave commands, how to wake it, and what it has let go of.

use crate::command::{Command, Event, Retired};
use crate::mailbox::Mailbox;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A wake-up that can be waited for with other descriptors.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
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
    pub(crate) bell: Bell,
    retired: Mutex<Vec<Retired>>,
    events: Mutex<Sender<Event>>,
    control: Bell,
    ended: AtomicBool,
}

impl Link {
    pub(crate) fn new(events: Sender<Event>, control: Bell) -> std::io::Result<Self> {
        Ok(Self {
            mailbox: Mailbox::new(),
            bell: Bell::new()?,
            retired: Mutex::new(Vec::new()),
            events: Mutex::new(events),
            control,
            ended: AtomicBool::new(false),
        })
    }

    /// The worker's thread is over, whatever the reason: nobody needs to wait for it any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Control's side: has the worker obey `command` and waits until it has passed a burst boundary.
    pub(crate) fn order(&self, command: Command) {
        let number = self.post(command);
        self.wait(number);
    }

    /// Control's side: leaves `command` and wakes the worker.
    pub(crate) fn post(&self, command: Command) -> u64 {
        let number = self.mailbox.post(command);
        self.bell.ring();
        number
    }

    /// Control's side: waits for a command. A burst takes microseconds, so this looks again soon.
    pub(crate) fn wait(&self, number: u64) {
        let mut looks = 0u32;
        while !self.mailbox.is_done(number) && !self.ended.load(Ordering::Relaxed) {
            looks += 1;
            match looks {
                0..100 => std::hint::spin_loop(),
                100..200 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(20)),
            }
        }
    }

    /// Control's side: what the worker has let go of.
    pub(crate) fn retired(&self) -> Vec<Retired> {
        std::mem::take(&mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The worker's side, only while it obeys a command: lets go of a queue.
    pub(crate) fn retire(&self, queue: Retired) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
    }

    /// The worker's side, only when a queue is broken.
    pub(crate) fn report(&self, event: Event) {
        // When control has ended, nobody needs the report any more.
        let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event);
        self.control.ring();
    }
}
