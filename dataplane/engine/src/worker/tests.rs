//! Tests of a worker with counting queues and a simulated clock.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use super::*;
use crate::command::Command;
use crate::config::QueueFull;
use crate::link::{Doorbell, ResponseLimit};
use mem::{GuestMemory, Region};
use port::{
    BufId, Capabilities, Context, DropReason, EditId, Offload, Pipeline, PortId, Segmentation, TxQueue,
    Verdicts,
};
use rustix::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::mpsc::channel;

mod budget;
mod capture;
mod delivery;
mod handoff;
mod sampling;
mod steps;
mod verdicts;

const PORTS: usize = 70;
/// Ticks per nanosecond: so many that real time is negligible.
const TICKS: f64 = 1000.0;
const LONG: usize = 65_000;
const BUF: BufId = BufId { id: 0, slots: 1 };

/// A receive queue with a given number of frames with the same headers. All frames share the same memory, except
/// frames no longer than the headers, which belong to the burst.
struct Source {
    memory: Arc<GuestMemory>,
    frame: Vec<u8>,
    len: usize,
    offload: Offload,
    /// Whether every packet is dropped on reception.
    drops: bool,
    left: usize,
    state: Arc<Mutex<Given>>,
}

/// Counts of a source.
#[derive(Debug, Default)]
struct Given {
    received: usize,
    completed: usize,
}

impl Source {
    fn new(frame: &[u8], (len, left): (usize, usize), offload: Offload) -> Self {
        let mut bytes = frame.to_vec();
        bytes.resize(len, 0);
        let memory =
            Arc::new(GuestMemory::new(vec![Arc::new(Region::of_bytes(bytes.into()).unwrap())]).unwrap());
        Self { memory, frame: frame.to_vec(), len, offload, drops: false, left, state: Arc::default() }
    }

    fn push(&mut self, burst: &mut Burst) {
        if self.len == self.frame.len() {
            assert!(burst.push_own(&self.frame));
            burst.give_back(BUF);
        } else {
            burst.pin(&self.memory);
            burst.push(BUF, self.memory.regions()[0].seg(0, self.len as u32).unwrap());
        }
        burst.set_offload(burst.len() - 1, self.offload);
    }
}

impl RxQueue for Source {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        while burst.room() > 0 && self.left > 0 {
            if self.drops {
                burst.give_back(BUF);
                stats.drop(DropReason::BadOffload, 1);
            } else {
                self.push(burst);
            }
            self.left -= 1;
            stats.packets += 1;
            stats.bytes += self.len as u64;
        }
        self.state.lock().unwrap().received += burst.len();
        Ok(())
    }

    fn complete(&mut self, buffers: &[BufId]) {
        self.state.lock().unwrap().completed += buffers.len();
    }

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(self.left > 0)
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// Calls and packets of an output.
#[derive(Debug)]
struct Taken {
    room: usize,
    calls: usize,
    packets: usize,
    bytes: usize,
    /// TCP sequence number of each packet with TCP headers.
    sequences: Vec<u32>,
}

impl Taken {
    fn new() -> Self {
        Self { room: usize::MAX, calls: 0, packets: 0, bytes: 0, sequences: Vec::new() }
    }
}

struct Sink(Arc<Mutex<Taken>>, Capabilities);

impl TxQueue for Sink {
    fn tx(&mut self, burst: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        let mut taken = self.0.lock().unwrap();
        taken.calls += 1;
        let n = indices.len().min(taken.room);
        for &pick in &indices[..n] {
            let len = burst.frame_len(pick.into());
            taken.packets += 1;
            taken.bytes += len;
            stats.packets += 1;
            stats.bytes += len as u64;
            let sequence = burst.head(pick.into()).get(38..42).and_then(|bytes| bytes.first_chunk().copied());
            taken.sequences.extend(sequence.map(u32::from_be_bytes));
        }
        taken.room -= n;
        Ok(n)
    }

    fn capabilities(&self) -> Capabilities {
        self.1
    }

    fn room(&mut self, _len: usize) -> usize {
        self.0.lock().unwrap().room
    }

