//! Packets sent several times to one port in different forms, for any room, and pipelines with timers.

use super::*;
use port::Edit;
use std::time::Duration;

/// Offset of the sequence number in a TCP segment without IP options.
const SEQUENCE: usize = 38;

/// Sends every packet to port 1 once for each sequence number from 1 to `.0`, and to port 2 unchanged.
struct Numbered(u32);

impl Pipeline for Numbered {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        let edits: Vec<EditId> = (1..=self.0)
            .map(|number| {
                let mut edit = Edit::default();
                edit.patch(SEQUENCE, &number.to_be_bytes()).unwrap();
                verdicts.edit(&edit)
            })
            .collect();
        for i in 0..burst.len() {
            for edit in &edits {
                verdicts.emit(i, PortId(1), *edit);
            }
        }
        verdicts.emit_run(0..burst.len(), PortId(2), EditId::NONE);
    }
}

/// Sends every packet to port 1 with a VLAN tag inserted, and to port 2 unchanged.
struct Tagged;

impl Pipeline for Tagged {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        let edit = verdicts.edit(&Edit::splice(12, 0, &[0x81, 0, 0, 5]).unwrap());
        verdicts.emit_run(0..burst.len(), PortId(1), edit);
        verdicts.emit_run(0..burst.len(), PortId(2), EditId::NONE);
    }
}

#[test]
fn emissions_of_one_packet_keep_form_and_order_at_any_space() {
    let mut bench = Bench::new(1, QueueFull::Wait, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::new(Numbered(5))));
    let packets = 100;
    let given = bench.source(0, &tcp(), (tcp().len(), packets), Offload::NONE);
    bench.outputs[1].lock().unwrap().room = 0;
    let mut now = 0;
    while given.lock().unwrap().completed < packets {
        // The deadline never passes, so every queue is waited for.
        bench.at(now);
        bench.worker.round();
        bench.outputs[1].lock().unwrap().room = 7;
        now += 1;
    }
    let forms: Vec<u32> = (0..packets).flat_map(|_| 1..=5).collect();
    assert_eq!(bench.outputs[1].lock().unwrap().sequences, forms);
    assert_eq!(bench.outputs[2].lock().unwrap().sequences, vec![0; packets], "the received head stays");
    bench.assert_sums_agree();
}

#[test]
fn edited_packets_keep_no_memory_mapped() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::new(Tagged)));
    let source = Source::new(&tcp(), (1000, 200), Offload::NONE);
    let (memory, given) = (Arc::downgrade(&source.memory), source.state.clone());
    bench.worker.handle(Command::StartRx(key(0), Generation(0), Box::new(source)));
    while given.lock().unwrap().completed < 200 {
        bench.worker.round();
    }
    assert!(bench.outputs[1].lock().unwrap().packets == 200 && memory.strong_count() > 0);
    bench.worker.handle(Command::StopRx(key(0)));
    // Drops the queue, as the control thread does; no burst of the worker may hold its memory.
    drop(bench.worker.link.retired());
    assert_eq!(memory.strong_count(), 0);
}

#[test]
fn segmentation_uses_the_edited_packet() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::new(Tagged)));
    let given = bench.source(0, &tcp(), (54 + 10_000, 3), segments_of(1000));
    while given.lock().unwrap().completed < 3 {
        bench.worker.round();
    }
    let [tagged, plain] = [1, 2].map(|port| {
        let taken = bench.outputs[port].lock().unwrap();
        (taken.packets, taken.bytes)
    });
    assert_eq!((plain.0, plain.1), (30, 3 * (10_000 + 10 * 54)));
    assert_eq!((tagged.0, tagged.1), (30, plain.1 + 30 * 4));
    bench.assert_sums_agree();
}

#[test]
fn packet_shorter_than_its_edit_is_counted() {
    struct Long;
    impl Pipeline for Long {
        fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
            let edit = verdicts.edit(&Edit::splice(0, 100, &[]).unwrap());
            verdicts.emit_run(0..burst.len(), PortId(1), edit);
        }
    }
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::new(Long)));
    bench.source(0, &[2; 60], (60, 10), Offload::NONE);
    for _ in 0..3 {
        bench.worker.round();
    }
    assert_eq!(bench.drops(DropReason::TooShort), 10);
    bench.assert_sums_agree();
}

/// Records the times of its ticks; requests the next one after `period`, until `end`.
struct Timer {
    ran: Arc<Mutex<Vec<u64>>>,
    period: u64,
    end: u64,
}

impl Pipeline for Timer {
    fn process(&mut self, _: &mut Burst, _: &Context, _: &mut Verdicts) {}

    fn tick(&mut self, now: Now) -> Option<Now> {
        self.ran.lock().unwrap().push(now.0);
        (now.0 < self.end).then_some(Now(now.0 + self.period))
    }
}

