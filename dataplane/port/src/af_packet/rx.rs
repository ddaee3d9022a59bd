//! Receive queue of an `AF_PACKET` port.
//!
//! The kernel passes on a block of frames at a time. Frames stay in place until their burst is completed; when all
//! frames of a block are completed, the block returns to the kernel. Offload headers are validated here. A VLAN tag
//! that the kernel removed is inserted again in the burst's private copy of the head.

use super::blocks::{Blocks, Entry, put_tag};
use super::socket::BoundSocket;
use crate::interface::Doorbell;
use crate::{BURST, Burst, BurstStats, DropReason, OFFLOAD_HEADER, Offload, PortFault, QueueState, RxQueue};
use mem::VolatileSlice;
use ring::BufId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Minimum frame length: an Ethernet header.
const MIN_FRAME: u32 = 14;
/// Maximum frame length: a packet of 64 KiB, the largest that any offload produces.
const MAX_FRAME: u32 = 65_550;

pub(super) struct Rx {
    blocks: Blocks,
    socket: Arc<OwnedFd>,
    doorbell: Doorbell,
    /// Current block, or the next one if no block is open.
    block: u16,
    /// Offset of the next header in the block, and number of frames left.
    at: u32,
    left: u32,
    /// Number of frames of each block that are in bursts.
    out: Box<[u32]>,
    /// VLAN tags to insert: packet index and tag.
    tags: Vec<(u8, (u16, u16))>,
}

impl Rx {
    /// A queue that continues from `state`.
    pub(super) fn new(made: BoundSocket, doorbell: Doorbell, state: &QueueState) -> Result<Self, PortFault> {
        let BoundSocket { blocks, socket } = made;
        let (block, at, left) = match *state {
            QueueState::Fresh => (0, 0, 0),
            QueueState::Blocks { block, at, left } if block < blocks.count() => (block, at, left),
            _ => return Err(PortFault::State("it is of a socket with fewer blocks")),
        };
        let (out, tags) = (vec![0; blocks.count().into()].into(), Vec::with_capacity(BURST));
        Ok(Self { blocks, socket, doorbell, block, at, left, out, tags })
    }

    /// Opens the next block, if the kernel has passed it on.
    #[inline]
    fn open(&mut self) -> bool {
        while self.left == 0 {
            if !self.blocks.is_ours(self.block) || self.out[usize::from(self.block)] > 0 {
                return false;
            }
            (self.left, self.at) = self.blocks.contents(self.block);
            if self.left == 0 {
                // The block timed out without a frame.
                self.close();
            }
        }
        true
    }

    /// Advances to the next block. Every frame of the current one must be in a burst or completed.
    fn close(&mut self) {
        if self.out[usize::from(self.block)] == 0 {
            self.blocks.give_back(self.block);
        }
        self.block = if self.block + 1 == self.blocks.count() { 0 } else { self.block + 1 };
    }

    /// Adds the frame of the header at `self.at` to the burst.
    #[inline(always)]
    fn take(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        let block = self.block;
        let entry = self.blocks.entry(block, self.at).ok_or_else(outside)?;
        let frame = self.blocks.frame(block, self.at, entry).ok_or_else(outside)?;
        frame.prefetch_read(0);
        let before = u64::from(self.at) + u64::from(entry.frame);
        let header: [u8; OFFLOAD_HEADER] = match before.checked_sub(OFFLOAD_HEADER as u64) {
            Some(at) => self.blocks.copy(block, at).ok_or_else(outside)?,
            None => return Err(outside()),
        };
        self.out[usize::from(block)] += 1;
        stats.packets += 1;
        stats.bytes += u64::from(entry.len);
        match validate(entry, header) {
            Ok(offload) => self.push(burst, frame, offload, entry.tag),
            Err(reason) => {
                stats.drop(reason, 1);
                burst.give_back(buf_id(block));
            }
        }
        self.left -= 1;
        self.at = self.at.wrapping_add(entry.next);
        if self.left == 0 {
            self.close();
        } else {
            self.blocks.prefetch(block, self.at);
        }
        Ok(())
    }

    #[inline(always)]
    fn push(&mut self, burst: &mut Burst, frame: VolatileSlice, offload: Offload, tag: Option<(u16, u16)>) {
        let i = burst.len();
        burst.push(buf_id(self.block), frame);
        burst.set_offload(i, offload);
        if let Some(tag) = tag {
            self.tags.push((i as u8, tag));
        }
    }

    #[cold]
    fn put_tags(&mut self, burst: &mut Burst) {
        mem::with_kernel!(mem::copy::chosen(), K => burst.load_heads::<K>());
        for (i, tag) in self.tags.drain(..) {
            // A received frame still has its full headroom.
            if burst.grow_head(usize::from(i), 4) {
                put_tag(burst.head_mut(usize::from(i)), tag);
            }
        }
    }
}

