//! Eventfds: call (to the guest) and kick (from the guest).
//!
//! The control thread checks both and makes them non-blocking, but the front end shares the file description and can
//! make it blocking again at any time. Workers must not block on it, so neither function relies on that flag: a kick is
//! read with a non-blocking read, and a call uses a signal that never blocks. Calls are not lost: a full counter is a
//! pending call.

mod signal;

pub use signal::{prepare, signal};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, IoSliceMut, ReadWriteFlags};
use std::os::fd::AsRawFd;

/// Offset for `preadv2` that means "no offset", as required for descriptors without a position.
const NO_OFFSET: u64 = u64::MAX;

/// Signals the call eventfd, if there is one.
pub(crate) fn call(fd: Option<&OwnedFd>) {
    if let Some(fd) = fd {
        signal(fd.as_fd());
    }
}

/// Clears a pending kick, so that the next one is detected.
pub fn clear(fd: &impl AsFd) {
    let mut count = [0; 8];
    let taken =
        rustix::io::preadv2(fd, &mut [IoSliceMut::new(&mut count)], NO_OFFSET, ReadWriteFlags::NOWAIT);
    // No pending kick is not an error. On a kernel that does not support the flag for eventfds, the kick stays pending
    // and causes one spurious wake-up.
    debug_assert!(matches!(taken, Ok(8) | Err(Errno::AGAIN | Errno::OPNOTSUPP)), "{taken:?}");
}

/// Checks that `fd` is an eventfd and makes it non-blocking. A pipe or a socket could block a worker.
pub(crate) fn check(fd: &OwnedFd) -> Result<(), String> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let target = std::fs::read_link(link).map_err(|e| format!("its kind is unknown, because {e}"))?;
    if target.as_os_str() != "anon_inode:[eventfd]" {
        return Err(format!("it is {} and not an eventfd", target.display()));
    }
    let flags = rustix::fs::fcntl_getfl(fd).map_err(|e| e.to_string())?;
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn clear_does_not_block_on_a_blocking_eventfd() {
        let kick = eventfd(1, EventfdFlags::empty()).unwrap();
        clear(&kick);
        // Would block if `clear` relied on the descriptor flag.
        clear(&kick);
        rustix::fs::fcntl_setfl(&kick, rustix::fs::OFlags::NONBLOCK).unwrap();
        assert_eq!(rustix::io::read(&kick, &mut [0u8; 8]), Err(Errno::AGAIN), "the kick was taken");
    }

    #[test]
    fn call_does_not_block_on_a_full_counter() {
        let full = eventfd(0, EventfdFlags::empty()).unwrap();
        rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        call(Some(&full));
        let mut count = [0u8; 8];
        rustix::io::read(&full, &mut count).unwrap();
        assert!(u64::from_ne_bytes(count) >= u64::MAX - 1, "it is as full as it was");
    }
}