    fn depth(&mut self) -> Option<usize> {
        Some(7)
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Sink(self.0.clone(), self.1))
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// Floods packets of port 0 to the outputs from number 2 on, and sends all others to port 1.
struct Flood(usize);

impl Pipeline for Flood {
    fn process(&mut self, burst: &mut Burst, context: &Context, out: &mut Verdicts) {
        for i in 0..burst.len() {
            if context.from == PortId(0) {
                out.flood(i..i + 1, (2..2 + self.0 as u16).map(PortId));
            } else {
                out.emit(i, PortId(1), EditId::NONE);
            }
        }
    }
}

/// Sends every packet to one port.
struct ToOne(u16);

impl Pipeline for ToOne {
    fn process(&mut self, burst: &mut Burst, _: &Context, out: &mut Verdicts) {
        out.emit_run(0..burst.len(), PortId(self.0), EditId::NONE);
    }
}

/// A worker with counting outputs.
struct Bench {
    worker: Worker,
    outputs: Vec<Arc<Mutex<Taken>>>,
}

impl Bench {
    fn new(outputs: usize, full: QueueFull, capabilities: Capabilities) -> Self {
        // The receiver of events is dropped, so reports are discarded.
        let link =
            Arc::new(Link::new(channel().0, Doorbell::new().unwrap(), ResponseLimit::default()).unwrap());
        let counters = Arc::new(WorkerCounters::new(PORTS));
        let parts = Parts {
            sleeper: Sleeper::new(link.doorbell.clone()).unwrap(),
            link,
            counters,
            pipeline: Box::new(Flood(outputs)),
            kernel: Choice::Portable,
            ticks_per_ns: TICKS,
            start: ticks(),
            numbers: PORTS,
            rss: Rss::default(),
            handoffs: Handoffs::new(Choice::Portable, PORTS, false),
        };
        let config = WorkerConfig { queue_full: full, ..WorkerConfig::default() };
        let mut bench = Self { worker: Worker::new(config, parts, Alone), outputs: Vec::new() };
        (0..outputs + 2).for_each(|port| bench.output(port, capabilities));
        bench
    }

    fn output(&mut self, port: usize, capabilities: Capabilities) {
        let taken = Arc::new(Mutex::new(Taken::new()));
        self.outputs.push(taken.clone());
        let key = key(port);
        let sink = Box::new(Sink(taken, capabilities));
        self.worker.handle(Command::StartTx(key, Generation(0), sink, [0].into()));
    }

    /// Starts a source on port `port`: `left` packets of `len` bytes that start with `frame`.
    fn source(
        &mut self,
        port: usize,
        frame: &[u8],
        (len, left): (usize, usize),
        offload: Offload,
    ) -> Arc<Mutex<Given>> {
        let source = Source::new(frame, (len, left), offload);
        let state = source.state.clone();
        self.worker.handle(Command::StartRx(key(port), Generation(0), Box::new(source)));
        state
    }

    fn at(&mut self, nanoseconds: u64) {
        self.worker.start = ticks() - (nanoseconds as f64 * TICKS) as u64;
    }

    fn sum(&self, of: impl Fn(&Taken) -> usize) -> usize {
        self.outputs.iter().map(|output| of(&output.lock().unwrap())).sum()
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.worker.counters.ports.iter().map(|port| port.drops[reason as usize].get()).sum()
    }

    /// Checks that every received packet and every copy was sent or counted as dropped.
    fn assert_sums_agree(&self) {
        let sum = |of: fn(&crate::counters::PortCounters) -> u64| -> u64 {
            self.worker.counters.ports.iter().map(|port| of(port)).sum()
        };
        let entered = sum(|port| port.rx_packets.get() + port.replicated.get());
        let left = sum(|port| {
            port.tx_packets.get() + port.drops.iter().map(crate::counters::Counter::get).sum::<u64>()
        });
        assert_eq!(entered, left);
    }
}

fn key(port: usize) -> QueueKey {
    QueueKey { port: PortId(port as u16), pair: 0 }
}

/// Headers of a TCP segment over IPv4.
fn tcp() -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 16, 0, 0, 0, 0, 0, 0]);
    frame
}

fn segments_of(size: u16) -> Offload {
    Offload::with_checksum(34, 16).with_segments(Segmentation::Tcp4, size, false)
}
