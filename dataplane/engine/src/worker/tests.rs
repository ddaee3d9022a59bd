//! Budget of turns and handling of carried bursts, with counting queues and a simulated clock.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use super::*;
use crate::bench::{StepConfig, SteppedWorker};
use crate::command::Command;
use crate::config::QueueFull;
use crate::link::{Doorbell, ResponseLimit};
use mem::{GuestMemory, Region};
use port::work::{self, BYTES, LEAD, RECEIVED, TURN, sending};
use port::{
    BufId, Capabilities, Context, DropReason, EditId, Offload, Pipeline, PortId, Segmentation, TxQueue,
    Verdicts,
};
use rustix::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::mpsc::channel;

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
            workers: 1,
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

#[test]
fn turn_copies_at_most_its_budget_and_one_frame() {
    let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    let given = bench.source(0, &[2; 60], (LONG, 64), Offload::NONE);
    let (mut before, mut rounds) = (0, 0);
    while given.lock().unwrap().completed < 64 {
        bench.worker.round();
        let bytes = bench.sum(|taken| taken.bytes);
        assert!(
            bytes - before <= TURN as usize * BYTES as usize + LONG,
            "{} bytes in a round",
            bytes - before
        );
        (before, rounds) = (bytes, rounds + 1);
    }
    assert_eq!(bench.sum(|taken| taken.packets), 64 * 60, "nothing is lost by being carried over");
    assert!(rounds > 64 * 60 * LONG / (TURN as usize * BYTES as usize + LONG));
    assert!(bench.worker.counters.carried_turns.get() > 0);
    bench.assert_sums_agree();
}

#[test]
fn short_unicast_and_long_flooded_frames_get_equal_work() {
    let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    bench.source(0, &[2; 60], (LONG, usize::MAX), Offload::NONE);
    let calm = bench.source(1, &[4; 60], (60, usize::MAX), Offload::NONE);
    for _ in 0..2_000 {
        bench.worker.round();
    }
    let calm = calm.lock().unwrap().completed;
    let copied: usize = bench.outputs[2..].iter().map(|taken| taken.lock().unwrap().bytes).sum();
    assert!(calm > 1_990 * 64, "no round passes it by: {calm}");
    // Each of its packets costs 47 units; a copied byte costs an eighth of a unit.
    assert!(
        copied as u64 / BYTES < calm as u64 * 50 + 2 * (TURN + LEAD),
        "{copied} bytes beside {calm} packets"
    );
}

#[test]
fn flooding_behind_a_handoff_queue_is_charged_to_its_port() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(Flood(60))).unwrap();
    let outputs: Vec<_> = (0..62).map(|_| Arc::new(Mutex::new(Taken::new()))).collect();
    for (port, taken) in outputs.iter().enumerate() {
        let left = if port < 2 { 64 * 500 } else { 0 };
        let source = Source::new(&[2; 60], (60, left), Offload::NONE);
        stages.start(
            PortId(port as u16),
            Box::new(source),
            Box::new(Sink(taken.clone(), Capabilities::NONE)),
        );
    }
    while outputs[1].lock().unwrap().packets < 64 * 500 {
        stages.round();
    }
    let copies: usize = outputs[2..].iter().map(|output| output.lock().unwrap().packets).sum();
    // The cost of the calm port's packets in front of the handoff queue, plus four bursts before the first debts are
    // settled.
    let calm = 500 * (64 * RECEIVED + sending(64, 64 * 60));
    let most = (64 * calm / sending(64, 64 * 60) + 4 * 60 * 64) as usize;
    assert!(copies <= most, "{copies} copies, {most} are the calm port's share");
    assert!(copies >= 60 * 64, "the port that floods is served, too: {copies}");
}

#[test]
fn segmentation_behind_a_handoff_queue_does_not_delay_other_packets() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(Flood(1))).unwrap();
    let outputs: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Taken::new()))).collect();
    let long = Source::new(&tcp(), (LONG, 200), segments_of(64));
    let calm = Source::new(&[2; 60], (60, 64 * 60), Offload::NONE);
    let silent = Source::new(&[2; 60], (60, 0), Offload::NONE);
    for (port, source) in [long, calm, silent].into_iter().enumerate() {
        let sink = Sink(outputs[port].clone(), Capabilities::NONE);
        stages.start(PortId(port as u16), Box::new(source), Box::new(sink));
    }
    let packets = |port: usize| outputs[port].lock().unwrap().packets;
    let (mut silent, mut longest) = (0, 0);
    for _ in 0..60 {
        let before = packets(1);
        stages.round();
        silent = if packets(1) == before { silent + 1 } else { 0 };
        longest = longest.max(silent);
    }
    assert!(longest <= 16, "nothing for {longest} rounds; {} packets", packets(1));
    assert!(packets(2) >= 1000, "{} segments", packets(2));
}

