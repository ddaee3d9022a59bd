//! linerate's switch, access by access: one worker of the engine over two vhost-user ports.
//!
//! It performs the memory accesses of `dataplane/engine/src/worker.rs` (`round`, `poll`, `finish`, `notify`),
//! `dataplane/port/src/vhost_user` (`rx.rs`, `tx.rs`, `avail_cache.rs`, `fill.rs`) and `dataplane/ring/src/device`, in
//! their order: a burst waits while the next is taken, heads are copied and classified, a cache of available buffers is
//! filled ahead of need, headers and used elements are written only if they differ, and one fence serves all rings of a
//! round. The worker's private data (bursts, caches) is accessed too, since it competes for the first level. Counters
//! and the bridge's memo, a few lines that no other thread writes, are omitted, and so is the scheduler, which skips a
//! queue of long frames at times.
//!
//! `conformance` runs a real worker beside this model, and fails if they touch different lines of rings and buffers.

mod queues;

use super::instructions::Counts;
use super::pace::{Pace, Paced};
use super::places::Places;
use super::{Change, Path};
use queues::{AHEAD, BURST, Burst, HEAD, HEADROOM, RECORD, Rx, SLOT, Tx};
use sim::memory::{Copying, LINE, Memory, Width};

/// Number of equal shares of the instructions: taking, classifying, writing, giving back.
const STEPS: f64 = 4.0;

/// The model of linerate's switch.
#[derive(Clone, Debug)]
pub(super) struct Linerate {
    rx: [Rx; 2],
    tx: [Tx; 2],
    bursts: [Burst; 2],
    /// Burst taken but not yet classified, and the index of its ring
    pending: Option<(usize, usize)>,
    next: usize,
    frame: u64,
    change: Option<Change>,
    pace: Pace,
    counts: Counts,
    pub(super) forwarded: u64,
    pub(super) polls: u64,
    pub(super) empty: u64,
}

impl Linerate {
    pub(super) fn new(path: &Path, places: &Places, counts: Counts) -> Linerate {
        let mut free = places.own;
        let mut own = |bytes: u64| {
            let at = free;
            free += bytes.next_multiple_of(LINE);
            at
        };
        let rx = [0, 1].map(|port: usize| Rx {
            queue: places.transmit[port],
            taken: 0,
            used: 0,
            known: 0,
            dirty: false,
            found: false,
            gathered: 0,
            idle: 0,
        });
        let tx = [0, 1].map(|port: usize| Tx {
            queue: places.receive[port],
            taken: 0,
            used: 0,
            known: 0,
            dirty: false,
            cache_at: own(2 * AHEAD * RECORD),
            cache: std::collections::VecDeque::new(),
        });
        let bursts = [0, 1].map(|_| Burst { at: own(BURST * (SLOT + RECORD)), sources: Vec::new() });
        Linerate {
            rx,
            tx,
            bursts,
            pending: None,
            next: 0,
            frame: path.frame,
            change: path.change,
            pace: Pace::default(),
            counts,
            forwarded: 0,
            polls: 0,
            empty: 0,
        }
    }

    /// Runs one round of the worker: `Worker::round`.
    pub(super) fn round<M: Memory>(&mut self, memory: &mut M) {
        let mut pace = self.pace;
        let mut memory = Paced::new(memory, &mut pace);
        let mut worked = false;
        for at in 0..2 {
            worked |= self.poll(&mut memory, at);
        }
        if self.pending.is_some() && !worked {
            self.finish(&mut memory);
            worked = true;
        }
        self.notify(&mut memory);
        if !worked {
            // Pauses on the ring that was polled first, so that a change to either ring ends the wait.
            memory.pause(self.rx[0].next_available());
        }
        self.pace = pace;
    }

    /// `Worker::poll`: takes a burst, prefetches the next ring's entries, and sends the previous burst.
    fn poll<M: Memory>(&mut self, memory: &mut Paced<'_, M>, at: usize) -> bool {
        self.polls += 1;
        let share = self.counts.switch / STEPS;
        let filled = self.next;
        let got = self.rx[at].take(memory, &mut self.bursts[filled], self.frame, share);
        self.rx[at].found = got > 0;
        if self.prefetches(1 - at) {
            self.rx[1 - at].prefetch(memory, self.change);
        }
        let before = self.pending.is_some();
        self.finish(memory);
        if got > 0 {
            (self.pending, self.next) = (Some((filled, at)), 1 - filled);
        } else {
            self.empty += 1;
            self.rx[at].idle += 1;
            if self.rx[at].idle == 16 && self.rx[at].gathered > 0 {
                self.rx[at].complete(memory);
            }
            memory.forgive();
            memory.work(self.counts.empty_poll);
            memory.forgive();
        }
        got > 0 || before
    }

    fn prefetches(&self, at: usize) -> bool {
        match self.change {
            Some(Change::RingsAhead) => false,
            Some(Change::AheadIfBusy) => self.rx[at].found,
            _ => true,
        }
    }

    /// `Worker::finish`: classifies and sends the pending burst, and gives its buffers back.
    fn finish<M: Memory>(&mut self, memory: &mut Paced<'_, M>) {
        let Some((index, at)) = self.pending.take() else { return };
        let share = self.counts.switch / STEPS;
        let burst = &self.bursts[index];
        let head = self.frame.min(HEAD);
        for (n, source) in (0..).zip(&burst.sources) {
            memory.copy(*source, burst.at + n * SLOT + HEADROOM, head, Copying::Libc);
            memory.owe(share);
        }
        let tx = &mut self.tx[1 - at];
        self.forwarded += tx.send(memory, burst, self.frame, share, self.change);
        let (rx, count) = (&mut self.rx[at], burst.sources.len() as u64);
        rx.gathered += count;
        rx.idle = 0;
        memory.owe(share * count as f64);
        if self.change != Some(Change::GatherUsed) || rx.gathered >= 32 {
            rx.complete(memory);
        }
    }

    /// `Worker::notify`: one fence for everything published, then the reads that need it.
    fn notify<M: Memory>(&mut self, memory: &mut Paced<'_, M>) {
        if !self.rx.iter().any(|rx| rx.dirty) && !self.tx.iter().any(|tx| tx.dirty) {
            return;
        }
        memory.fence();
        for rx in self.rx.iter_mut().filter(|rx| rx.dirty) {
            rx.dirty = false;
            memory.load(rx.queue.wants_call(), Width::Two);
        }
        for tx in self.tx.iter_mut().filter(|tx| tx.dirty) {
            tx.dirty = false;
            memory.load(tx.queue.wants_call(), Width::Two);
        }
    }
}
