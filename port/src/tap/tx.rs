//! A TAP's transmit queue with plain system calls: one `writev` per packet, straight from its source's memory.
//!
//! The kernel takes packets in on the spot, so there is nothing to publish and nobody to wake. Several workers may write
//! to one descriptor; where there are more, each worker has its own whatever the pair, and so the kernel's answers of a
//! flow come to the worker that the flow went through.

use super::slots::LONGEST;
use super::sys;
use super::verdict::{Verdict, gone};
use crate::{Burst, Capabilities, Frame, PortFault, Tally, TxQueue};
use mem::copy::Kernel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Result as Written;
use std::marker::PhantomData;
use std::sync::Arc;

/// A queue for the first worker.
pub(super) fn start(queues: &Arc<[OwnedFd]>, capabilities: Capabilities) -> Box<dyn TxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => {
        Box::new(Tx::<K>::new(queues.clone(), 0, capabilities)) as Box<dyn TxQueue>
    })
}

struct Tx<K> {
    queues: Arc<[OwnedFd]>,
    /// Which worker's handle it is, in the order in which they were made.
    number: usize,
    handles: usize,
    capabilities: Capabilities,
    gathered: Gathered<K>,
}

impl<K: Kernel> Tx<K> {
    fn new(queues: Arc<[OwnedFd]>, number: usize, capabilities: Capabilities) -> Self {
        Self { queues, number, handles: number + 1, capabilities, gathered: Gathered::new() }
    }
}

impl<K: Kernel> TxQueue for Tx<K> {
    fn tx(&mut self, burst: &Burst, picks: &[u8], tally: &mut Tally) -> Result<usize, PortFault> {
        let tun = self.queues[self.number % self.queues.len()].as_fd();
        for (done, &pick) in picks.iter().enumerate() {
            let (frame, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            match self.gathered.write(tun, &frame, len) {
                Ok(()) => {
                    tally.packets += 1;
                    tally.bytes += len as u64;
                }
                Err(errno) => match Verdict::of(errno) {
                    Verdict::Full => return Ok(done),
                    Verdict::Lost(reason) => tally.drop(reason, 1),
                    Verdict::Gone => return Err(gone(errno)),
                },
            }
        }
        Ok(picks.len())
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The kernel has them already.
    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        let number = self.handles;
        self.handles += 1;
        Box::new(Self::new(self.queues.clone(), number, self.capabilities))
    }

    /// Sources' memory is pinned by bursts and not by queues.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    /// Nobody asks where an interface stopped.
    fn base(&self) -> u32 {
        0
    }
}

/// Room to put together a packet in more pieces than a system call is given. Only a guest that cuts its packets small
/// makes any, so this is the one copy of ours, and the kernel's limit of pieces is never met.
pub(super) struct Gathered<K> {
    room: Box<[u8]>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> Gathered<K> {
    pub(super) fn new() -> Self {
        Self { room: vec![0; LONGEST + crate::HEAD].into(), kernel: PhantomData }
    }

    /// Writes a packet of `len` bytes.
    #[inline(always)]
    pub(super) fn write(&mut self, tun: BorrowedFd<'_>, frame: &Frame<'_>, len: usize) -> Written<()> {
        let header = frame.offload.header(frame.head);
        sys::write(tun, &header, frame).unwrap_or_else(|| self.write_copy(tun, frame, len))
    }

    #[cold]
    pub(super) fn write_copy(&mut self, tun: BorrowedFd<'_>, frame: &Frame<'_>, len: usize) -> Written<()> {
        let header = frame.offload.header(frame.head);
        if len > self.room.len() {
            return Err(rustix::io::Errno::MSGSIZE);
        }
        let n = frame.copy_to::<K>(&mut self.room);
        sys::write_bytes(tun, &header, &self.room[..n])
    }
}