#[test]
fn drops_before_a_handoff_queue_count_for_the_input_port() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(ToOne(1))).unwrap();
    for (port, left) in [64, 0].into_iter().enumerate() {
        let sink = Sink(Arc::new(Mutex::new(Taken::new())), Capabilities::NONE);
        let source = Source::new(&[2; 60], (LONG, left), Offload::NONE);
        stages.start(PortId(port as u16), Box::new(source), Box::new(sink));
    }
    (0..2).for_each(|_| _ = stages.round());
    stages.stop(PortId(0));
    (0..1_000).for_each(|_| _ = stages.round());
    let counts = stages.counts();
    assert!(counts.received == 64 && counts.dropped > 0 && counts.sent > 0, "{counts:?}");
    assert_eq!(counts.received, counts.sent + counts.dropped);
}

#[test]
fn busy_handoff_queue_is_shared_by_cost() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(ToOne(3))).unwrap();
    let long = || Source::new(&tcp(), (LONG, usize::MAX), segments_of(64));
    let calm = Source::new(&[2; 60], (60, usize::MAX), Offload::NONE);
    let sink = Arc::new(Mutex::new(Taken::new()));
    let (long, calm) = ([long(), long()], calm);
    let states = [long[0].state.clone(), long[1].state.clone(), calm.state.clone()];
    let sources = long.into_iter().chain([calm, Source::new(&[2; 60], (60, 0), Offload::NONE)]);
    for (port, source) in sources.enumerate() {
        let sink = Sink(sink.clone(), Capabilities::NONE);
        stages.start(PortId(port as u16), Box::new(source), Box::new(sink));
    }
    (0..20_000).for_each(|_| _ = stages.round());
    let [first, second, calm] = states.map(|state| state.lock().unwrap().completed as u64);
    let segments = LONG as u64 / 64 * (work::SEGMENT + work::SENT) + LONG as u64 / BYTES;
    assert!(first.abs_diff(second) <= 64, "{first} and {second} long frames");
    assert!(
        calm * 2 * (RECEIVED + work::SENT) > first * segments,
        "{calm} packets beside {first} long frames"
    );
}

/// Units of work done before port 1's first packet, after port 0 had the stages alone.
fn work_in_front(alone: Source, flood: usize) -> u64 {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(Flood(flood))).unwrap();
    let is_cut = alone.offload != Offload::NONE;
    let mut start = |port: usize, source| {
        let taken = Arc::new(Mutex::new(Taken::new()));
        stages.start(
            PortId(port as u16),
            Box::new(source),
            Box::new(Sink(taken.clone(), Capabilities::NONE)),
        );
        taken
    };
    let silent = || Source::new(&[2; 60], (60, 0), Offload::NONE);
    let others: Vec<_> = (2..2 + flood).map(|port| start(port, silent())).collect();
    start(0, alone);
    (0..300).for_each(|_| _ = stages.round());
    let done = || -> u64 {
        let of = |taken: &Taken| {
            let segments = if is_cut { taken.packets as u64 * work::SEGMENT } else { 0 };
            taken.calls as u64 * work::OUTPUT
                + taken.packets as u64 * work::SENT
                + taken.bytes as u64 / BYTES
                + segments
        };
        others.iter().map(|taken| of(&taken.lock().unwrap())).sum()
    };
    let before = done();
    assert!(before > 0, "port 0 is served");
    let taken = Arc::new(Mutex::new(Taken::new()));
    let calm = Source::new(&[2; 60], (60, 64), Offload::NONE);
    stages.start(PortId(1), Box::new(calm), Box::new(Sink(taken.clone(), Capabilities::NONE)));
    while taken.lock().unwrap().packets == 0 {
        stages.round();
    }
    done() - before
}

#[test]
fn single_port_keeps_little_work_in_handoff_queues() {
    let segments = || Source::new(&tcp(), (LONG, usize::MAX), segments_of(64));
    let flood = |len| Source::new(&[2; 60], (len, usize::MAX), Offload::NONE);
    // Limits in turns; a single packet costs about two, eight, a sixth and fifteen turns.
    for (what, source, outputs, most) in [
        ("segments", segments(), 1, 8),
        ("segments for several", segments(), 4, 32),
        ("a flood", flood(60), 60, 8),
        ("a flood of long frames", flood(LONG), 60, 32),
    ] {
        let work = work_in_front(source, outputs);
        assert!(work <= most * TURN, "{what}: {} turns", work / TURN);
    }
}