/// Offloads that the frame still needs, or the reason to drop it.
#[inline(always)]
fn validate(entry: Entry, header: [u8; OFFLOAD_HEADER]) -> Result<Offload, DropReason> {
    if entry.len < MIN_FRAME {
        return Err(DropReason::TooShort);
    }
    if entry.len > MAX_FRAME || entry.here < entry.len {
        return Err(DropReason::TooLong);
    }
    Offload::validate(header, entry.len as usize).map_err(|_| DropReason::BadOffload)
}

fn buf_id(block: u16) -> BufId {
    BufId { id: block, slots: 1 }
}

#[cold]
fn outside() -> PortFault {
    PortFault::Interface("the kernel named a frame outside of its block".to_owned())
}

impl RxQueue for Rx {
    fn prefetch(&self) {
        self.blocks.prefetch(self.block, if self.left > 0 { self.at } else { 0 });
    }

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        if !self.open() {
            return Ok(());
        }
        burst.pin(self.blocks.map());
        while burst.room() > 0 && self.open() {
            self.take(burst, stats)?;
        }
        if !self.tags.is_empty() {
            self.put_tags(burst);
        }
        Ok(())
    }

    fn complete(&mut self, buffers: &[BufId]) {
        for buf_id in buffers {
            let out = &mut self.out[usize::from(buf_id.id)];
            *out -= 1;
            if *out == 0 && (buf_id.id != self.block || self.left == 0) {
                self.blocks.give_back(buf_id.id);
            }
        }
    }

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        // The socket reports once that the interface was brought down, and stays readable until the error is read. It
        // continues when the interface is up again; the interface watch detects a removed interface.
        let _ = rustix::net::sockopt::socket_error(&self.socket);
        self.doorbell.enable_notification((*self.socket).as_fd()).map_err(|errno| {
            PortFault::Interface(format!("its packet socket cannot be waited for: {errno}"))
        })?;
        Ok(self.left > 0 || self.blocks.is_ours(self.block))
    }

    fn disable_notification(&mut self) {
        self.doorbell.disable_notification((*self.socket).as_fd());
    }

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.doorbell.as_fd())
    }

    /// The blocks are never replaced.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(self: Box<Self>) -> QueueState {
        QueueState::Blocks { block: self.block, at: self.at, left: self.left }
    }
}

#[cfg(test)]
mod tests {
    use super::super::blocks::BLOCK;
    use super::*;
    use mem::copy::Portable;
    use mem::{GuestMemory, Region};

    /// Offset from one header to the next.
    const STEP: usize = 160;
    /// Offset from a header to its frame.
    const FRAME: usize = 96;
    const USER: u32 = 1;
    const VLAN: u32 = 1 << 4;

    /// A frame for a block, as written by the kernel.
    #[derive(Clone, Copy)]
    struct Put {
        status: u32,
        len: u32,
        header: [u8; OFFLOAD_HEADER],
    }

    const PLAIN: Put = Put { status: USER, len: 60, header: [0; OFFLOAD_HEADER] };

