//! Receive queue of an `AF_XDP` port.
//!
//! A packet stays in its UMEM frames until its burst is completed; then the frames return to the fill ring. There are
//! as many receive frames as fill ring entries.

use super::rings::{CONTINUED, Consumer, Piece, Producer};
use super::socket::{BoundSocket, Socket};
use super::umem::Umem;
use super::unfinished;
use crate::interface::Doorbell;
use crate::retain::Lender;
use crate::{BURST, Burst, BurstStats, DropReason, PortFault, RxQueue};
use mem::VolatileSlice;
use ring::BufId;
use rustix::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Minimum frame length: an Ethernet header.
const MIN_FRAME: usize = 14;

pub(super) struct Rx {
    received: Consumer<Piece>,
    fill: Producer<u64>,
    socket: Arc<Socket>,
    doorbell: Doorbell,
    umem: Arc<Umem>,
    /// Number of this queue's first frame; buffer identifiers count from it.
    first: u32,
    /// Whether received frames may have partial checksums.
    local: bool,
    /// Frames that did not fit in the fill ring. The capacity covers all frames, so pushing never allocates.
    late: Vec<u64>,
    lender: Lender,
}

impl Rx {
    /// Creates the queue, with all of its frames in the fill ring.
    pub(super) fn new(
        queue: u16,
        umem: &Arc<Umem>,
        made: BoundSocket,
        doorbell: Doorbell,
        local: bool,
    ) -> (Self, super::tx::Parts) {
        let BoundSocket { socket, received, mut fill, to_send, sent } = made;
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

    /// Returns frames to the fill ring whose retained packets were released.
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

    /// Adds a packet that occupies one frame.
    #[inline(always)]
    fn plain(&self, piece: Piece, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let frame = self.umem.received(piece.address, piece.len)?;
        frame.prefetch_read(0);
        stats.packets += 1;
        stats.bytes += u64::from(piece.len);
        if frame.len() >= MIN_FRAME {
            burst.push(self.buf_id(piece), frame);
        } else {
            stats.drop(DropReason::TooShort, 1);
            burst.give_back(self.buf_id(piece));
        }
        Ok(())
    }

    /// Adds a multi-buffer packet that starts at entry `at`. Returns its number of frames, or 0 if it does not fit in
    /// the burst or is not completely visible yet.
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

/// Sets the offloads that each packet of the burst still needs.
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
        if self.socket.must_wake_up() {
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
        // The last packet may have more fragments than the burst can still take.
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
        // The kernel may publish a received frame shortly before it releases the frame's fill ring entry. A frame
        // that does not fit in the fill ring meanwhile waits for the next burst.
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
        Ok(self.received.refresh() > 0 || self.socket.must_wake_up())
    }

    fn disable_notification(&mut self) {
        self.doorbell.disable_notification((*self.socket).as_fd());
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.as_fd())
    }

    /// The port's memory is private and never replaced.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