#[test]
fn flooding_queue_gets_smaller_bursts() {
    let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    let given = bench.source(0, &[2; 60], (LONG, 1_000), Offload::NONE);
    while given.lock().unwrap().completed < 1_000 {
        let before = given.lock().unwrap().received;
        bench.worker.round();
        let taken = given.lock().unwrap().received - before;
        assert!(before < 128 || taken <= 1, "{taken} packets after {before}");
    }
}

#[test]
fn packet_is_segmented_once_for_all_outputs_with_room() {
    let mut bench = Bench::new(4, QueueFull::Drop, Capabilities::NONE);
    bench.outputs[5].lock().unwrap().room = 0;
    bench.outputs[4].lock().unwrap().room = 100;
    let payload = 64_000;
    let given = bench.source(0, &tcp(), (54 + payload, 2), segments_of(64));
    let mut spent = 0;
    while given.lock().unwrap().completed < 2 {
        bench.worker.round();
        spent += bench.worker.out.spent;
    }
    let segments = payload / 64;
    for output in 2..4 {
        let taken = bench.outputs[output].lock().unwrap();
        let expected: Vec<u32> = (0..2 * segments as u32).map(|n| n % segments as u32 * 64).collect();
        assert_eq!(taken.sequences, expected);
    }
    assert_eq!(bench.outputs[4].lock().unwrap().packets, 100);
    assert_eq!(bench.outputs[5].lock().unwrap().calls, 0, "nothing is made for it");
    let made = 2 * segments as u64 * port::work::SEGMENT;
    assert!(spent < 4 * made, "{spent} units for segments of {made}");
    // For the second packet, two outputs have no room at all.
    assert_eq!(bench.drops(DropReason::QueueFull), segments as u64 - 100 + 1 + 2);
    bench.assert_sums_agree();
}

#[test]
fn turn_creates_at_most_its_budget_of_segments_and_one_set() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    let given = bench.source(0, &tcp(), (54 + 64_000, 64), segments_of(64));
    let mut before = 0;
    while given.lock().unwrap().completed < 64 {
        bench.worker.round();
        let packets = bench.sum(|taken| taken.packets);
        assert!((packets - before) as u64 <= TURN / port::work::SEGMENT + 64, "{}", packets - before);
        before = packets;
    }
    assert_eq!(before, 64 * 1_000);
    bench.assert_sums_agree();
}

#[test]
fn outputs_with_segmentation_offload_get_the_whole_packet() {
    let mut bench = Bench::new(0, QueueFull::Drop, Capabilities::ALL);
    bench.worker.handle(Command::SetPipeline(Box::new(Flood(2))));
    bench.output(2, Capabilities::ALL);
    bench.output(3, Capabilities::NONE);
    let given = bench.source(0, &tcp(), (54 + 6_400, 3), segments_of(64));
    while given.lock().unwrap().completed < 3 {
        bench.worker.round();
    }
    let packets: Vec<usize> = bench.outputs[2..].iter().map(|taken| taken.lock().unwrap().packets).collect();
    assert_eq!(packets, [3, 300]);
    bench.assert_sums_agree();
}

#[test]
fn wait_for_full_queues_has_one_deadline_and_delays_no_other_queue() {
    let mut bench = Bench::new(60, QueueFull::Wait, Capabilities::NONE);
    bench.outputs[2..].iter().for_each(|output| output.lock().unwrap().room = 0);
    bench.source(0, &[2; 60], (60, 64), Offload::NONE);
    let calm = bench.source(1, &[4; 60], (60, usize::MAX), Offload::NONE);
    for round in 0..100_u64 {
        bench.at(round * 9_000);
        bench.worker.round();
        let calls = bench.outputs[2..].iter().map(|output| output.lock().unwrap().calls).max();
        // The round that carries the burst over retries at once.
        assert!(calls <= Some(round as usize + 2), "no output is tried again and again in a round");
    }
    assert_eq!(bench.drops(DropReason::QueueFull), 0, "the deadline has not passed");
    assert!(calm.lock().unwrap().completed > 98 * 64);
    bench.outputs[2].lock().unwrap().room = 64;
    bench.at(950_000);
    bench.worker.round();
    assert_eq!(bench.outputs[2].lock().unwrap().packets, 64, "an output that makes room gets what waits");
    bench.at(1_100_000);
    bench.worker.round();
    bench.worker.round();
    assert_eq!(bench.drops(DropReason::QueueFull), 59 * 64, "all that is left, at once");
}

