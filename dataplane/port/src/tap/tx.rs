//! TAP transmit queue: one `writev` per packet, directly from its source's memory, or a burst at a time through
//! `io_uring`.
//!
//! The kernel accepts packets immediately, so nothing is published or notified. Several workers may write to one
//! descriptor; if there are several, each worker uses its own regardless of the pair, so that the kernel's replies of a
//! flow return to the same worker.

use super::options::Io;
use super::slots::MAX_FRAME;
use super::sys;
use super::uring::{Sender, unavailable};
use super::verdict::{Verdict, gone};
use crate::interface::LinkState;
use crate::{Burst, BurstStats, Capabilities, DropReason, Frame, PortFault, TxQueue};
use mem::copy::Kernel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, Result as Written};
use std::marker::PhantomData;
use std::sync::Arc;

/// Minimum number of packets for which `io_uring` is worthwhile.
const MIN_URING_PACKETS: usize = 4;

/// Creates the queue of the first worker.
pub(super) fn start(
    queues: &Arc<[OwnedFd]>,
    link: &LinkState,
    capabilities: Capabilities,
    io: Io,
) -> Result<Box<dyn TxQueue>, PortFault> {
    let sender = (io != Io::Calls).then(Sender::new).transpose().map_err(|error| unavailable(&error))?;
    let shared = Interface { queues: queues.clone(), link: link.clone(), capabilities };
    mem::with_kernel!(mem::copy::chosen(), K => {
        Ok(Box::new(Tx::<K>::new(shared, 0, sender)) as Box<dyn TxQueue>)
    })
}

/// State common to all handles.
#[derive(Clone)]
struct Interface {
    queues: Arc<[OwnedFd]>,
    link: LinkState,
    capabilities: Capabilities,
}

struct Tx<K> {
    interface: Interface,
    /// Number of this handle, in creation order.
    number: usize,
    handles: usize,
    sender: Option<Sender>,
    gathered: Gathered<K>,
}

impl<K: Kernel> Tx<K> {
    fn new(interface: Interface, number: usize, sender: Option<Sender>) -> Self {
        Self { interface, number, handles: number + 1, sender, gathered: Gathered::new() }
    }

    /// Sends one packet with one system call. Returns `false` if there is no space.
    #[inline(always)]
    fn send_one(&mut self, burst: &Burst, pick: u8, stats: &mut BurstStats) -> Result<bool, PortFault> {
        let (frame, len) = (burst.frame(pick.into()), burst.frame_len(pick.into()));
        match self.gathered.write(self.interface.tun(self.number), &frame, len) {
            Ok(()) => count(stats, len),
            Err(errno) => match Verdict::of(errno) {
                Verdict::Full => return Ok(false),
                Verdict::Lost(reason) => stats.drop(reason, 1),
                Verdict::Gone => return Err(gone(errno)),
            },
        }
        Ok(true)
    }

    /// Sends as many packets as fit in the ring with one system call; returns their number. If the kernel is full for
    /// one packet, later ones are still attempted, so that packet is lost.
    fn send_many(
        &mut self,
        burst: &Burst,
        indices: &[u8],
        stats: &mut BurstStats,
    ) -> Result<usize, PortFault> {
        let (tun, mut fault) = (self.interface.tun(self.number), None);
        let Some(sender) = &mut self.sender else { return Ok(0) };
        let sent = sender.send(tun, burst, indices, |number, result| {
            if result >= 0 {
                return count(stats, burst.frame_len(indices[number].into()));
            }
            let errno = Errno::from_raw_os_error(-result);
            match Verdict::of(errno) {
                Verdict::Full => stats.drop(DropReason::QueueFull, 1),
                Verdict::Lost(reason) => stats.drop(reason, 1),
                Verdict::Gone => fault = Some(gone(errno)),
            }
        });
        match fault {
            Some(fault) => Err(fault),
            None => sent.map_err(|error| unavailable(&error)),
        }
    }
}

fn count(stats: &mut BurstStats, len: usize) {
    stats.packets += 1;
    stats.bytes += len as u64;
}

impl Interface {
    #[inline(always)]
    fn tun(&self, number: usize) -> BorrowedFd<'_> {
        self.queues[number % self.queues.len()].as_fd()
    }
}

impl<K: Kernel> TxQueue for Tx<K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        if self.interface.link.loses(indices.len(), stats) {
            return Ok(indices.len());
        }
        let mut done = 0;
        while done < indices.len() {
            let left = &indices[done..];
            if left.len() >= MIN_URING_PACKETS && self.sender.is_some() {
                let sent = self.send_many(burst, left, stats)?;
                done += sent;
                if sent > 0 {
                    continue;
                }
            }
            if !self.send_one(burst, left[0], stats)? {
                break;
            }
            done += 1;
        }
        Ok(done)
    }

    fn capabilities(&self) -> Capabilities {
        self.interface.capabilities
    }

    /// The kernel already has the packets.
    fn notify(&mut self) {}

    /// If the kernel does not provide a ring, the handle uses one system call per packet.
    fn fork(&mut self) -> Box<dyn TxQueue> {
        let number = self.handles;
        self.handles += 1;
        let sender = self.sender.as_ref().and_then(|_| Sender::new().ok());
        Box::new(Self::new(self.interface.clone(), number, sender))
    }

    /// Source memory is pinned by bursts, not by queues.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// Copy buffer for packets with more pieces than one system call takes. Only guests that fragment their packets heavily
/// need it; the kernel's iovec limit is never reached.
pub(super) struct Gathered<K> {
    room: Box<[u8]>,
    kernel: PhantomData<K>,
}

impl<K: Kernel> Gathered<K> {
    pub(super) fn new() -> Self {
        Self { room: vec![0; MAX_FRAME + crate::HEAD].into(), kernel: PhantomData }
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
            return Err(Errno::MSGSIZE);
        }
        let n = frame.copy_to::<K>(&mut self.room);
        sys::write_bytes(tun, &header, &self.room[..n])
    }
}