#[test]
fn timers_run_when_due_and_end_sleep() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    let ran = Arc::default();
    let timer = |period, end| Box::new(Timer { ran: Arc::clone(&ran), period, end });
    bench.worker.handle(Command::SetPipeline(timer(1_000_000, 3_000_000)));
    for now in [0, 40_000, 80_000, 1_100_000, 1_140_000, 5_000_000] {
        bench.at(now);
        bench.worker.round();
    }
    let times = ran.lock().unwrap().iter().map(|now| now / 100_000).collect::<Vec<_>>();
    assert_eq!(times, [0, 11, 50], "once at the start, then when due");
    assert_eq!(bench.worker.until_timers(), None, "none runs any more");
    bench.worker.handle(Command::SetPipeline(timer(2_000_000, u64::MAX)));
    bench.worker.round();
    let limit = bench.worker.until_timers().unwrap();
    assert!(limit <= Duration::from_millis(2) && limit > Duration::from_millis(1), "{limit:?}");
}

/// Starts a timer of 10 ms for every packet.
#[derive(Default)]
struct Armed(Option<Now>);

impl Pipeline for Armed {
    fn process(&mut self, burst: &mut Burst, context: &Context, verdicts: &mut Verdicts) {
        self.0 = Some(Now(context.now.0 + 10_000_000));
        (0..burst.len()).for_each(|i| verdicts.drop(i, DropReason::NoDestination));
    }

    fn tick(&mut self, _: Now) -> Option<Now> {
        self.0
    }
}

#[test]
fn timer_started_by_a_packet_ends_the_next_sleep() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::<Armed>::default()));
    bench.at(0);
    bench.worker.round();
    assert_eq!(bench.worker.until_timers(), None, "no packet yet");
    bench.source(0, &[2; 60], (60, 1), Offload::NONE);
    (0..2).for_each(|_| _ = bench.worker.round());
    let key = key(0);
    bench.worker.handle(Command::StopRx(key));
    assert!(bench.worker.prepare_sleep());
    let limit = bench.worker.until_timers().unwrap();
    assert!(limit <= Duration::from_millis(10), "{limit:?}");
}

#[test]
fn busy_worker_runs_timers_started_by_packets() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::<Armed>::default()));
    bench.source(0, &[2; 60], (60, 1), Offload::NONE);
    for now in [0, 10_000, 20_000, 200_000] {
        bench.at(now);
        bench.worker.round();
    }
    assert!(bench.worker.until_timers().is_some());
}

/// Sends every packet to port 1 and, with a tag inserted, to port 2; even ones are flooded.
pub(super) struct EvenFlooded;

impl Pipeline for EvenFlooded {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        let edit = verdicts.edit(&Edit::splice(12, 0, &[0x81, 0, 0, 5]).unwrap());
        for i in 0..burst.len() {
            verdicts.emit(i, PortId(1), EditId::NONE);
            verdicts.emit(i, PortId(2), edit);
            if i % 2 == 0 {
                verdicts.mark_flooded(i..i + 1);
            }
        }
    }
}

fn stop_output(bench: &mut Bench, port: usize) {
    bench.worker.handle(Command::StopTx(key(port)));
}

#[test]
fn flooded_packets_for_a_port_without_a_peer_have_their_own_reason() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::new(EvenFlooded)));
    for port in [1, 2] {
        stop_output(&mut bench, port);
    }
    bench.source(0, &[2; 60], (60, 64), Offload::NONE);
    (0..3).for_each(|_| _ = bench.worker.round());
    assert_eq!((bench.drops(DropReason::FloodPortDown), bench.drops(DropReason::PortDown)), (64, 64));
    bench.assert_sums_agree();
}

#[test]
fn flooded_packets_of_a_carried_burst_keep_their_reason() {
    let mut bench = Bench::new(1, QueueFull::Wait, Capabilities::NONE);
    bench.worker.handle(Command::SetPipeline(Box::new(EvenFlooded)));
    bench.source(0, &[2; 60], (60, 64), Offload::NONE);
    bench.outputs[1].lock().unwrap().room = 0;
    bench.at(0);
    (0..3).for_each(|_| _ = bench.worker.round());
    stop_output(&mut bench, 1);
    assert_eq!((bench.drops(DropReason::FloodPortDown), bench.drops(DropReason::PortDown)), (32, 32));
    (0..3).for_each(|_| _ = bench.worker.round());
    assert_eq!(bench.outputs[2].lock().unwrap().packets, 64);
    bench.assert_sums_agree();
}

#[test]
fn segments_of_a_flooded_packet_for_a_port_without_a_peer_have_its_reason() {
    let mut bench = Bench::new(2, QueueFull::Wait, Capabilities::NONE);
    let packets = 2;
    bench.source(0, &tcp(), (54 + 10_000, packets), segments_of(1000));
    bench.outputs[2].lock().unwrap().room = 3;
    bench.at(0);
    (0..3).for_each(|_| _ = bench.worker.round());
    stop_output(&mut bench, 2);
    (0..5).for_each(|_| _ = bench.worker.round());
    assert!(bench.drops(DropReason::FloodPortDown) > 0);
    assert_eq!(bench.drops(DropReason::PortDown), 0);
    assert_eq!(bench.outputs[3].lock().unwrap().packets, 10 * packets);
    bench.assert_sums_agree();
}
