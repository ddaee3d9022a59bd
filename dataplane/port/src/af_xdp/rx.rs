//! An `AF_XDP` port's receive queue.
//!
//! A frame stays where the kernel put it until its burst is completed; then its memory goes back to the fill ring, in
//! the order in which it came. There are as many frames as the fill ring has entries.

use super::rings::{CONTINUED, Consumer, Piece, Producer};
use super::socket::{Made, Socket};
use super::umem::Umem;
use super::unfinished;
use crate::interface::Doorbell;
use crate::retain::Lender;
use crate::{BURST, Burst, BurstStats, DropReason, PortFault, RxQueue};
use mem::VolatileSlice;
use ring::BufId;
use rustix::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Shortest frame: an Ethernet header.
const SHORTEST: usize = 14;

pub(super) struct Rx {
    received: Consumer<Piece>,
    fill: Producer<u64>,
    socket: Arc<Socket>,
    doorbell: Doorbell,
    umem: Arc<Umem>,
    /// The number of this queue's first frame, from which tokens count.
    first: u32,
    /// Whether frames may come with checksums that are not finished.
    local: bool,
    /// Frames that found no place in the fill ring. There is room for all of them, so that none is allocated for.
    late: Vec<u64>,
    lender: Lender,
}

impl Rx {
    /// The queue, with all of its frames in the fill ring.
    pub(super) fn new(
        queue: u16,
        umem: &Arc<Umem>,
        made: Made,
        doorbell: Doorbell,
        local: bool,
    ) -> (Self, super::tx::Parts) {
        let Made { socket, received, mut fill, to_send, sent } = made;
        let (frames, to_send_from) = umem.frames(queue);
        let first = frames.start;
        let late = Vec::with_capacity(frames.len());
        let lender = umem.lender(frames.clone());
        for frame in frames {
            fill.put(umem.address(frame));
        }
        fill.publish();
        let parts = super::tx::Parts {
            to_send,
            sent,
            socket: socket.clone(),
            umem: umem.clone(),
            frames: to_send_from,
        };
        (Self { received, fill, socket, doorbell, umem: umem.clone(), first, local, late, lender }, parts)
    }

    #[inline(always)]
    fn give_back(&mut self, address: u64) {
        if !self.fill.put(address) {
            self.late.push(address);
        }
    }

    #[inline(always)]
    fn buf_id(&self, piece: Piece) -> BufId {
        BufId { id: (self.umem.frame_of(piece.address).wrapping_sub(self.first)) as u16, slots: 1 }
    }

    /// Takes back frames whose packets were retained and are not any more.
    #[inline(always)]
    fn collect(&mut self) {
        let Self { fill, late, umem, first, .. } = self;
        let any = self.lender.collect(|id| {
            let address = umem.address(*first + u32::from(id));
            if !fill.put(address) {
                late.push(address);
            }
        });
        if any {
            fill.publish();
        }
    }

    /// A packet in one frame.
    #[inline(always)]
    fn plain(&self, piece: Piece, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let frame = self.umem.received(piece.address, piece.len)?;
        frame.prefetch_read(0);
        stats.packets += 1;
        stats.bytes += u64::from(piece.len);
        if frame.len() >= SHORTEST {
            burst.push(self.buf_id(piece), frame);
        } else {
            stats.drop(DropReason::TooShort, 1);
            burst.give_back(self.buf_id(piece));
        }
        Ok(())
    }

    /// A packet in several frames, the first of them entry number `at`. How many there were; none where the burst has
    /// no room for all of them, or the kernel has not shown all of them.
    #[cold]
    fn pieces(
        &mut self,
        at: u32,
        n: u32,
        burst: &mut Burst,
        stats: &mut BurstStats,
    ) -> Result<u32, PortFault> {
        let more = (at..n).take_while(|&i| self.received.peek(i).options & CONTINUED != 0).count();
        let span = more as u32 + 1;
        if at + span > n {
            return Ok(0);
        }
        let mut pieces = [VolatileSlice::EMPTY; BURST];
        for (i, piece) in (at..at + span).zip(&mut pieces) {
            let entry = self.received.peek(i);
            *piece = self.umem.received(entry.address, entry.len)?;
        }
        let pieces = &pieces[..span as usize];
        stats.packets += 1;
        stats.bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        burst.push_chain(self.buf_id(self.received.peek(at)), pieces);
        for i in at + 1..at + span {
            burst.give_back(self.buf_id(self.received.peek(i)));
        }
        Ok(span)
    }
}

/// Says what is left to be done for each packet.
fn look_for_work(burst: &mut Burst) {
    mem::with_kernel!(mem::copy::chosen(), K => burst.load_heads::<K>());
    for i in 0..burst.len() {
        burst.set_offload(i, unfinished::work(burst.head(i), burst.frame_len(i)));
    }
}

impl RxQueue for Rx {
    fn prefetch(&self) {
        self.received.prefetch();
    }

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        if self.socket.is_owed() {
            self.socket.settle();
        }
        self.collect();
        if self.received.available() == 0 {
            if self.socket.polls() {
                self.socket.receive();
            }
            return Ok(());
        }
        burst.pin_own(self.umem.map(), &self.lender);
        let n = self.received.available().min(burst.buffer_room() as u32);
        // The last frame may have more pieces than there are packets left.
        let (limit, mut at) = (burst.room() as u32, 0);
        while at < n.min(limit) {
            let piece = self.received.peek(at);
            if piece.options & CONTINUED == 0 {
                self.plain(piece, burst, stats)?;
                at += 1;
            } else {
                match self.pieces(at, n, burst, stats)? {
                    0 => break,
                    span => at += span,
                }
            }
        }
        self.received.release(at);
        if self.local {
            look_for_work(burst);
        }
        Ok(())
    }

    fn complete(&mut self, buffers: &[BufId]) {
        // For a moment the kernel has shown a frame as received and has not yet shown that it took it from the fill ring.
        // A frame that finds no place then waits for the next burst.
        while let Some(&address) = self.late.last() {
            if !self.fill.put(address) {
                break;
            }
            self.late.pop();
        }
        for buf_id in buffers {
            self.give_back(self.umem.address(self.first + u32::from(buf_id.id)));
        }
        self.fill.publish();
    }

    fn notify(&mut self) {
        if self.fill.wants_wakeup() {
            self.socket.receive();
        }
    }

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        if let Some(errno) = self.socket.error() {
            return Err(PortFault::Interface(format!("its AF_XDP socket says {errno}")));
        }
        self.doorbell.enable_notification((*self.socket).as_fd()).map_err(|errno| {
            PortFault::Interface(format!("its AF_XDP socket cannot be waited for: {errno}"))
        })?;
        // No other thread would kick the transmit ring while this one sleeps.
        Ok(self.received.refresh() > 0 || self.socket.is_owed())
    }

    fn disable_notification(&mut self) {
        self.doorbell.disable_notification((*self.socket).as_fd());
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.as_fd())
    }

    /// The memory is the port's own and stays as it is.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
