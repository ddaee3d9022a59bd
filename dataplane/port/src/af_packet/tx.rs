//! Transmit queue of an `AF_PACKET` port: one system call per burst, which reads each packet in place from its
//! source's memory.
//!
//! Workers share only the descriptor, which the kernel synchronizes. Why there is no transmit ring:
//! `docs/decisions/0036-packet-sockets.md`.

use super::sys::Messages;
use crate::interface::LinkState;
use crate::{Burst, BurstStats, Capabilities, DropReason, PortFault, TxQueue};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

pub(super) struct Tx {
    socket: Arc<OwnedFd>,
    link: LinkState,
    messages: Messages,
}

impl Tx {
    pub(super) fn new(socket: Arc<OwnedFd>, link: LinkState) -> Self {
        Self { socket, link, messages: Messages::new() }
    }
}

/// Whether the kernel may accept the same packet later.
fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::NOBUFS | Errno::INTR)
}

/// Drop reason for a packet that the kernel will never accept.
fn reason(errno: Errno) -> DropReason {
    match errno {
        Errno::MSGSIZE => DropReason::BufferTooSmall,
        Errno::INVAL => DropReason::BadOffload,
        // The interface is down or removed.
        _ => DropReason::PortDown,
    }
}

impl TxQueue for Tx {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        if self.link.loses(indices.len(), stats) {
            return Ok(indices.len());
        }
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

    /// The kernel completes offloads that the interface does not support. UDP segmentation needs Linux 6.2.
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self::new(self.socket.clone(), self.link.clone()))
    }

    /// No other party's memory is kept.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
