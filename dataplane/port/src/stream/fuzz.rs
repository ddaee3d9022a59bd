//! Fuzzing of the receive queue with arbitrary bytes in arbitrary pieces.
//!
//! A script is written to the queue's socket while bursts are received and completed. Frames are compared with a simple
//! parse of the same bytes when their burst is completed, so that overwritten frames are detected.

use super::connection::{Connection, Doorbell};
use super::frames::{MAX_FRAME, MIN_FRAME, PREFIX};
use super::rx::Rx;
use crate::{Burst, BurstStats, DropReason, RxQueue};
use mem::copy::Portable;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs a script.
///
/// # Panics
/// If a frame differs from the sent one, or a count is wrong.
pub fn fuzz_peer(script: &[u8]) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let (Ok((ours, theirs)), Ok(doorbell)) = (pair, Doorbell::new()) else { return };
    let Ok(queue) = Rx::new(Arc::new(Connection::new(ours, doorbell)), &[]) else { return };
    let spare = vec![Burst::new(), Burst::new(), Burst::new()];
    let mut peer = FuzzPeer { queue, peer: theirs, sent: Vec::new(), told: 0, spare, out: VecDeque::new() };
    let mut script = Script(script);
    while !script.0.is_empty() {
        let continues = match script.byte() & 3 {
            0 => peer.send(script.bytes()),
            1 => peer.send(&frame(script.number())),
            2 => peer.receive(),
            _ => {
                peer.complete();
                true
            }
        };
        if !continues {
            while peer.complete() {}
            return;
        }
    }
    peer.drain();
}

/// A frame of `len` bytes after its length prefix; may be an invalid frame.
fn frame(len: usize) -> Vec<u8> {
    let bytes = (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(len as u8));
    (len as u32).to_be_bytes().into_iter().chain(bytes).collect()
}

struct FuzzPeer {
    queue: Rx,
    peer: OwnedFd,
    /// All bytes sent by the peer, and the number of bytes already parsed as frames.
    sent: Vec<u8>,
    told: usize,
    spare: Vec<Burst>,
    /// Bursts in flight, with their expected frames.
    out: VecDeque<(Burst, Vec<Vec<u8>>)>,
}

impl FuzzPeer {
    /// Sends as much as fits.
    fn send(&mut self, bytes: &[u8]) -> bool {
        let n = rustix::io::write(&self.peer, bytes).unwrap_or(0);
        self.sent.extend_from_slice(&bytes[..n]);
        true
    }

    /// Next frame by a simple parse; `Err` if its length is invalid.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let rest = &self.sent[self.told..];
        let Some((prefix, behind)) = rest.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > MAX_FRAME {
            return Err(());
        }
        let frame = behind.get(..len).map(<[u8]>::to_vec);
        if frame.is_some() {
            self.told += PREFIX + len;
        }
        Ok(frame)
    }

    fn receive(&mut self) -> bool {
        let Some(mut burst) = self.spare.pop() else { return true };
        let mut stats = BurstStats::default();
        burst.begin(0);
        let taken = self.queue.rx(&mut burst, &mut stats);
        let all: Vec<_> = (0..stats.packets).filter_map(|_| self.next().ok().flatten()).collect();
        assert_eq!(all.len() as u64, stats.packets);
        assert_eq!(stats.bytes, all.iter().map(|frame| frame.len() as u64).sum::<u64>());
        let frames: Vec<_> = all.into_iter().filter(|frame| frame.len() >= MIN_FRAME).collect();
        assert_eq!(burst.len(), frames.len());
        assert_eq!(stats.packets, burst.len() as u64 + stats.drops[DropReason::TooShort as usize]);
        assert_eq!(stats.packets as usize, burst.buf_ids().len());
        if burst.buf_ids().is_empty() {
            self.spare.push(burst);
        } else {
            self.out.push_back((burst, frames));
        }
        if taken.is_err() {
            assert_eq!(self.next(), Err(()), "only an impossible length is a fault");
        }
        taken.is_ok()
    }

    /// Checks that all complete frames are received.
    fn drain(&mut self) {
        loop {
            while self.complete() {}
            let told = self.told;
            if !self.receive() {
                break;
            }
            if self.told == told {
                assert!(!matches!(self.next(), Ok(Some(_))), "a frame was kept back");
                break;
            }
        }
        while self.complete() {}
    }

    /// Completes the oldest burst. Returns whether there was one.
    fn complete(&mut self) -> bool {
        let Some((mut burst, frames)) = self.out.pop_front() else { return false };
        burst.load_heads::<Portable>();
        for (i, expected) in frames.iter().enumerate() {
            let mut found = vec![0; burst.frame_len(i)];
            assert_eq!(burst.frame(i).copy_to::<Portable>(&mut found), expected.len());
            assert!(found == *expected, "frame {i} of {} bytes has changed", expected.len());
        }
        self.queue.complete(burst.buf_ids());
        self.spare.push(burst);
        true
    }
}

struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Usually the length of an ordinary frame, sometimes any length.
    fn number(&mut self) -> usize {
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        if self.byte() < 200 { number % 1600 } else { number + 64 }
    }

    fn bytes(&mut self) -> &'a [u8] {
        let n = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        bytes
    }
}
