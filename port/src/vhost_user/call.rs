//! Event descriptors: the call to a guest and the kick from it.
//!
//! Both are eventfds that the control side has checked and made non-blocking. Losing a call is impossible as long
//! as the counter is not full, and a full counter is already a pending call.

use rustix::fd::{AsFd, OwnedFd};

/// Signals the guest, if it gave a descriptor.
pub(super) fn call(fd: Option<&OwnedFd>) {
    if let Some(fd) = fd {
        // The only expected error is a full counter, and then the guest has not taken the last call yet.
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

/// Takes a pending kick, so that the next one is seen.
pub(super) fn clear(fd: &impl AsFd) {
    // No pending kick is no error.
    let _ = rustix::io::read(fd, &mut [0u8; 8]);
}
