//! Runs the models of handoff queue and depot beside the code that they model.
//!
//! The code's accesses to positions, slots, top and links must touch the same lines in the same order as the model's,
//! in each round of a pipeline and in each operation of a cache.

use super::handoff::{Handoff, HandoffEntry, RING, Receiver, Sender};
use super::places::BURST;
use super::pool::{Cache, Depot, Exchange};
use crate::recorder::{Area, Recorder, Touch, of_code, touches};
use crate::usage::scaling::packet_source::{Frame, Sink, SourceQueue};
use engine::bench::{StepConfig, SteppedWorker};
use engine::{Context, Pipeline, Verdicts, handoff_sizes};
use mem::line::Padded;
use mem::pool::{Buffer, Pages, Pool, PoolSpec};
use mem::record::{Access, Kind, record};
use port::{Burst, EditId, PortId};
use sim::memory::{Address, Memory, Width};

impl Exchange for Recorder {
    fn exchange(&mut self, at: Address, width: Width, expected: u64, value: u64) -> u64 {
        let found = self.load(at, width);
        if found == expected {
            self.store(at, width, value);
        }
        found
    }
}

/// Sends every packet to one port.
struct ToOne;

impl Pipeline for ToOne {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        verdicts.emit_run(0..burst.len(), PortId(1), EditId::NONE);
    }
}

/// Length of a pair of lines, in which each position of a ring lies.
const PAIR: usize = align_of::<Padded<u8>>();

/// Position `head`, position `tail` and slots of the `n`-th handoff queue in the model's memory.
fn handoff(n: u64) -> Handoff {
    let at = n * (2 * PAIR as u64 + Handoff::SLOTS);
    Handoff { head: at, tail: at + PAIR as u64, slots: at + 2 * PAIR as u64 }
}

/// Finds the areas of a real handoff queue: its first slots are the first of an entry's size that are written, and its
/// `tail`, the pair after `head`, is stored after them.
fn areas(accesses: &[Access], handoff: Handoff) -> [Area; 2] {
    let is_slot = |access: &&Access| access.bytes == handoff_sizes::ENTRY && access.kind == Kind::Store;
    let mut from_slots = accesses.iter().skip_while(|access| !is_slot(access));
    let slots = from_slots.next().expect("an entry is written").address;
    let tail = from_slots.find(|access| access.bytes == size_of::<usize>() && access.kind == Kind::Store);
    let head = tail.expect("the entries are published").address - PAIR;
    [(head, 2 * PAIR, handoff.head), (slots, Handoff::SLOTS as usize, handoff.slots)]
}

/// The model's operations on the handoff queues of a pipeline on one thread, in the order of `Stage::round`.
struct Pipe {
    memory: Recorder,
    senders: [Sender; 2],
    receivers: [Receiver; 2],
}

impl Pipe {
    fn new() -> Pipe {
        Pipe {
            memory: Recorder::new(handoff(2).head),
            senders: [0, 1].map(|n| Sender::new(handoff(n))),
            receivers: [0, 1].map(|n| Receiver::new(handoff(n))),
        }
    }

    /// One round; `is_first` if the worker stage has no burst to send yet.
    fn round(&mut self, is_first: bool) -> Vec<Touch> {
        let Pipe { memory, senders: [first, second], receivers: [from_rx, from_worker] } = self;
        let entries = vec![HandoffEntry { buffer: 0, to: 0 }; BURST as usize];
        assert!(first.has_room(memory, 2 * BURST));
        first.push(memory, &entries);
        assert!(second.has_room(memory, 2 * BURST));
        assert_eq!(from_rx.take(memory, BURST).len() as u64, BURST);
        if !is_first {
            second.push(memory, &entries);
        }
        from_worker.take(memory, BURST);
        touches(&memory.take())
    }
}

