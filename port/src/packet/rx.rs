//! A packet socket's receive queue.
//!
//! The kernel hands over a block of frames at a time. Frames stay where they lie until their burst is completed; when
//! all of a block's are, the block goes back to the kernel. What a frame left to be done is judged here, and a VLAN tag
//! that the kernel took out of it is put back into the burst's private copy of its head.

use super::blocks::{Blocks, Entry, put_tag};
use super::socket::Made;
use crate::{BURST, Burst, DropReason, OFFLOAD_HEADER, Offload, PortFault, RxQueue, Tally};
use mem::Seg;
use ring::Token;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Shortest frame: an Ethernet header.
const SHORTEST: u32 = 14;
/// Longest frame: 64 KiB, the largest that any offload makes.
const LONGEST: u32 = 65_550;

pub(super) struct Rx {
    blocks: Blocks,
    socket: Arc<OwnedFd>,
    /// The block that is read, or comes next.
    block: u16,
    /// Where in it the next header is, and how many there are still.
    at: u32,
    left: u32,
    /// For each block, how many of its frames are in bursts.
    out: Box<[u32]>,
    /// Tags to put back: which packet, and what.
    tags: Vec<(u8, (u16, u16))>,
}

impl Rx {
    pub(super) fn new(made: Made) -> Self {
        let out = vec![0; usize::from(made.blocks.count())].into();
        let tags = Vec::with_capacity(BURST);
        Self { blocks: made.blocks, socket: made.socket, block: 0, at: 0, left: 0, out, tags }
    }

    /// Opens the next block, if the kernel has handed it over.
    #[inline]
    fn open(&mut self) -> bool {
        while self.left == 0 {
            if !self.blocks.is_ours(self.block) || self.out[usize::from(self.block)] > 0 {
                return false;
            }
            (self.left, self.at) = self.blocks.contents(self.block);
            if self.left == 0 {
                // A patience that ended without a frame.
                self.close();
            }
        }
        true
    }

    /// Goes on to the block behind this one, of which every frame is in a burst or done with.
    fn close(&mut self) {
        if self.out[usize::from(self.block)] == 0 {
            self.blocks.give_back(self.block);
        }
        self.block = if self.block + 1 == self.blocks.count() { 0 } else { self.block + 1 };
    }

    /// Takes the frame behind the header at `self.at`.
    #[inline(always)]
    fn take(&mut self, burst: &mut Burst, tally: &mut Tally) -> Result<(), PortFault> {
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
        tally.packets += 1;
        tally.bytes += u64::from(entry.len);
        match judge(entry, header) {
            Ok(offload) => self.push(burst, frame, offload, entry.tag),
            Err(reason) => {
                tally.drop(reason, 1);
                burst.give_back(token(block));
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
    fn push(&mut self, burst: &mut Burst, frame: Seg, offload: Offload, tag: Option<(u16, u16)>) {
        let i = burst.len();
        burst.push(token(self.block), frame);
        burst.set_offload(i, offload);
        if let Some(tag) = tag {
            self.tags.push((i as u8, tag));
        }
    }

    #[cold]
    fn put_tags(&mut self, burst: &mut Burst) {
        mem::with_kernel!(mem::copy::chosen(), K => burst.load_heads::<K>());
        for (i, tag) in self.tags.drain(..) {
            // A frame as it came has all of its headroom.
            if burst.grow_head(usize::from(i), 4) {
                put_tag(burst.head_mut(usize::from(i)), tag);
            }
        }
    }
}

/// What is left to be done, or why the frame cannot be carried.
#[inline(always)]
fn judge(entry: Entry, header: [u8; OFFLOAD_HEADER]) -> Result<Offload, DropReason> {
    if entry.len < SHORTEST {
        return Err(DropReason::TooShort);
    }
    if entry.len > LONGEST || entry.here < entry.len {
        return Err(DropReason::TooLong);
    }
    Offload::judge(header, entry.len as usize).map_err(|_| DropReason::BadOffload)
}

fn token(block: u16) -> Token {
    Token { id: block, slots: 1 }
}

#[cold]
fn outside() -> PortFault {
    PortFault::Interface("the kernel named a frame outside of its block".to_owned())
}

impl RxQueue for Rx {
    fn prefetch(&self) {
        self.blocks.prefetch(self.block, if self.left > 0 { self.at } else { 0 });
    }

    fn rx(&mut self, burst: &mut Burst, tally: &mut Tally) -> Result<(), PortFault> {
        if !self.open() {
            return Ok(());
        }
        burst.pin(self.blocks.map());
        while burst.room() > 0 && self.open() {
            self.take(burst, tally)?;
        }
        if !self.tags.is_empty() {
            self.put_tags(burst);
        }
        Ok(())
    }

    fn complete(&mut self, burst: &Burst) {
        for token in burst.tokens() {
            let out = &mut self.out[usize::from(token.id)];
            *out -= 1;
            if *out == 0 && (token.id != self.block || self.left == 0) {
                self.blocks.give_back(token.id);
            }
        }
    }

    fn notify(&mut self) {}

    fn arm(&mut self) -> Result<bool, PortFault> {
        // An interface that was brought down is reported as an error, once, and until it is taken the descriptor stays
        // readable. When it is up again the socket goes on; when it is gone somebody else finds out.
        let _ = rustix::net::sockopt::socket_error(&self.socket);
        Ok(self.left > 0 || self.blocks.is_ours(self.block))
    }

    fn disarm(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some((*self.socket).as_fd())
    }

    /// The blocks stay as they are.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    /// Each opening begins with a fresh ring, so nobody asks where an old one stopped.
    fn base(&self) -> u32 {
        0
    }
}
