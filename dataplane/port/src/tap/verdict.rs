//! Classification of system call errors: affects the packet, the queue, or the port.

use crate::{DropReason, PortFault};
use rustix::io::Errno;

/// Meaning of a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No space now.
    Full,
    /// This packet is lost; the next may succeed.
    Lost(DropReason),
    /// The interface no longer exists.
    Gone,
}

impl Verdict {
    #[cold]
    pub(super) fn of(errno: Errno) -> Self {
        match errno {
            // EINTR counts as full: the caller retries.
            Errno::AGAIN | Errno::INTR => Self::Full,
            Errno::BADFD | Errno::BADF | Errno::NODEV | Errno::NXIO => Self::Gone,
            // EIO means that the interface is down.
            Errno::IO | Errno::NETDOWN => Self::Lost(DropReason::PortDown),
            Errno::NOMEM | Errno::NOBUFS => Self::Lost(DropReason::QueueFull),
            // EFAULT: source memory was lost. EINVAL: header and packet are inconsistent.
            _ => Self::Lost(DropReason::Refused),
        }
    }
}

/// Port fault for an interface that is gone.
#[cold]
pub(super) fn gone(errno: Errno) -> PortFault {
    PortFault::Interface(match errno {
        Errno::BADFD => "it was deleted".to_owned(),
        errno => errno.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_removed_interface_stops_the_port() {
        assert_eq!(Verdict::of(Errno::AGAIN), Verdict::Full);
        assert_eq!(Verdict::of(Errno::BADFD), Verdict::Gone);
        assert_eq!(Verdict::of(Errno::IO), Verdict::Lost(DropReason::PortDown));
        for errno in [Errno::FAULT, Errno::INVAL, Errno::MSGSIZE, Errno::from_raw_os_error(4000)] {
            assert_eq!(Verdict::of(errno), Verdict::Lost(DropReason::Refused), "{errno}");
        }
        assert!(gone(Errno::BADFD).to_string().contains("deleted"));
    }
}
