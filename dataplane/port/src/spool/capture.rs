//! Captures of packets that a program selects itself, such as those of one TCP connection.
//!
//! The thread that owns a [`CaptureFile`] writes; threads with a [`CaptureFeed`] add packets and never wait for it.

use super::{CreateError, Direction, Feed, Format, Outcome, Output, Record, Spool, TraceStep};
use crate::{Burst, eventfd};
use mem::copy::Kernel;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A pcapng file with nanosecond time stamps.
#[derive(Debug)]
pub struct CaptureFile {
    spool: Spool,
    doorbell: Arc<OwnedFd>,
}

/// Direction of a packet, seen from the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureDirection {
    /// Received from a port.
    In,
    /// Sent to a port.
    Out,
}

/// Counts of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// Packets in the file.
    pub written: u64,
    /// Packets not written because a ring was full or the file had ended.
    pub missed: u64,
    /// Error that ended the file early.
    pub failure: Option<String>,
}

impl CaptureFile {
    /// Creates the file, with at most `snap` bytes of each packet of the interface `name`.
    ///
    /// # Errors
    /// If the file exists and may not be overwritten, or cannot be written.
    pub fn create(output: &Output, name: &str, snap: Option<u32>) -> Result<Self, CreateError> {
        let kernel = |reason| CreateError::Kernel { path: output.path.clone(), reason };
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let doorbell = Arc::new(doorbell.map_err(|error| kernel(error.into()))?);
        let spool = Spool::create(output, Format::Pcapng, name, snap, doorbell.clone())?;
        Ok(Self { spool, doorbell })
    }

    /// Writes packets of the interfaces `names` to a pipe or socket until it is closed. The file has a `comment`.
    ///
    /// # Errors
    /// If the kernel is out of descriptors, or the other end is closed.
    pub fn stream(
        file: File,
        names: &[&str],
        snap: Option<u32>,
        comment: Option<&str>,
    ) -> std::io::Result<Self> {
        let doorbell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let spool = Spool::stream(file, names, snap, comment, doorbell.clone())?;
        Ok(Self { spool, doorbell })
    }

    /// Ends the file after this number of packets. Must be called before [`CaptureFile::write`].
    pub fn limit(&mut self, packets: Option<u64>) {
        self.spool.limit(packets);
    }

    /// Whether the file has ended: its limit was reached, or it could not be written.
    pub fn has_ended(&self) -> bool {
        self.spool.has_ended()
    }

    /// Whether any feed may still add packets.
    pub fn has_feeds(&self) -> bool {
        self.spool.has_feeds()
    }

    /// A feed for one thread.
    pub fn feed(&self) -> CaptureFeed {
        CaptureFeed(self.spool.feed())
    }

    /// Makes feeds, also while the file is written.
    pub fn feeds(&self) -> impl Fn() -> CaptureFeed + Send + use<> {
        let shared = self.spool.shared.clone();
        move || CaptureFeed(Feed::new(shared.clone()))
    }

    /// Waits for packets, at most `limit`, and writes them. The file is kept from the first call on.
    pub fn write(&mut self, limit: Duration) {
        let due = self.spool.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let limit = due.unwrap_or(limit).min(limit);
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        // An interrupted wait counts as a wake-up.
        let _ = poll(&mut [PollFd::new(&self.doorbell, PollFlags::IN)], Some(&limit));
        eventfd::clear(&self.doorbell);
        self.spool.handle(Instant::now(), 0);
    }

    /// Counts so far.
    pub fn counts(&self) -> CaptureCounts {
        CaptureCounts {
            written: self.spool.written(),
            missed: self.spool.missed(),
            failure: self.spool.failure().map(str::to_owned),
        }
    }

    /// Writes all packets and closes the file.
    pub fn close(mut self) -> CaptureCounts {
        self.spool.close(0);
        self.counts()
    }
}

/// One thread's end of a capture.
pub struct CaptureFeed(Feed);

impl std::fmt::Debug for CaptureFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureFeed").finish_non_exhaustive()
    }
}