    fn write(block: &mut [u8], frames: &[Put]) {
        let mut word = |at: usize, word: u32| block[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        word(8, USER);
        word(12, frames.len() as u32);
        word(16, 48);
        for (i, frame) in frames.iter().enumerate() {
            let at = 48 + i * STEP;
            for (offset, value) in
                [(0, STEP as u32), (12, frame.len), (16, frame.len), (20, frame.status), (32, 10)]
            {
                word(at + offset, value);
            }
        }
        for (i, frame) in frames.iter().enumerate() {
            let at = 48 + i * STEP;
            block[at + 24..at + 26].copy_from_slice(&(FRAME as u16).to_ne_bytes());
            block[at + FRAME - OFFLOAD_HEADER..at + FRAME].copy_from_slice(&frame.header);
            block[at + FRAME..at + STEP].fill(i as u8);
        }
    }

    /// A queue over four blocks. Blocks with frames are owned by the queue.
    fn queue(contents: &[&[Put]]) -> Rx {
        let mut bytes = vec![0; 4 * BLOCK as usize];
        for (block, frames) in bytes.chunks_mut(BLOCK as usize).zip(contents) {
            write(block, frames);
        }
        let region = Region::of_bytes(bytes.into()).unwrap();
        let map = Arc::new(GuestMemory::new(vec![Arc::new(region)]).unwrap());
        let socket = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let made = BoundSocket { socket: Arc::new(socket), blocks: Blocks::new(map, 4) };
        Rx::new(made, Doorbell::new().unwrap(), &QueueState::Fresh).unwrap()
    }

    /// A queue over the blocks of another one that continues from `state`.
    fn successor(rx: &Rx, state: &QueueState) -> Result<Rx, PortFault> {
        let blocks = Blocks::new(rx.blocks.map().clone(), 4);
        let made = BoundSocket { socket: rx.socket.clone(), blocks };
        Rx::new(made, Doorbell::new().unwrap(), state)
    }

    #[test]
    fn stopped_queue_is_continued_in_the_middle_of_a_block() {
        let mut rx = queue(&[&[PLAIN; 100], &[PLAIN; 70]]);
        let mut numbers = Vec::new();
        for _ in 0..3 {
            let (burst, _) = receive(&mut rx);
            numbers.extend((0..burst.len()).map(|i| burst.head(i)[0]));
            rx.complete(burst.buf_ids());
            let other = queue(&[]);
            let keep = successor(&rx, &QueueState::Fresh).unwrap();
            let state = Box::new(std::mem::replace(&mut rx, other)).freeze();
            rx = successor(&keep, &state).unwrap();
        }
        assert_eq!(numbers, (0..100).chain(0..70).collect::<Vec<_>>());
        assert!((0..4).all(|block| !rx.blocks.is_ours(block)));
        for state in [QueueState::Blocks { block: 4, at: 0, left: 0 }, QueueState::Ring { base: 0 }] {
            assert!(matches!(successor(&rx, &state), Err(PortFault::State(_))));
        }
    }

    fn receive(rx: &mut Rx) -> (Burst, BurstStats) {
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        rx.rx(&mut burst, &mut stats).unwrap();
        burst.load_heads::<Portable>();
        (burst, stats)
    }

    #[test]
    fn block_returns_after_its_last_frame_completes() {
        let mut rx = queue(&[&[PLAIN; 3], &[PLAIN; 70]]);
        let (first, stats) = receive(&mut rx);
        let (second, _) = receive(&mut rx);
        assert_eq!((first.len(), second.len(), stats.packets, stats.bytes), (64, 9, 64, 64 * 60));
        assert_eq!(receive(&mut rx).0.len(), 0);
        assert!(rx.blocks.is_ours(0) && rx.blocks.is_ours(1));
        rx.complete(first.buf_ids());
        assert!(!rx.blocks.is_ours(0) && rx.blocks.is_ours(1), "nine of its frames are still in a burst");
        rx.complete(second.buf_ids());
        assert!(!rx.blocks.is_ours(1));
        assert_eq!(rx.enable_notification(), Ok(false));
    }

    #[test]
    fn partially_read_block_is_kept() {
        let mut rx = queue(&[&[PLAIN; 100]]);
        let (first, _) = receive(&mut rx);
        rx.complete(first.buf_ids());
        assert!(rx.blocks.is_ours(0));
        assert_eq!(rx.enable_notification(), Ok(true));
        let (second, _) = receive(&mut rx);
        assert_eq!(second.head(0)[0], 64);
        rx.complete(second.buf_ids());
        assert!(!rx.blocks.is_ours(0));
    }

    #[test]
    fn unreturned_block_is_not_read_again() {
        let mut rx = queue(&[&[PLAIN; 1], &[PLAIN; 1], &[PLAIN; 1], &[PLAIN; 1]]);
        let (burst, _) = receive(&mut rx);
        assert_eq!(burst.len(), 4);
        assert_eq!(receive(&mut rx).0.len(), 0);
        rx.complete(burst.buf_ids());
        assert!((0..4).all(|block| !rx.blocks.is_ours(block)));
    }

    #[test]
    fn stripped_tag_is_reinserted_and_moves_the_checksum() {
        let header = Offload::with_checksum(34, 16).header(&[]);
        let mut rx = queue(&[&[PLAIN, Put { status: USER | VLAN, header, ..PLAIN }]]);
        let (burst, _) = receive(&mut rx);
        assert_eq!((burst.frame_len(0), burst.frame_len(1)), (60, 64));
        assert_eq!(burst.head(1)[10..18], [1, 1, 0x81, 0, 0, 10, 1, 1]);
        assert_eq!(burst.offload(1).checksum(), Some((38, 16)));
    }

    #[test]
    fn unsupported_frames_are_counted_and_their_block_returns() {
        let bad = [1, 0, 0, 0, 0, 0, 59, 0, 0, 0];
        let frames = [Put { len: 13, ..PLAIN }, Put { header: bad, ..PLAIN }, PLAIN];
        let mut rx = queue(&[&frames]);
        let (burst, stats) = receive(&mut rx);
        assert_eq!((burst.len(), stats.packets), (1, 3));
        let lost = |reason: DropReason| stats.drops[reason as usize];
        assert_eq!((lost(DropReason::TooShort), lost(DropReason::BadOffload)), (1, 1));
        rx.complete(burst.buf_ids());
        assert!(!rx.blocks.is_ours(0));
    }

    #[test]
    fn header_pointing_outside_its_block_is_a_fault() {
        let mut rx = queue(&[&[Put { len: BLOCK, ..PLAIN }]]);
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        assert!(matches!(rx.rx(&mut burst, &mut stats), Err(PortFault::Interface(_))));
    }
}
