//! Packets that a capture follows on their way through a worker: each has a number, so that the records of its
//! reception, its sending and its drop join.
//!
//! A packet is known by its burst and its index there; copies that a pipeline has edited have the index of the original
//! one. Only the packets of the last bursts are known, so memory is bounded.
//!
//! Between two stages, a packet is known by its buffer: the sender notes it before it publishes the buffer, and the
//! receiver of the buffer takes the note. A buffer is in one handoff queue at a time, and each packet that is handed
//! over removes an older note of its buffer. So no note is for another packet, provided that all stages take part:
//! packets are followed once the last worker has begun, and notes end before the first worker ends.

use crate::worker_builder::Stage;
use mem::ticks;
use port::pcap::TraceStep;
use port::{Burst, Now};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Packets that a worker knows at one time: those of four full bursts.
const MOST: usize = 256;
const SECOND: u64 = 1_000_000_000;
/// Time for which packets may be followed at once, in nanoseconds.
const CREDIT: u64 = SECOND / 10;

/// Options of a capture that follows packets.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Maximum number of packets per second on each worker; at most one full burst at once.
    rate: u32,
    shared: Arc<Shared>,
}

/// What the workers of a capture share. The numbers order nothing else: what a note is about is passed with its buffer,
/// and a worker that has begun needs nothing of the others.
#[derive(Debug)]
struct Shared {
    /// Number of the last packet.
    numbers: AtomicU32,
    /// Workers that have not begun.
    joining: AtomicUsize,
    /// Packets between stages, by the identity of their buffer; `None` after the end.
    notes: Mutex<Option<HashMap<usize, Way>>>,
    /// Number of notes. A note happened before its buffer came to another stage, which so does not miss it.
    noted: AtomicUsize,
}

/// A worker that has not begun, until it is dropped.
#[derive(Debug)]
struct Joining(Arc<Shared>);

impl Drop for Joining {
    fn drop(&mut self) {
        self.0.joining.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Changes the notes, if they have not ended.
    fn with_notes(&self, change: impl FnOnce(&mut HashMap<usize, Way>)) {
        // A poisoned lock is valid: each change is one call.
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = &mut *notes {
            change(notes);
            self.noted.store(notes.len(), Ordering::Relaxed);
        }
    }
}

impl TraceOptions {
    /// Follows at most `rate` packets per second on each worker.
    pub fn new(rate: u32) -> Self {
        let shared = Shared {
            numbers: AtomicU32::new(0),
            joining: AtomicUsize::new(0),
            notes: Mutex::new(Some(HashMap::new())),
            noted: AtomicUsize::new(0),
        };
        Self { rate, shared: Arc::new(shared) }
    }

