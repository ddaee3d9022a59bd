//! Handoff queues between the threads that share a port ([`crate::SharedPort`]): one from each thread to each other
//! one. A full queue drops packets as `handoff-full`, so no thread waits for another.

use super::{Receiver, Sender, handoff, pool};
use crate::config::{EngineError, QueueFull};
use crate::model::HandoffConfig;
use mem::copy::chosen;
use mem::pool::Cache;
use port::{Burst, BurstStats, DropReason, Route};

/// Maximum number of threads with handoff queues of the default size; more have smaller ones, because the number of
/// queues grows with its square.
const MANY: usize = 8;

/// One thread's senders of handoff queues.
pub struct Exchange {
    index: usize,
    /// By thread; `None` for this one.
    senders: Vec<Option<Sender>>,
    cache: Cache,
    sent: u64,
    stats: BurstStats,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Number of this thread, below [`Exchange::workers`].
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads.
    #[inline]
    pub fn workers(&self) -> usize {
        self.senders.len()
    }

    /// Copies packets of a burst to another thread.
    pub fn send(&mut self, burst: &Burst, indices: &[u8], to: usize) {
        let Self { senders, cache, stats, .. } = self;
        let Some(sender) = senders.get_mut(to).and_then(Option::as_mut) else { return };
        let route = (Route::default(), false);
        self.sent += sender.send_from(cache, chosen(), (burst, indices), route, stats) as u64;
    }

    /// Frees the buffers of a burst that came from another thread; its packets must not be read afterwards.
    #[inline]
    pub fn release(&mut self, burst: &Burst) {
        if burst.has_buffers() {
            self.cache.free_all(burst.unload());
        }
    }

    /// Wakes threads that sleep and have packets. The caller must have executed a sequentially consistent fence since
    /// [`Exchange::send`].
    #[inline]
    pub fn notify(&mut self) {
        self.senders.iter_mut().flatten().for_each(Sender::notify);
    }

    /// Packets handed to other threads, and packets dropped as `handoff-full`.
    pub fn sent(&self) -> (u64, u64) {
        (self.sent, self.stats.drops[DropReason::HandoffFull as usize])
    }
}

/// The ends of all handoff queues between `workers` threads: senders and receivers of each thread.
pub(crate) fn exchange(workers: usize) -> Result<Vec<(Exchange, Vec<Receiver>)>, EngineError> {
    let ring = if workers > MANY { *HandoffConfig::RINGS.start() } else { HandoffConfig::DEFAULT_RING };
    let config = HandoffConfig { ring, full: QueueFull::Drop, ..HandoffConfig::default() };
    let pool = pool(&config, workers * (workers - 1), workers)?;
    let end = |index| Exchange {
        index,
        senders: Vec::with_capacity(workers),
        cache: pool.cache(),
        sent: 0,
        stats: BurstStats::default(),
    };
    let mut ends: Vec<_> = (0..workers).map(|index| (end(index), Vec::new())).collect();
    for from in 0..workers {
        for to in 0..workers {
            let queue = if from == to { None } else { Some(handoff(&pool, &config)?) };
            let (sender, receiver) = queue.unzip();
            ends[from].0.senders.push(sender);
            ends[to].1.extend(receiver);
        }
    }
    Ok(ends)
}
