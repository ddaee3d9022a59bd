//! Control-thread end: collects records from the feeds, sorts and writes them.

use super::feed::{Feed, Line, Shared, Source};
use super::file::{CreateError, Output, RecordFile};
use super::record::{self, HEADER};
use super::{FLUSH, LINES, Record, SLACK, pcapng, text};
use ring::spsc::Consumer;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// File format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// pcapng with nanosecond time stamps.
    Pcapng,
    /// One line of text per packet.
    Text,
}

/// Clock drift tolerated between two flushes, in nanoseconds.
const SET_BACK: u64 = 1_000_000_000;

/// Records taken from the rings and not yet written.
#[derive(Default)]
struct Pending {
    /// Record, and the range of its bytes.
    records: Vec<(Record, usize, usize)>,
    bytes: Vec<u8>,
}

/// A file that workers write packets to.
pub(crate) struct Spool {
    pub(super) shared: Arc<Shared>,
    name: String,
    format: Format,
    pub(super) file: Option<RecordFile>,
    pending: Pending,
    due: Option<Instant>,
    pub(super) written: u64,
    /// Number of packets after which the file ends.
    limit: Option<u64>,
    /// Time stamp of the last written packet, in nanoseconds since the Unix epoch.
    pub(super) last: u64,
    pub(super) failure: Option<String>,
    /// Missed packets of each interface that the file states.
    stated: Box<[u64]>,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool")
            .field("name", &self.name)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl Spool {
    /// Creates the file; it is removed on drop unless the spool's port has run. `snap`: maximum number of bytes kept
    /// per packet. `doorbell` becomes readable when [`Spool::handle`] must run.
    pub(crate) fn create(
        output: &Output,
        format: Format,
        name: &str,
        snap: Option<u32>,
        doorbell: Arc<OwnedFd>,
    ) -> Result<Self, CreateError> {
        let head = match format {
            Format::Pcapng => pcapng::head(&[name], snap.unwrap_or(0), None),
            Format::Text => Vec::new(),
        };
        let file = RecordFile::create(output, &head)?;
        Ok(Self::over(Some(file), format, name, 1, snap, doorbell))
    }

    /// A spool that continues the file of another process ([`Spool::take_over`]).
    pub(crate) fn successor(format: Format, name: &str, snap: Option<u32>, doorbell: Arc<OwnedFd>) -> Self {
        Self::over(None, format, name, 1, snap, doorbell)
    }

    /// Writes packets of the interfaces `names` to a pipe or socket, in pcapng, until it is closed.
    pub(crate) fn stream(
        file: File,
        names: &[&str],
        snap: Option<u32>,
        comment: Option<&str>,
        doorbell: Arc<OwnedFd>,
    ) -> std::io::Result<Self> {
        let file = RecordFile::stream(file, &pcapng::head(names, snap.unwrap_or(0), comment))?;
        Ok(Self::over(Some(file), Format::Pcapng, "stream", names.len(), snap, doorbell))
    }

    /// Ends the file after this number of packets, before the first one.
    pub(crate) fn limit(&mut self, packets: Option<u64>) {
        self.limit = packets;
    }

    fn over(
        file: Option<RecordFile>,
        format: Format,
        name: &str,
        interfaces: usize,
        snap: Option<u32>,
        doorbell: Arc<OwnedFd>,
    ) -> Self {
        let shared = Shared {
            doorbell,
            idle: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            missed: std::iter::repeat_with(|| AtomicU64::new(0)).take(interfaces).collect(),
            sources: Mutex::default(),
            snap: snap.map_or(usize::MAX, |snap| snap as usize),
        };
        Self {
            shared: Arc::new(shared),
            name: name.to_owned(),
            format,
            file,
            pending: Pending::default(),
            due: None,
            written: 0,
            limit: None,
            last: 0,
            failure: None,
            stated: vec![0; interfaces].into(),
        }
    }

    /// Creates a feed for a queue.
    pub(crate) fn feed(&self) -> Feed {
        Feed::new(self.shared.clone())
    }

    /// Number of packets written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Number of packets not written because a ring was full or the file had ended.
    pub(crate) fn missed(&self) -> u64 {
        self.shared.missed.iter().map(|missed| missed.load(Ordering::Relaxed)).sum()
    }

    /// Error that ended the file early, if any.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Latest time for the next [`Spool::handle`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Writes pending records. From the first call on, the file is kept, even if empty. `epoch`: zero of the burst
    /// clock, in nanoseconds since the Unix epoch.
    pub(crate) fn handle(&mut self, now: Instant, epoch: u64) {
        self.file.iter_mut().for_each(RecordFile::keep);
        let came = self.take();
        let youngest = self.pending.records.iter().map(|(record, ..)| record.now).max().unwrap_or(0);
        let upto = if came { youngest.saturating_sub(SLACK) } else { u64::MAX };
        self.write(upto, epoch);
        self.due = if came || self.rest() { Some(now + FLUSH) } else { None };
    }

    /// Writes all records and closes the file. Feeds must not be used afterwards.
    pub(crate) fn close(&mut self, epoch: u64) {
        self.flush(epoch);
        self.end();
    }

    /// Writes all records.
    pub(super) fn flush(&mut self, epoch: u64) {
        self.take();
        self.write(u64::MAX, epoch);
    }

    /// Whether the file has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.file.is_none()
    }

