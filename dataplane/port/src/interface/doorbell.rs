//! Wake-up source of an idle worker, without overhead on the socket while the worker is awake.
//!
//! A polled socket wakes its waiter for each packet sent and each batch received, which takes locks in vain while the
//! worker polls. So the worker waits on its own epoll set, which contains the socket only while the worker sleeps.
//! Adding the socket checks its state, so earlier events are not missed.

use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// An epoll set with one socket or none.
#[derive(Debug)]
pub(crate) struct Doorbell {
    set: OwnedFd,
    armed: bool,
}

impl Doorbell {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { set: epoll::create(epoll::CreateFlags::CLOEXEC)?, armed: false })
    }

    /// Adds `socket`: the doorbell becomes readable when it is.
    pub(crate) fn enable_notification(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        if !self.armed {
            epoll::add(&self.set, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            self.armed = true;
        }
        Ok(())
    }

    /// Removes `socket`.
    pub(crate) fn disable_notification(&mut self, socket: BorrowedFd<'_>) {
        if std::mem::take(&mut self.armed) {
            // Fails harmlessly if the socket is not in the set.
            let _ = epoll::delete(&self.set, socket);
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

    fn is_readable(doorbell: &Doorbell) -> bool {
        poll(&mut [PollFd::new(doorbell, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }

    #[test]
    fn doorbell_rings_only_while_enabled_and_for_earlier_data() {
        let (socket, mut doorbell) = (eventfd(0, EventfdFlags::CLOEXEC).unwrap(), Doorbell::new().unwrap());
        rustix::io::write(&socket, &1_u64.to_ne_bytes()).unwrap();
        assert!(!is_readable(&doorbell));
        doorbell.enable_notification(socket.as_fd()).unwrap();
        doorbell.enable_notification(socket.as_fd()).unwrap();
        assert!(is_readable(&doorbell));
        doorbell.disable_notification(socket.as_fd());
        doorbell.disable_notification(socket.as_fd());
        assert!(!is_readable(&doorbell));
    }
}