impl CaptureFeed {
    /// Adds a received packet of a burst with loaded heads. `epoch` is the zero of the burst's clock in nanoseconds
    /// since the Unix epoch.
    pub fn received<K: Kernel>(&mut self, burst: &Burst, i: usize, epoch: u64) {
        self.put::<K>((burst, i), Direction::In, Outcome::Moved, (0, epoch), None);
    }

    /// Adds a sent packet. `epoch` is as in [`CaptureFeed::received`].
    pub fn sent<K: Kernel>(&mut self, burst: &Burst, i: usize, epoch: u64) {
        self.put::<K>((burst, i), Direction::Out, Outcome::Moved, (0, epoch), None);
    }

    /// Adds packet `i` of a burst with loaded heads, received or to be sent at an interface of the file.
    pub fn add<K: Kernel>(
        &mut self,
        (burst, i): (&Burst, usize),
        direction: CaptureDirection,
        outcome: Outcome,
        at: (u16, u64),
        trace: Option<TraceStep>,
    ) {
        let direction = match direction {
            CaptureDirection::In => Direction::In,
            CaptureDirection::Out => Direction::Out,
        };
        self.put::<K>((burst, i), direction, outcome, at, trace);
    }

    fn put<K: Kernel>(
        &mut self,
        (burst, i): (&Burst, usize),
        direction: Direction,
        outcome: Outcome,
        (interface, epoch): (u16, u64),
        trace: Option<TraceStep>,
    ) {
        let record = Record::of(burst, i, direction, outcome);
        let record = Record { now: record.now.saturating_add(epoch), interface, trace, ..record };
        self.0.put_or_count::<K>(&record, &burst.frame(i));
    }

    /// Wakes the thread of the file if needed. Must be called after the packets of a burst.
    pub fn notify(&mut self) {
        self.0.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Now;
    use mem::copy::Portable;

    #[test]
    fn packets_of_a_feed_are_in_the_file_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let mut file = CaptureFile::create(&Output::new(&path), "web0", None).unwrap();
        let (mut feed, mut burst) = (file.feed(), Burst::new());
        burst.begin(0);
        burst.set_now(Now(5));
        assert!(burst.push_own(&[7; 60]) && burst.push_own(&[8; 61]));
        feed.received::<Portable>(&burst, 1, 1_000);
        feed.sent::<Portable>(&burst, 0, 1_000);
        feed.notify();
        assert_eq!(file.counts(), CaptureCounts::default());
        file.write(Duration::from_secs(1));
        drop(feed);
        assert_eq!(file.close(), CaptureCounts { written: 2, ..CaptureCounts::default() });
        let read = crate::pcap::Recording::read(&path).unwrap();
        assert_eq!(read.frames().collect::<Vec<_>>(), [vec![8; 61], vec![7; 60]]);
        let error = CaptureFile::create(&Output::new(&path), "web0", None).unwrap_err();
        assert!(matches!(error, CreateError::Exists(_)), "{error}");
    }

    #[test]
    fn a_stream_has_its_comment_and_ends_with_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let (file, comment) = (File::create(&path).unwrap(), "2 ms are missing");
        let mut file = CaptureFile::stream(file, &["web0", "web1"], None, Some(comment)).unwrap();
        file.limit(Some(1));
        let (mut feed, mut burst) = (file.feed(), Burst::new());
        burst.begin(0);
        assert!(burst.push_own(&[7; 60]) && burst.push_own(&[8; 60]));
        feed.received::<Portable>(&burst, 0, 1);
        feed.received::<Portable>(&burst, 1, 1);
        drop(feed);
        while !file.has_ended() {
            file.write(Duration::ZERO);
        }
        assert_eq!(file.close().written, 1);
        let read = crate::pcap::Recording::read(&path).unwrap();
        assert_eq!(read.frames().collect::<Vec<_>>(), [vec![7; 60]]);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.windows(comment.len()).filter(|part| *part == comment.as_bytes()).count(), 1);
    }

    #[test]
    fn a_file_that_is_not_used_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pcapng");
        let file = CaptureFile::create(&Output::new(&path), "web0", None).unwrap();
        assert!(path.exists());
        drop(file);
        assert!(!path.exists());
    }
}
