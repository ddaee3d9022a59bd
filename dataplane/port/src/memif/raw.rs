//! A memif client whose program writes ring entries itself: a peer for tests of servers, not a port of the switch.
//! Positions are checked to be inside the rings; values are passed to the server unchanged.

use super::buffers::Own;
use super::endpoint::{AttachError, attach};
use super::link::Link;
use super::options::Options;
use super::queue::{Queue, Rings};
use super::ring::{self, Client, Word};
use crate::eventfd::signal;
use mem::copy::Portable;
use rustix::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// One connection with one ring in each direction.
#[derive(Debug)]
pub struct RawClient {
    link: Link,
    /// Ring from client to server.
    pub to_server: RawRing,
    /// Ring from server to client.
    pub to_client: RawRing,
}

/// A ring entry to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEntry {
    /// Region of the buffer.
    pub region: u16,
    /// Offset of the buffer in its region.
    pub offset: u32,
    /// Length of the data.
    pub len: u32,
    /// Whether the frame continues in the next entry.
    pub next: bool,
}

/// A ring with a buffer for each entry.
#[derive(Debug)]
pub struct RawRing {
    queue: Queue<Own>,
    /// Offset of each entry's buffer.
    offsets: Vec<u32>,
}

impl RawClient {
    /// Connects to the server that listens at `path`. `timeout` bounds the wait for each reply.
    ///
    /// # Errors
    /// Like [`super::Endpoint::attach`].
    pub fn attach(path: impl AsRef<Path>, options: Options, timeout: Duration) -> Result<Self, AttachError> {
        let (link, rings) = attach(path.as_ref(), options, timeout)?;
        let Rings::Client(rx, tx) = rings else { return Err(AttachError::Closed) };
        let first =
            |queues: Vec<Queue<Own>>| queues.into_iter().next().map(RawRing::new).ok_or(AttachError::Closed);
        Ok(Self { link, to_server: first(tx)?, to_client: first(rx)? })
    }

    /// Checks whether the server is still connected.
    ///
    /// # Errors
    /// The server closed the connection or violated the protocol.
    pub fn look(&mut self) -> Result<(), AttachError> {
        Ok(self.link.advance().map(|_| ())?)
    }
}

impl RawRing {
    fn new(queue: Queue<Own>) -> Self {
        let offsets = (0..queue.ring.size()).map(|slot| queue.ring.offset(slot)).collect();
        Self { queue, offsets }
    }

    /// Ring size.
    pub fn size(&self) -> u16 {
        self.queue.ring.size()
    }

    /// Size of each buffer in bytes.
    pub fn room(&self) -> u32 {
        self.queue.buffers.room()
    }

    /// The index that the server advances.
    pub fn theirs(&self) -> u16 {
        self.queue.ring.theirs::<Client>()
    }

    /// Publishes the index that the client advances.
    pub fn publish(&self, at: u16) {
        self.queue.ring.publish::<Client>(at);
    }

    /// Wakes the server if it has enabled notifications.
    pub fn wake(&self) {
        // Orders the store of the index before the load of the receiver's flags.
        fence(Ordering::SeqCst);
        if self.queue.ring.wants_interrupt() {
            signal(self.queue.wake.as_fd());
        }
    }

    /// Offset in region 0 of the buffer of the entry at `at`.
    pub fn offset(&self, at: u16) -> u32 {
        self.offsets[usize::from(self.queue.ring.slot(at))]
    }

    /// Writes the entry at `at`.
    pub fn describe(&self, at: u16, entry: RawEntry) {
        let word = Word::new(entry.region, entry.len).and_next(entry.next);
        self.queue.ring.set_word(at, word);
        self.queue.ring.set_offset(at, entry.offset);
    }

    /// Writes `bytes` to the buffer of the entry at `at`, truncated to its size.
    pub fn fill(&self, at: u16, bytes: &[u8]) {
        ring::copy_in::<Portable>(
            self.queue.ring.map(),
            self.queue.buffers.whole(&self.queue.ring, at),
            bytes,
        );
    }
}
