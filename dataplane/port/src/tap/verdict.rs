//! What an error of one packet's system call means: for that packet, for the queue, or for the port.

use crate::{DropReason, PortFault};
use rustix::io::Errno;

/// What a failed write means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is no room now.
    Full,
    /// This packet is lost, and the next one may not be.
    Lost(DropReason),
    /// There is no interface any more.
    Gone,
}

impl Verdict {
    #[cold]
    pub(super) fn of(errno: Errno) -> Self {
        match errno {
            // Interrupted is as good as full: whoever waits tries again.
            Errno::AGAIN | Errno::INTR => Self::Full,
            Errno::BADFD | Errno::BADF | Errno::NODEV | Errno::NXIO => Self::Gone,
            // The kernel's word for an interface that is down.
            Errno::IO | Errno::NETDOWN => Self::Lost(DropReason::PortDown),
            Errno::NOMEM | Errno::NOBUFS => Self::Lost(DropReason::QueueFull),
            // EFAULT where the source's memory has gone, EINVAL where header and packet contradict each other.
            _ => Self::Lost(DropReason::Refused),
        }
    }
}

/// The fault of a port whose interface does not answer as one.
#[cold]
pub(super) fn gone(errno: Errno) -> PortFault {
    PortFault::Interface(match errno {
        Errno::BADFD => "it was deleted".to_owned(),
        errno => format!("the kernel says: {errno}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interface_that_is_gone_costs_more_than_a_packet() {
        assert_eq!(Verdict::of(Errno::AGAIN), Verdict::Full);
        assert_eq!(Verdict::of(Errno::BADFD), Verdict::Gone);
        assert_eq!(Verdict::of(Errno::IO), Verdict::Lost(DropReason::PortDown));
        for errno in [Errno::FAULT, Errno::INVAL, Errno::MSGSIZE, Errno::from_raw_os_error(4000)] {
            assert_eq!(Verdict::of(errno), Verdict::Lost(DropReason::Refused), "{errno}");
        }
        assert!(gone(Errno::BADFD).to_string().contains("deleted"));
    }
}
