//! The waker of a runtime's thread: a flag, and an eventfd that ends its sleep.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// Wakes a runtime from any thread.
#[derive(Debug)]
pub(super) struct Doorbell {
    /// Whether a task was woken since the flag was taken last.
    is_rung: AtomicBool,
    /// Whether the thread sleeps or is about to.
    is_asleep: AtomicBool,
    fd: Arc<OwnedFd>,
}

impl Doorbell {
    pub(super) fn new() -> std::io::Result<Self> {
        let fd = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        Ok(Self { is_rung: AtomicBool::new(true), is_asleep: AtomicBool::new(false), fd })
    }

    /// Readable from a ring during sleep until [`Doorbell::end_sleep`].
    pub(super) fn fd(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// Whether a task was woken since the last call.
    #[inline]
    pub(super) fn take(&self) -> bool {
        // Acquire: pairs with the swap in `wake_by_ref`, so that the woken task sees what was written before.
        self.is_rung.load(Ordering::Relaxed) && self.is_rung.swap(false, Ordering::Acquire)
    }

    /// Prepares a sleep. Returns `false` if a task was woken.
    pub(super) fn prepare_sleep(&self) -> bool {
        // SeqCst: either this thread sees the ring, or the ringing thread sees that this one is asleep.
        self.is_asleep.store(true, Ordering::SeqCst);
        !self.is_rung.load(Ordering::SeqCst)
    }

    /// Ends a prepared sleep.
    pub(super) fn end_sleep(&self) {
        self.is_asleep.store(false, Ordering::SeqCst);
        if self.is_rung.load(Ordering::SeqCst) {
            // A ring before the sleep wrote nothing.
            let _ = rustix::io::read(&*self.fd, &mut [0; 8]);
        }
    }
}

impl Wake for Doorbell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let was_rung = self.is_rung.swap(true, Ordering::SeqCst);
        if !was_rung && self.is_asleep.load(Ordering::SeqCst) {
            // A full counter is readable too.
            let _ = rustix::io::write(&*self.fd, &1_u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_during_sleep_are_readable_until_its_end() {
        let doorbell = Arc::new(Doorbell::new().unwrap());
        assert!(!doorbell.prepare_sleep() && doorbell.take() && !doorbell.take());
        doorbell.end_sleep();
        doorbell.wake_by_ref();
        assert!(rustix::io::read(&*doorbell.fd, &mut [0; 8]).is_err(), "no system call while awake");
        assert!(doorbell.take() && doorbell.prepare_sleep());
        doorbell.wake_by_ref();
        doorbell.wake_by_ref();
        doorbell.end_sleep();
        assert!(rustix::io::read(&*doorbell.fd, &mut [0; 8]).is_err() && doorbell.take());
    }
}