    /// Whether any feed may still add packets.
    pub(crate) fn has_feeds(&self) -> bool {
        let sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().any(|source| source.feed.strong_count() > 0)
    }

    #[cfg(test)]
    pub(super) fn replace_file_for_tests(&mut self, file: RecordFile) {
        self.file = Some(file);
    }

    fn end(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        (self.file, self.due) = (None, None);
    }

    /// Announces idleness. Returns `true` if new records are available.
    fn rest(&mut self) -> bool {
        self.shared.idle.store(true, Ordering::Relaxed);
        // Orders the store before the check of the rings; pairs with the fence in `Feed::tell`.
        fence(Ordering::SeqCst);
        let mut sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = sources.iter_mut().any(|source| source.lines.ready(1) > 0);
        if ready {
            self.shared.idle.store(false, Ordering::Relaxed);
        }
        ready
    }

    /// Takes all published records. Returns whether there were any.
    fn take(&mut self) -> bool {
        let mut sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.pending.records.len();
        // A feed dropped before this check publishes nothing after it.
        sources.retain_mut(|Source { lines, feed }| {
            let alive = feed.strong_count() > 0;
            self.pending.take(lines);
            alive
        });
        self.pending.records.len() > before
    }

    fn write(&mut self, upto: u64, epoch: u64) {
        let Some(file) = &mut self.file else { return self.miss() };
        let mut out = Vec::new();
        let most = self.limit.map_or(u64::MAX, |limit| limit - self.written);
        let n = self.pending.sort(upto).min(usize::try_from(most).unwrap_or(usize::MAX));
        for (record, from, to) in &self.pending.records[..n] {
            let bytes = &self.pending.bytes[*from..*to];
            let time = steady(self.last, epoch + record.now);
            self.last = time;
            match self.format {
                Format::Pcapng => pcapng::packet(&mut out, time, record, bytes),
                Format::Text => text::packet(&mut out, time, &self.name, record, bytes),
            }
        }
        for (interface, missed) in self.shared.missed.iter().enumerate() {
            let missed = missed.load(Ordering::Relaxed);
            let is_new = std::mem::replace(&mut self.stated[interface], missed) != missed;
            if is_new && self.format == Format::Pcapng {
                pcapng::statistics(&mut out, self.last.max(epoch), interface as u32, missed);
            }
        }
        match file.append(&out) {
            Ok(()) => {
                self.written += n as u64;
                self.pending.drop_first(n);
                if self.limit == Some(self.written) {
                    self.end();
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    #[cold]
    fn fail(&mut self, error: &std::io::Error) {
        self.failure = Some(error.to_string());
        self.miss();
        self.end();
    }

    /// Counts pending records as missed, because there is no file.
    fn miss(&mut self) {
        self.pending.records.iter().for_each(|(record, ..)| self.shared.miss(record.interface));
        self.pending.clear();
    }
}

/// Corrects small steps back caused by drift between the two clocks. Larger steps are intentional clock changes.
fn steady(last: u64, time: u64) -> u64 {
    if time < last && last - time < SET_BACK { last } else { time }
}

impl Pending {
    /// Takes all records of a ring, at most one ring size.
    fn take(&mut self, lines: &mut Consumer<Line>) {
        let mut taken = 0;
        while taken < LINES {
            let Some(first) = lines.pop() else { return };
            let (record, stored) = Record::decode(&first);
            let (more, from) = (record::lines(stored) - 1, self.bytes.len());
            self.bytes.extend_from_slice(&first[HEADER..]);
            // Records are published whole.
            lines.drain(more).for_each(|line| self.bytes.extend_from_slice(&line));
            self.bytes.truncate(from + stored);
            self.records.push((record, from, from + stored));
            taken += 1 + more;
        }
    }

    /// Sorts by time; returns the number of records not later than `upto`.
    fn sort(&mut self, upto: u64) -> usize {
        self.records.sort_by_key(|(record, ..)| record.now);
        self.records.partition_point(|(record, ..)| record.now <= upto)
    }

    fn drop_first(&mut self, n: usize) {
        self.records.drain(..n);
        let mut kept = Vec::new();
        for (_, from, to) in &mut self.records {
            let at = kept.len();
            kept.extend_from_slice(&self.bytes[*from..*to]);
            (*from, *to) = (at, kept.len());
        }
        self.bytes = kept;
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
