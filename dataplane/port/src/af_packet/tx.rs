//! A packet socket's transmit queue: one system call for a burst, which reads each packet from where it lies in its
//! source's memory.
//!
//! There is nothing to share between workers but the descriptor, and the kernel takes care of that. Why no transmit
//! ring: `docs/decisions/0036-packet-sockets.md`.

use super::sys::Messages;
use crate::{Burst, BurstStats, Capabilities, DropReason, PortFault, TxQueue};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

pub(super) struct Tx {
    socket: Arc<OwnedFd>,
    messages: Messages,
}

impl Tx {
    pub(super) fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket, messages: Messages::new() }
    }
}

/// Whether the kernel may take the same packet later.
fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::NOBUFS | Errno::INTR)
}

/// Why the kernel takes one packet never, where others may go.
fn reason(errno: Errno) -> DropReason {
    match errno {
        Errno::MSGSIZE => DropReason::BufferTooSmall,
        Errno::INVAL => DropReason::BadOffload,
        // Down, or gone.
        _ => DropReason::PortDown,
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let mut done = 0;
        while done < indices.len() {
            match self.messages.send(self.socket.as_fd(), burst, &indices[done..]) {
                Ok(sent) => {
                    let bytes = |pick: &u8| burst.frame_len(usize::from(*pick)) as u64;
                    stats.packets += sent as u64;
                    stats.bytes += indices[done..done + sent].iter().map(bytes).sum::<u64>();
                    done += sent;
                }
                Err(errno) if is_full(errno) => break,
                Err(errno) => {
                    stats.drop(reason(errno), 1);
                    done += 1;
                }
            }
        }
        Ok(done)
    }

    /// The kernel sums and cuts where the interface does not. Cutting UDP needs Linux 6.2.
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self::new(self.socket.clone()))
    }

    /// Nothing of other parties' memory is kept.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
