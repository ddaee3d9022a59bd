//! How a sender wakes a receiver that sleeps. The protocol is in the module above.

use mem::line::Padded;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

#[derive(Debug)]
pub(super) struct Alarm {
    asleep: Padded<AtomicBool>,
    bell: OwnedFd,
}

impl Alarm {
    pub(super) fn new() -> std::io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { asleep: Padded(AtomicBool::new(false)), bell })
    }

    /// The receiver's: wants to be rung. It looks at the ring after this.
    pub(super) fn set(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        // Orders the store before the look at the ring; pairs with the fence before `ring`.
        fence(Ordering::SeqCst);
    }

    /// The receiver's: it is awake.
    pub(super) fn stop(&self) {
        if !self.asleep.swap(false, Ordering::Relaxed) {
            // Rung, or about to be; nothing there yet is a wake-up too many later.
            let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        }
    }

    /// The sender's, after a sequentially consistent fence behind what it published.
    #[inline]
    pub(super) fn ring(&self) {
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // A full counter is a wake-up that is already pending.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