    /// Forgets packets between stages. Must be called before the first worker ends.
    pub(crate) fn end(&self) {
        *self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A burst of a worker: the start of the round that received it, and the place of its queue among those of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BurstKey {
    now: Now,
    source: usize,
}

impl BurstKey {
    pub(crate) fn of(burst: &Burst) -> Self {
        Self { now: burst.now(), source: burst.source() }
    }
}

/// A packet of a burst.
pub(crate) type PacketKey = (BurstKey, u8);

/// A packet that is followed, on any worker.
#[derive(Clone, Copy, Debug)]
struct Way {
    number: u32,
    /// The burst clock at its reception, and when that ended, in ticks.
    now: Now,
    received: u64,
    verdict_ns: u32,
}

/// One worker's packets.
#[derive(Debug)]
pub(crate) struct Tracer {
    options: TraceOptions,
    ticks_per_ns: f64,
    live: VecDeque<(PacketKey, Way)>,
    /// Whether this worker decides where packets go.
    decides: bool,
    joining: Option<Joining>,
    /// Nanoseconds of the clock of bursts for which the rate was not used yet.
    credit: u64,
    at: Now,
    skipped: u32,
}

impl Tracer {
    /// For the worker of `stage`, which is waited for unless it hangs.
    pub(crate) fn new(options: TraceOptions, ticks_per_ns: f64, stage: &Stage) -> Self {
        let mut tracer = Self::of(options, ticks_per_ns, stage.classifiers());
        if stage.link.is_out_of_service() {
            tracer.begin();
        }
        tracer
    }

    fn of(options: TraceOptions, ticks_per_ns: f64, decides: bool) -> Self {
        let live = VecDeque::with_capacity(MOST);
        options.shared.joining.fetch_add(1, Ordering::Relaxed);
        let joining = Some(Joining(options.shared.clone()));
        let credit = price(&options).max(CREDIT);
        Self { options, ticks_per_ns, live, decides, joining, credit, at: Now(0), skipped: 0 }
    }

    /// The worker takes part from now on.
    pub(crate) fn begin(&mut self) {
        self.joining = None;
    }

    /// Forgets the packets of an earlier burst with this key: handoff queues are drained within one round.
    pub(crate) fn begin_burst(&mut self, key: BurstKey) {
        self.live.retain(|(packet, _)| packet.0 != key);
    }

    /// Begins to follow a received packet, unless there are too many. Returns its step and the time.
    pub(crate) fn receive(&mut self, packet: PacketKey) -> Option<(Now, TraceStep)> {
        if self.options.shared.joining.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let now = packet.0.now;
        let price = price(&self.options);
        self.credit = self.credit.saturating_add(now.0.saturating_sub(self.at.0)).min(price.max(CREDIT));
        self.at = now;
        if self.credit < price {
            self.skipped = self.skipped.saturating_add(1);
            return None;
        }
        self.credit -= price;
        let number = self.options.shared.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.push(packet, Way { number, now, received: ticks(), verdict_ns: 0 });
        let skipped = std::mem::take(&mut self.skipped);
        Some((now, TraceStep { number, verdict_ns: 0, since_ns: 0, skipped }))
    }

    /// A packet of this worker goes to another stage in this buffer.
    pub(crate) fn hand_over(&self, packet: Option<PacketKey>, buffer: usize) {
        let (way, shared) = (self.find(packet), &self.options.shared);
        if way.is_some() || shared.noted.load(Ordering::Relaxed) > 0 {
            shared.with_notes(|notes| {
                _ = match way {
                    Some(way) => notes.insert(buffer, way),
                    None => notes.remove(&buffer),
                }
            });
        }
    }

    /// A burst has come from another stage.
    pub(crate) fn arrive(&mut self, burst: &Burst) {
        let (key, shared) = (BurstKey::of(burst), self.options.shared.clone());
        if shared.noted.load(Ordering::Relaxed) > 0 {
            shared.with_notes(|notes| {
                for i in 0..burst.len() {
                    if let Some(way) = burst.buffer_id(i).and_then(|buffer| notes.remove(&buffer)) {
                        self.push((key, i as u8), way);
                    }
                }
            });
        }
    }

    /// The pipeline has classified a burst.
    pub(crate) fn classified(&mut self, burst: BurstKey) {
        let (now, ticks_per_ns) = (ticks(), self.ticks_per_ns);
        for (_, way) in self.live.iter_mut().filter(|(packet, _)| self.decides && packet.0 == burst) {
            way.verdict_ns = since(way.received, now, ticks_per_ns);
        }
    }

    /// The step of a packet that was sent or dropped, and its time on the burst clock, if it is followed.
    pub(crate) fn step(&self, packet: Option<PacketKey>) -> Option<(Now, TraceStep)> {
        let Way { number, now, received, verdict_ns } = self.find(packet)?;
        let since_ns = since(received, ticks(), self.ticks_per_ns);
        let step = TraceStep { number, verdict_ns, since_ns, skipped: 0 };
        Some((Now(now.0.saturating_add(since_ns.into())), step))
    }

    /// Adds a packet, instead of the oldest one if there are many.
    fn push(&mut self, packet: PacketKey, way: Way) {
        if self.live.len() == MOST {
            self.live.pop_front();
        }
        self.live.push_back((packet, way));
    }

    fn find(&self, packet: Option<PacketKey>) -> Option<Way> {
        self.live.iter().rev().find(|(live, _)| Some(*live) == packet).map(|(_, way)| *way)
    }
}

/// Nanoseconds for which one packet is followed.
fn price(options: &TraceOptions) -> u64 {
    SECOND / u64::from(options.rate.max(1))
}

/// Nanoseconds since a packet was received.
fn since(received: u64, now: u64, ticks_per_ns: f64) -> u32 {
    (now.saturating_sub(received) as f64 / ticks_per_ns) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use mem::pool::{Pages, Pool, PoolSpec};

    fn packet(now: u64, index: u8) -> PacketKey {
        (BurstKey { now: Now(now), source: 0 }, index)
    }

    /// A tracer of a worker that has begun, with the burst clock in ticks.
    fn begun(options: &TraceOptions, decides: bool) -> Tracer {
        let mut tracer = Tracer::of(options.clone(), 1.0, decides);
        tracer.begin();
        tracer
    }

    #[test]
    fn packets_beyond_the_rate_are_counted_and_others_keep_their_number() {
        let mut tracer = begun(&TraceOptions::new(100), true);
        let followed: Vec<_> = (0..64).filter_map(|index| tracer.receive(packet(5, index))).collect();
        assert_eq!(followed.len(), 10, "a tenth of a second at once");
        let (now, next) = tracer.receive(packet(5 + SECOND / 100, 0)).unwrap();
        assert_eq!((now, next.number, next.skipped), (Now(5 + SECOND / 100), 11, 54));
        assert!(tracer.receive(packet(5 + SECOND / 100, 1)).is_none());
        tracer.classified(packet(5, 0).0);
        let (now, step) = tracer.step(Some(packet(5, 3))).unwrap();
        assert_eq!((now, step.number), (Now(5 + u64::from(step.since_ns)), 4));
        assert!(tracer.step(Some(packet(5, 10))).is_none() && tracer.step(None).is_none());
        tracer.begin_burst(packet(5, 0).0);
        assert!(tracer.step(Some(packet(5, 3))).is_none(), "another burst has its key");
    }

    #[test]
    fn a_rate_of_one_is_a_packet_per_second() {
        let mut tracer = begun(&TraceOptions::new(1), true);
        let times = (0..20).map(|tenths| packet(5 + tenths * SECOND / 10, 0));
        assert_eq!(times.filter_map(|packet| tracer.receive(packet)).count(), 2);
    }

    #[test]
    fn no_packet_is_followed_before_all_workers_have_begun() {
        let options = TraceOptions::new(100);
        let (mut first, last) = (begun(&options, true), Tracer::of(options, 1.0, false));
        assert!(first.receive(packet(5, 0)).is_none());
        drop(last);
        assert_eq!(first.receive(packet(5, 0)).unwrap().1.number, 1);
    }

    #[test]
    fn a_packet_keeps_its_number_on_the_next_stage() {
        let options = TraceOptions::new(100);
        let (mut first, mut last) = (begun(&options, true), begun(&options, false));
        let pool = Pool::new(PoolSpec { buffers: 64, size: 2048, pages: Pages::Ordinary }).unwrap();
        let (mut cache, mut burst) = (pool.cache(), Burst::new());
        burst.begin(3);
        (0..3).for_each(|_| burst.push_buffers(cache.alloc().unwrap(), std::iter::empty()).unwrap());
        let (key, buffer) = (BurstKey::of(&burst), |i| burst.buffer_id(i).unwrap());
        (0..2).for_each(|i| _ = first.receive(packet(1, i)));
        first.classified(packet(1, 0).0);
        first.hand_over(Some(packet(1, 0)), buffer(0));
        first.hand_over(Some(packet(1, 1)), buffer(1));
        first.hand_over(Some(packet(1, 2)), buffer(1));
        last.arrive(&burst);
        last.classified(key);
        let (before, after) =
            (first.step(Some(packet(1, 0))).unwrap().1, last.step(Some((key, 0))).unwrap().1);
        assert_eq!(
            (after.number, after.verdict_ns),
            (1, before.verdict_ns),
            "the last stage decides nothing"
        );
        assert!(last.step(Some((key, 1))).is_none(), "its buffer had another packet since");
        assert_eq!(options.shared.noted.load(Ordering::Relaxed), 0);
        first.hand_over(Some(packet(1, 0)), buffer(2));
        options.end();
        last.arrive(&burst);
        assert!(last.step(Some((key, 2))).is_none(), "the capture has ended");
        cache.free_all(burst.unload());
    }

    #[test]
    fn only_the_last_packets_are_known() {
        let mut tracer = begun(&TraceOptions::new(1_000_000), true);
        for now in 0..5 {
            for index in 0..64 {
                tracer.receive(packet(now, index));
            }
        }
        assert!(tracer.step(Some(packet(0, 63))).is_none());
        assert_eq!(tracer.step(Some(packet(1, 0))).unwrap().1.number, 65);
    }
}