#[test]
fn a_pipeline_accesses_handoff_queues_like_the_model() {
    let config = StepConfig { max_ports: 2, kernel: mem::copy::chosen(), ticks_per_ns: f64::INFINITY };
    let mut worker = SteppedWorker::staged(&config, Box::new(ToOne)).unwrap();
    let frame: Frame = [0; size_of::<Frame>()];
    for (port, frames) in [(0, &[frame][..]), (1, &[])] {
        let source = SourceQueue::new(frames.into(), u64::MAX);
        worker.start(PortId(port), Box::new(source), Box::new(Sink::default()));
    }
    let rounds: Vec<_> = (0..3 * RING / BURST).map(|_| record(|| worker.round()).1).collect();
    let first = areas(&rounds[0], handoff(0));
    let second = areas(&of_others(&rounds[1], &first), handoff(1));
    let areas = [first, second].concat();
    let mut model = Pipe::new();
    for (n, accesses) in rounds.iter().enumerate() {
        assert_eq!(model.round(n == 0), touches(&of_code(accesses, &areas)), "round {n}");
    }
}

/// Returns the accesses outside of these areas.
fn of_others(accesses: &[Access], areas: &[Area]) -> Vec<Access> {
    let is_inside =
        |access: &Access| areas.iter().any(|(at, bytes, _)| access.address.wrapping_sub(*at) < *bytes);
    accesses.iter().filter(|access| !is_inside(access)).copied().collect()
}

const BUFFERS: u32 = 1024;
const DEPOT: Depot = Depot { top: 0, entries: 128, buffers: BUFFERS as u64 };
/// Address of the model's cache, behind the depot.
const CACHE: Address = DEPOT.entries + 8 * BUFFERS as u64;

/// A real cache and the model's, with the same buffers taken.
struct Caches {
    memory: Recorder,
    model: Cache,
    held: Vec<u64>,
    code: mem::pool::Cache,
    buffers: Vec<Buffer>,
    areas: [Area; 2],
}

impl Caches {
    fn new() -> Caches {
        let mut memory = Recorder::new(CACHE + 8192);
        for (at, value) in DEPOT.values() {
            memory.store(at, Width::Eight, value);
        }
        let size = handoff_sizes::BUFFER;
        let pool = Pool::new(PoolSpec { buffers: BUFFERS, size, pages: Pages::Ordinary }).unwrap();
        let mut code = pool.cache();
        // The first accesses of a refill: the top, and the entry of the buffer there.
        let (buffer, accesses) = record(|| code.alloc().unwrap());
        let first = memory.load(DEPOT.top, Width::Eight) & u64::from(u32::MAX);
        let entries = accesses[1].address / 8 * 8 - first as usize * 8;
        let areas = [(accesses[0].address, 8, DEPOT.top), (entries, 8 * BUFFERS as usize, DEPOT.entries)];
        let mut model = Cache::new(DEPOT, CACHE);
        let held = vec![model.alloc(&mut memory).unwrap()];
        Caches { memory, model, held, code, buffers: vec![buffer], areas }
    }

    /// Runs one operation of both caches, and compares the lines of the depot.
    fn compare(&mut self, operation: impl FnOnce(&mut Caches)) {
        self.memory.take();
        let ((), accesses) = record(|| operation(self));
        let model: Vec<_> = self.memory.take().into_iter().filter(|(_, at, _)| *at < CACHE).collect();
        assert_eq!(touches(&model), touches(&of_code(&accesses, &self.areas)));
        assert_eq!((self.model.counted.refills, self.model.counted.spills), {
            let counters = self.code.counters();
            (counters.refills, counters.spills)
        });
    }

    fn alloc(&mut self) {
        self.buffers.extend(self.code.alloc());
        self.held.extend(self.model.alloc(&mut self.memory));
    }

    fn free(&mut self) {
        self.buffers.drain(..1).for_each(|buffer| self.code.free(buffer));
        self.held.drain(..1).for_each(|buffer| self.model.free(&mut self.memory, buffer));
    }
}

#[test]
fn a_cache_accesses_the_depot_like_the_model() {
    let mut caches = Caches::new();
    for many in [100, 300, 64, 500] {
        for _ in 0..many {
            caches.compare(Caches::alloc);
        }
        for _ in 0..many - 10 {
            caches.compare(Caches::free);
        }
    }
    assert!(caches.model.counted.spills > 10);
}
