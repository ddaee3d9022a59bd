//! Transmit queue of an `AF_XDP` port.
//!
//! A packet is copied to a free frame and the frame's address is written to the transmit ring; one system call covers
//! all packets of a round. Sent frames return through the completion ring. Free frames are used in LIFO order, to
//! keep the memory in use small.
//!
//! By default one worker owns the queue without a lock; [`TxQueue::fork`] makes it shared. Sharing workers take
//! frames under a lock, copy packets outside it, and put the frames into the ring under it. The kernel accepts frames
//! of different workers in any order, so no worker waits for another. The system call is made outside the lock,
//! except if no frame is free: then no worker could proceed anyway.

use super::rings::{CONTINUED, Consumer, Piece, Producer};
use super::socket::Socket;
use super::umem::Umem;
use crate::{BURST, Burst, BurstStats, DropReason, PortFault, TxQueue};
use mem::copy::Kernel;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum frames of one packet: the fragments of one skb (`MAX_SKB_FRAGS`, 17).
const MAX_PIECES: usize = 17;

/// Parts of a transmit queue.
pub(super) struct Parts {
    pub(super) to_send: Producer<Piece>,
    pub(super) sent: Consumer<u64>,
    pub(super) socket: Arc<Socket>,
    pub(super) umem: Arc<Umem>,
    /// Frames for transmission.
    pub(super) frames: Range<u32>,
}

/// Creates a queue over new rings and selects the copy kernel.
pub(super) fn start(parts: Parts) -> Box<dyn TxQueue> {
    mem::with_kernel!(mem::copy::chosen(), K => Box::new(Tx::<K>::new(parts)) as Box<dyn TxQueue>)
}

/// The rings, and the frames that are in none of them.
struct Core {
    to_send: Producer<Piece>,
    sent: Consumer<u64>,
    free: Vec<u32>,
}

impl Core {
    /// Reclaims sent frames.
    #[inline]
    fn reclaim(&mut self, umem: &Umem) {
        let n = self.sent.refresh();
        for i in 0..n {
            self.free.push(umem.frame_of(self.sent.peek(i)));
        }
        self.sent.release(n);
    }

    /// Tries to make `n` frames free: reclaims sent frames and, if they do not suffice, has the kernel send.
    #[inline]
    fn gather(&mut self, n: usize, umem: &Umem, socket: &Socket) {
        self.reclaim(umem);
        if self.free.len() < n && self.to_send.waiting() > 0 {
            socket.send(|| self.to_send.waiting());
            self.reclaim(umem);
        }
    }

    /// Number of packets of `each` frames that can be sent now.
    fn room(&mut self, each: usize, umem: &Umem, socket: &Socket) -> usize {
        self.gather(each, umem, socket);
        self.free.len() / each
    }

    /// Puts the frames of one packet into the ring. There are at most as many frames as entries; but while another
    /// worker has the kernel send, a frame can return through the completion ring before its ring entry is released.
    /// If the ring is full then, the frames become free again and the result is `false`.
    #[inline(always)]
    fn post(&mut self, frames: &[u32], len: usize, umem: &Umem) -> bool {
        if !self.to_send.has_room(frames.len() as u32) {
            self.free.extend_from_slice(frames);
            return false;
        }
        let (size, mut left) = (umem.frame_size() as usize, len);
        for &frame in frames {
            let here = left.min(size);
            left -= here;
            let options = if left > 0 { CONTINUED } else { 0 };
            self.to_send.put(Piece { address: umem.address(frame), len: here as u32, options });
        }
        true
    }
}

/// Ownership of the rings: exclusive or shared between workers.
enum Ownership {
    Alone(Box<Core>),
    Shared(Arc<Mutex<Core>>),
    /// Temporary state while a method works on the rings.
    Taken,
}

struct Tx<K> {
    ownership: Ownership,
    socket: Arc<Socket>,
    umem: Arc<Umem>,
    /// Whether entries were put into the ring since the last system call.
    dirty: bool,
    /// Packets to send and their numbers of frames; `frames` holds the frames of all packets in order.
    work: Vec<(u8, u8)>,
    frames: Vec<u32>,
    kernel: PhantomData<K>,
}

