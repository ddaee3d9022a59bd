//! Control's end: takes what the feeds spooled, puts it in order and writes it out.

use super::feed::{Feed, Line, Shared, Source};
use super::file::{CreateError, Output, Whole};
use super::record::{self, HEADER};
use super::{FLUSH, LINES, Record, SLACK, pcapng, text};
use ring::spsc::Consumer;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What the file is to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// pcapng, with nanoseconds.
    Pcapng,
    /// A line of text for each packet.
    Text,
}

/// Nanoseconds by which clocks do not drift between two flushes.
const SET_BACK: u64 = 1_000_000_000;

/// Records taken from the rings and not yet written.
#[derive(Default)]
struct Pending {
    /// Time, place of the bytes, and what it is.
    records: Vec<(Record, usize, usize)>,
    bytes: Vec<u8>,
}

/// A file that workers write packets to.
pub(crate) struct Spool {
    shared: Arc<Shared>,
    name: String,
    format: Format,
    file: Option<Whole>,
    pending: Pending,
    due: Option<Instant>,
    written: u64,
    /// The time of day that the last packet was given.
    last: u64,
    failure: Option<String>,
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
    /// Makes the file, which goes again unless the spool's port comes to run. `snap`: most bytes kept of a packet; `doorbell` becomes readable when [`Spool::handle`] should run.
    pub(crate) fn create(
        output: &Output,
        format: Format,
        name: &str,
        snap: Option<u32>,
        doorbell: Arc<OwnedFd>,
    ) -> Result<Self, CreateError> {
        let head = match format {
            Format::Pcapng => pcapng::head(name, snap.unwrap_or(0)),
            Format::Text => Vec::new(),
        };
        let shared = Shared {
            doorbell,
            idle: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            sources: Mutex::default(),
            snap: snap.map_or(usize::MAX, |snap| snap as usize),
        };
        Ok(Self {
            shared: Arc::new(shared),
            name: name.to_owned(),
            format,
            file: Some(Whole::create(output, &head)?),
            pending: Pending::default(),
            due: None,
            written: 0,
            last: 0,
            failure: None,
        })
    }

    /// A new end for a queue.
    pub(crate) fn feed(&self) -> Feed {
        Feed::new(self.shared.clone())
    }

    /// Packets in the file.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Packets that are not in the file because a ring was full or the file had ended.
    pub(crate) fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    /// Why the file ended before its time.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// When [`Spool::handle`] should run at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Writes what there is. From here on the file stays, even with nothing in it. `epoch`: when the bursts' clock stood at zero, in nanoseconds since the Unix epoch.
    pub(crate) fn handle(&mut self, now: Instant, epoch: u64) {
        self.file.iter_mut().for_each(Whole::keep);
        let came = self.take();
        let youngest = self.pending.records.iter().map(|(record, ..)| record.now).max().unwrap_or(0);
        let upto = if came { youngest.saturating_sub(SLACK) } else { u64::MAX };
        self.write(upto, epoch);
        self.due = if came || self.rest() { Some(now + FLUSH) } else { None };
    }

    /// Writes everything and closes the file. No feed is used any more.
    pub(crate) fn close(&mut self, epoch: u64) {
        self.take();
        self.write(u64::MAX, epoch);
        self.end();
    }

    #[cfg(test)]
    pub(super) fn replace_file_for_tests(&mut self, file: Whole) {
        self.file = Some(file);
    }

    fn end(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        (self.file, self.due) = (None, None);
    }

    /// Says that nothing comes; `true` if something just did.
    fn rest(&mut self) -> bool {
        self.shared.idle.store(true, Ordering::Relaxed);
        // Orders the store before the look at the rings; pairs with the fence in `Feed::tell`.
        fence(Ordering::SeqCst);
        let mut sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = sources.iter_mut().any(|source| source.lines.ready(1) > 0);
        if ready {
            self.shared.idle.store(false, Ordering::Relaxed);
        }
        ready
    }

    /// Takes what the feeds have published. Whether there was anything.
    fn take(&mut self) -> bool {
        let mut sources = self.shared.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.pending.records.len();
        // A feed that is gone before its ring is looked at publishes nothing behind that look.
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
        let n = self.pending.sort(upto);
        for (record, from, to) in &self.pending.records[..n] {
            let bytes = &self.pending.bytes[*from..*to];
            let time = steady(self.last, epoch + record.now);
            self.last = time;
            match self.format {
                Format::Pcapng => pcapng::packet(&mut out, time, record, bytes),
                Format::Text => text::packet(&mut out, time, &self.name, record, bytes),
            }
        }
        match file.append(&out) {
            Ok(()) => {
                self.written += n as u64;
                self.pending.drop_first(n);
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

    /// What was taken from the rings has no file to go to.
    fn miss(&mut self) {
        self.shared.missed.fetch_add(self.pending.records.len() as u64, Ordering::Relaxed);
        self.pending.clear();
    }
}

/// The two clocks drift against each other, so a time by a newer `epoch` may lie a little before one by an older. What is
/// set back by more was set back on purpose.
fn steady(last: u64, time: u64) -> u64 {
    if time < last && last - time < SET_BACK { last } else { time }
}

impl Pending {
    /// Takes every record of a ring, as many as fit into one at most.
    fn take(&mut self, lines: &mut Consumer<Line>) {
        let mut taken = 0;
        while taken < LINES {
            let Some(first) = lines.pop() else { return };
            let (record, stored) = Record::decode(&first);
            let (more, from) = (record::lines(stored) - 1, self.bytes.len());
            self.bytes.extend_from_slice(&first[HEADER..]);
            // A record is published whole.
            lines.drain(more).for_each(|line| self.bytes.extend_from_slice(&line));
            self.bytes.truncate(from + stored);
            self.records.push((record, from, from + stored));
            taken += 1 + more;
        }
    }

    /// Puts everything in order of time; how many are not younger than `upto`.
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