#[test]
fn timed_out_output_behind_a_handoff_queue_is_not_waited_for_again_at_once() {
    let mut bench = Bench::new(1, QueueFull::Wait, Capabilities::NONE);
    bench.worker.out.credit = Some(0);
    bench.outputs[2].lock().unwrap().room = 0;
    bench.source(0, &[2; 60], (60, 4 * 64), Offload::NONE);
    for (time, lost) in [(0, 0), (1_100_000, 64), (1_200_000, 4 * 64)] {
        bench.at(time);
        (0..8).for_each(|_| _ = bench.worker.round());
        assert!(bench.drops(DropReason::QueueFull) >= lost, "at {time} ns");
    }
    bench.assert_sums_agree();
}

#[test]
fn segments_wait_for_full_queues_and_are_sent_once() {
    let mut bench = Bench::new(2, QueueFull::Wait, Capabilities::NONE);
    bench.outputs[2].lock().unwrap().room = 30;
    let given = bench.source(0, &tcp(), (54 + 6_400, 2), segments_of(64));
    for _ in 0..50 {
        bench.worker.round();
        bench.outputs[2].lock().unwrap().room += 7;
    }
    assert_eq!(given.lock().unwrap().completed, 2);
    let expected: Vec<u32> = (0..200).map(|n| n % 100 * 64).collect();
    for output in &bench.outputs[2..] {
        assert_eq!(output.lock().unwrap().sequences, expected);
    }
    assert_eq!(bench.drops(DropReason::QueueFull), 0);
    bench.assert_sums_agree();
}

#[test]
fn stopped_queue_gets_its_buffers_back_and_drops_are_counted() {
    for offload in [Offload::NONE, segments_of(64)] {
        let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
        let given = bench.source(0, &tcp(), (54 + 64_000, 128), offload);
        (0..4).for_each(|_| {
            bench.worker.round();
        });
        assert!(bench.worker.rx[0].account.carries());
        bench.worker.finish();
        bench.worker.handle(Command::StopRx(key(0)));
        let given = given.lock().unwrap();
        assert_eq!((given.received, given.completed), (128, 128));
        assert!(bench.drops(DropReason::SourceStopped) > 0);
        bench.assert_sums_agree();
    }
}

#[test]
fn sums_agree_for_random_packets_outputs_and_space() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for case in 0..200 {
        let full = if next(2) == 0 { QueueFull::Drop } else { QueueFull::Wait };
        let mut bench = Bench::new(1 + next(5) as usize, full, Capabilities::NONE);
        let len = 54 + 64 + next(60_000) as usize;
        let offload = if next(3) == 0 { Offload::NONE } else { segments_of(64 + next(3_000) as u16) };
        bench.source(0, &tcp(), (len, 1 + next(100) as usize), offload);
        bench.source(1, &[4; 60], (60, 100), Offload::NONE);
        let mut now = 0;
        for _ in 0..next(60) {
            let output = next(bench.outputs.len() as u64) as usize;
            bench.outputs[output].lock().unwrap().room = next(200) as usize;
            now += next(300_000);
            bench.at(now);
            bench.worker.round();
        }
        bench.worker.finish();
        bench.worker.handle(Command::StopRx(key(0)));
        bench.worker.handle(Command::StopRx(key(1)));
        bench.assert_sums_agree();
        assert!(bench.worker.rx.is_empty(), "case {case}");
    }
}

#[test]
fn queue_with_receive_drops_only_does_not_delay_others() {
    let mut bench = Bench::new(0, QueueFull::Drop, Capabilities::NONE);
    let useless = Source { drops: true, ..Source::new(&[2; 60], (60, usize::MAX), Offload::NONE) };
    bench.worker.handle(Command::StartRx(key(0), Generation(0), Box::new(useless)));
    let calm = bench.source(1, &[4; 60], (60, usize::MAX), Offload::NONE);
    for _ in 0..1_000 {
        bench.worker.round();
    }
    let calm = calm.lock().unwrap().completed;
    // A burst of the useless queue costs less than half of a calm one, so at least two of five rounds belong to the
    // calm queue.
    assert!(calm > 300 * 64, "{calm} packets beside a queue that brings none");
}
