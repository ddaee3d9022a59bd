//! Sleep of an idle worker: on the kicks of its queues and on its doorbell.

use crate::link::Doorbell;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// An epoll set over the kicks of one worker's queues.
pub(crate) struct Sleeper {
    set: OwnedFd,
    doorbell: Doorbell,
}

impl Sleeper {
    pub(crate) fn new(doorbell: Doorbell) -> std::io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, doorbell.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { set, doorbell })
    }

    /// Adds a kick. A queue without one keeps its worker awake.
    pub(crate) fn watch(&self, kick: Option<BorrowedFd<'_>>) {
        if let Some(kick) = kick {
            // Fails only for a descriptor that epoll does not support; the control side accepts only eventfds.
            let _ = epoll::add(&self.set, kick, epoll::EventData::new_u64(1), epoll::EventFlags::IN);
        }
    }

    /// Removes a kick.
    pub(crate) fn forget(&self, kick: Option<BorrowedFd<'_>>) {
        if let Some(kick) = kick {
            // Fails if the descriptor is not in the set, which is the intended state.
            let _ = epoll::delete(&self.set, kick);
        }
    }

    /// Sleeps until a kick or the doorbell, at most for `limit`.
    pub(crate) fn sleep(&mut self, limit: Option<Duration>) {
        let mut events = Vec::with_capacity(1);
        let limit = limit.map(timespec);
        // An interrupted sleep counts as a wake-up.
        let _ = epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), limit.as_ref());
        self.clear();
    }

    /// Readable after a kick or the doorbell, for a thread that sleeps for several workers.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Clears the doorbell.
    pub(crate) fn clear(&self) {
        self.doorbell.clear();
    }
}

/// Converts a sleep limit for the kernel.
pub(crate) fn timespec(limit: Duration) -> Timespec {
    // A limit beyond the kernel's range is unlimited in practice.
    Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}
