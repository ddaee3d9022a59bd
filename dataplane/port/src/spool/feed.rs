//! Worker end of a spool.

use super::record::{self, HEADER, MAX_LINES, MAX_PACKET};
use super::{LINE, LINES, Record};
use crate::Frame;
use mem::copy::Kernel;
use ring::spsc::{Consumer, Producer, ring};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};

pub(super) type Line = [u8; LINE];

/// Result of spooling a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spooled {
    /// Will be written to the file.
    Taken,
    /// The ring is full: the control thread is slower than the packets.
    Full,
    /// The file has ended.
    Ended,
}

/// Consumer side of a feed.
pub(super) struct Source {
    pub(super) lines: Consumer<Line>,
    /// Expires when the feed is dropped.
    pub(super) feed: Weak<()>,
}

/// State shared by all ends of a spool.
pub(super) struct Shared {
    pub(super) doorbell: Arc<OwnedFd>,
    pub(super) idle: AtomicBool,
    pub(super) ended: AtomicBool,
    /// Packets missed because their ring was full, in non-waiting mode, or after the file could not be written, by
    /// interface of the file.
    pub(super) missed: Box<[AtomicU64]>,
    pub(super) sources: Mutex<Vec<Source>>,
    /// Maximum number of bytes kept per packet.
    pub(super) snap: usize,
}

impl Shared {
    /// Counts a packet that is not written.
    pub(super) fn miss(&self, interface: u16) {
        if let Some(missed) = self.missed.get(usize::from(interface)) {
            missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn wake(&self) {
        // If the counter is full, a wake-up is pending; the eventfd is private and non-blocking.
        let _ = rustix::io::write(&*self.doorbell, &1u64.to_ne_bytes());
    }
}

/// One queue's end of a spool.
pub(crate) struct Feed {
    shared: Arc<Shared>,
    lines: Producer<Line>,
    staging: Box<[Line]>,
    /// Lines written since the last doorbell.
    unrung: usize,
    /// Whether records were published since the last `tell`.
    fresh: bool,
    _alive: Arc<()>,
}

impl Feed {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let ((lines, consumer), alive) = (ring(LINES), Arc::new(()));
        let source = Source { lines: consumer, feed: Arc::downgrade(&alive) };
        shared.sources.lock().unwrap_or_else(PoisonError::into_inner).push(source);
        let staging = vec![[0; LINE]; MAX_LINES].into();
        Self { shared, lines, staging, unrung: 0, fresh: false, _alive: alive }
    }

    /// Creates another feed of the same spool. Must not be called by a worker.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.shared.clone())
    }

    /// Spools a packet.
    #[inline]
    pub(crate) fn put<K: Kernel>(&mut self, record: &Record, frame: &Frame<'_>) -> Spooled {
        if self.shared.ended.load(Ordering::Relaxed) {
            return Spooled::Ended;
        }
        let stored = (record.len as usize).min(self.shared.snap).min(MAX_PACKET);
        let lines = record::lines(stored);
        if self.lines.room(lines) < lines {
            return Spooled::Full;
        }
        let bytes = self.staging.as_flattened_mut();
        let stored = frame.copy_to::<K>(&mut bytes[HEADER..HEADER + stored]);
        bytes[..HEADER].copy_from_slice(&record.encode(stored));
        self.lines.push_slice(&self.staging[..lines]);
        self.unrung += lines;
        self.fresh = true;
        Spooled::Taken
    }

    #[cfg(test)]
    pub(super) fn put_behind_the_end_for_tests(&mut self, record: &Record, bytes: &[u8]) {
        let mut first = [0; LINE];
        first[..HEADER].copy_from_slice(&record.encode(0));
        assert!(self.lines.room(1) >= 1 && bytes.len() == record.len as usize);
        self.lines.push_slice(&[first]);
    }

    /// [`Feed::put`] that counts failures as missed.
    #[inline]
    pub(crate) fn put_or_count<K: Kernel>(&mut self, record: &Record, frame: &Frame<'_>) {
        if self.put::<K>(record, frame) != Spooled::Taken {
            self.shared.miss(record.interface);
        }
    }

    /// Wakes the control thread if needed. Call once per burst.
    #[inline]
    pub(crate) fn notify(&mut self) {
        if !std::mem::take(&mut self.fresh) {
            return;
        }
        if self.unrung >= LINES / 4 {
            self.unrung = 0;
            return self.shared.wake();
        }
        // Orders the publishing of records before the load of `idle`; pairs with the fence in `Spool::rest`.
        fence(Ordering::SeqCst);
        if self.shared.idle.load(Ordering::Relaxed) && self.shared.idle.swap(false, Ordering::Relaxed) {
            self.shared.wake();
        }
    }

    /// Wakes the control thread unconditionally, for a caller that waits for space.
    pub(crate) fn notify_now(&mut self) {
        self.fresh = false;
        self.unrung = 0;
        self.shared.wake();
    }
}