fn lock(common: &Mutex<Core>) -> MutexGuard<'_, Core> {
    common.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Kernel> Tx<K> {
    fn new(Parts { to_send, sent, socket, umem, frames }: Parts) -> Self {
        let core = Core { to_send, sent, free: frames.rev().collect() };
        Self::with(Ownership::Alone(Box::new(core)), socket, umem)
    }

    fn with(ownership: Ownership, socket: Arc<Socket>, umem: Arc<Umem>) -> Self {
        let frames = Vec::with_capacity(BURST * MAX_PIECES);
        Self {
            ownership,
            socket,
            umem,
            dirty: false,
            work: Vec::with_capacity(BURST),
            frames,
            kernel: PhantomData,
        }
    }

    /// Maximum frames of one packet.
    fn most_pieces(&self) -> usize {
        if self.umem.has_pieces() { MAX_PIECES } else { 1 }
    }

    /// Takes frames for as many packets as possible. Returns the number of processed indices.
    #[inline(always)]
    fn take(&mut self, core: &mut Core, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> usize {
        core.gather(indices.len(), &self.umem, &self.socket);
        let most = self.most_pieces();
        for (done, &pick) in indices.iter().enumerate() {
            let n = self.umem.frames_for(burst.frame_len(pick as usize));
            if n > most {
                stats.drop(DropReason::BufferTooSmall, 1);
                continue;
            }
            if core.free.len() < n {
                return done;
            }
            let left = core.free.len() - n;
            self.frames.extend(core.free.drain(left..));
            self.work.push((pick, n as u8));
        }
        indices.len()
    }

    /// Copies the packets to their frames, which belong to this worker alone.
    #[inline(always)]
    fn write(&mut self, burst: &Burst) {
        let mut at = 0;
        for &(pick, n) in &self.work {
            let (packet, len) = (burst.frame(pick as usize), burst.frame_len(pick as usize));
            let end = at + usize::from(n);
            if let Some(&next) = self.frames.get(end) {
                self.umem.prefetch_write(next);
            }
            self.umem.fill::<K>(&self.frames[at..end], &packet, len);
            at = end;
        }
    }

    /// Puts the packets into the ring and publishes them.
    #[inline(always)]
    fn post(&mut self, core: &mut Core, burst: &Burst, stats: &mut BurstStats) {
        self.dirty |= !self.work.is_empty();
        let mut at = 0;
        for (pick, n) in self.work.drain(..) {
            let (end, len) = (at + usize::from(n), burst.frame_len(pick as usize));
            if core.post(&self.frames[at..end], len, &self.umem) {
                stats.packets += 1;
                stats.bytes += len as u64;
            } else {
                stats.drop(DropReason::QueueFull, 1);
            }
            at = end;
        }
        self.frames.clear();
        core.to_send.publish();
    }
}

impl<K: Kernel> TxQueue for Tx<K> {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        if self.socket.link().loses(indices.len(), stats) {
            return Ok(indices.len());
        }
        let mut ownership = std::mem::replace(&mut self.ownership, Ownership::Taken);
        let done = match &mut ownership {
            Ownership::Alone(core) => {
                let done = self.take(core, burst, indices, stats);
                self.write(burst);
                self.post(core, burst, stats);
                done
            }
            Ownership::Shared(common) => {
                let done = self.take(&mut lock(common), burst, indices, stats);
                self.write(burst);
                self.post(&mut lock(common), burst, stats);
                done
            }
            Ownership::Taken => 0,
        };
        self.ownership = ownership;
        Ok(done)
    }

    /// Number of packets for which frames are free. At least 1 for packets longer than one skb and while the link is
    /// down, so that they reach `tx` and are counted as dropped.
    fn room(&mut self, len: usize) -> usize {
        let each = self.umem.frames_for(len).max(1);
        if each > self.most_pieces() || !self.socket.link().is_up() {
            return 1;
        }
        match &mut self.ownership {
            Ownership::Alone(core) => core.room(each, &self.umem, &self.socket),
            Ownership::Shared(common) => lock(common).room(each, &self.umem, &self.socket),
            Ownership::Taken => 0,
        }
    }

    fn depth(&mut self) -> Option<usize> {
        let waiting = match &mut self.ownership {
            Ownership::Alone(core) => core.to_send.waiting(),
            Ownership::Shared(common) => lock(common).to_send.waiting(),
            Ownership::Taken => return None,
        };
        Some(waiting as usize)
    }

    fn reap(&mut self) -> Result<(), PortFault> {
        match &mut self.ownership {
            Ownership::Alone(core) => core.reclaim(&self.umem),
            Ownership::Shared(common) => lock(common).reclaim(&self.umem),
            Ownership::Taken => {}
        }
        Ok(())
    }

    fn notify(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        match &mut self.ownership {
            Ownership::Alone(core) if core.to_send.wants_wakeup() => {
                self.socket.send(|| core.to_send.waiting());
            }
            Ownership::Shared(common) => {
                // The lock is not held while the kernel sends.
                let wanted = lock(common).to_send.wants_wakeup();
                if wanted {
                    self.socket.send(|| lock(common).to_send.waiting());
                }
            }
            _ => {}
        }
    }

    fn fork(&mut self) -> Box<dyn TxQueue> {
        let common = match std::mem::replace(&mut self.ownership, Ownership::Taken) {
            Ownership::Alone(core) => Some(Arc::new(Mutex::new(*core))),
            Ownership::Shared(common) => Some(common),
            Ownership::Taken => None,
        };
        let ownership = || common.clone().map_or(Ownership::Taken, Ownership::Shared);
        self.ownership = ownership();
        Box::new(Self::with(ownership(), self.socket.clone(), self.umem.clone()))
    }

    /// The port's memory is private and never replaced.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
