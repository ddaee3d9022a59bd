//! A memif client whose rings the program writes itself, entry by entry: a peer for tests of servers, and no port of the
//! switch. What it writes is checked to lie in its rings, and otherwise goes to the server as it is.

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

/// One connection with a ring each way.
#[derive(Debug)]
pub struct RawClient {
    link: Link,
    /// The ring by which the client sends.
    pub to_server: RawRing,
    /// The ring by which it receives.
    pub to_client: RawRing,
}

/// An entry of a ring, as the server is to read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEntry {
    /// Region of the buffer.
    pub region: u16,
    /// Its first byte there.
    pub offset: u32,
    /// Its bytes.
    pub len: u32,
    /// Whether the frame goes on in the next entry.
    pub next: bool,
}

/// A ring with a buffer for each entry.
#[derive(Debug)]
pub struct RawRing {
    queue: Queue<Own>,
    /// By entry, where its buffer lies.
    offsets: Vec<u32>,
}

impl RawClient {
    /// Connects to the server that listens at `path`. `timeout` bounds each of its answers.
    ///
    /// # Errors
    /// As [`super::Endpoint::attach`].
    pub fn attach(path: impl AsRef<Path>, options: Options, timeout: Duration) -> Result<Self, AttachError> {
        let (link, rings) = attach(path.as_ref(), options, timeout)?;
        let Rings::Client(rx, tx) = rings else { return Err(AttachError::Closed) };
        let first =
            |queues: Vec<Queue<Own>>| queues.into_iter().next().map(RawRing::new).ok_or(AttachError::Closed);
        Ok(Self { link, to_server: first(tx)?, to_client: first(rx)? })
    }

    /// Whether the server is still there.
    ///
    /// # Errors
    /// It closed the connection, or broke the protocol.
    pub fn look(&mut self) -> Result<(), AttachError> {
        Ok(self.link.advance().map(|_| ())?)
    }
}

impl RawRing {
    fn new(queue: Queue<Own>) -> Self {
        let offsets = (0..queue.ring.size()).map(|slot| queue.ring.offset(slot)).collect();
        Self { queue, offsets }
    }

    /// Entries.
    pub fn size(&self) -> u16 {
        self.queue.ring.size()
    }

    /// Bytes of each buffer.
    pub fn room(&self) -> u32 {
        self.queue.buffers.room()
    }

    /// The index that the server advances.
    pub fn theirs(&self) -> u16 {
        self.queue.ring.theirs::<Client>()
    }

    /// Sets the index that the client advances.
    pub fn publish(&self, at: u16) {
        self.queue.ring.publish::<Client>(at);
    }

    /// Wakes the server if it sleeps.
    pub fn wake(&self) {
        // Orders our index before our look at the receiver's flags.
        fence(Ordering::SeqCst);
        if self.queue.ring.wants_interrupt() {
            signal(self.queue.wake.as_fd());
        }
    }

    /// Where the buffer of the entry at `at` lies in region 0.
    pub fn offset(&self, at: u16) -> u32 {
        self.offsets[usize::from(self.queue.ring.slot(at))]
    }

    /// Writes the entry at `at`.
    pub fn describe(&self, at: u16, entry: RawEntry) {
        let word = Word::new(entry.region, entry.len).and_next(entry.next);
        self.queue.ring.set_word(at, word);
        self.queue.ring.set_offset(at, entry.offset);
    }

    /// Writes `bytes` to the front of the buffer of the entry at `at`, as many as it holds.
    pub fn fill(&self, at: u16, bytes: &[u8]) {
        ring::copy_in::<Portable>(
            self.queue.ring.map(),
            self.queue.buffers.whole(&self.queue.ring, at),
            bytes,
        );
    }
}
