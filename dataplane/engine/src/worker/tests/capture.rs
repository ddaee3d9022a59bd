//! Captures on a worker: every packet that is counted is captured once where it was received, sent or dropped.

use super::*;
use crate::capture::{Capture, CaptureOptions, CapturedPort, CapturedPorts};
use port::pcap::{CaptureCounts, CaptureFile, Filter};

/// Everything at the ports of a bench, except port `without`.
fn everything(without: Option<usize>, filter: Option<Filter>) -> CaptureOptions {
    let ports = Arc::new(CapturedPorts::new(PORTS, CapturedPort::default()));
    for port in (0..PORTS as u16).filter(|port| Some(usize::from(*port)) != without) {
        ports.set(PortId(port), CapturedPort { interface: Some(port), is_followed: true });
    }
    CaptureOptions { ports, received: true, sent: true, dropped: true, filter, trace: None }
}

/// A bench whose packets were captured, and the file.
struct Captured {
    bench: Bench,
    counts: CaptureCounts,
    file: Vec<u8>,
}

impl Captured {
    /// Captures packets while `steps` run.
    fn during(options: CaptureOptions, mut bench: Bench, steps: impl FnOnce(&mut Bench)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = std::fs::File::create(&path).unwrap();
        let names: Vec<String> = (0..PORTS).map(|port| format!("port{port}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let file = CaptureFile::stream(file, &names, Some(64), None).unwrap();
        let capture = Capture::new(options, file.feed());
        let id = capture.id();
        bench.worker.handle(Command::StartCapture(Box::new(capture)));
        steps(&mut bench);
        bench.worker.handle(Command::StopCapture(id));
        assert!(!file.has_feeds(), "the worker has dropped its end");
        Self { bench, counts: file.close(), file: std::fs::read(&path).unwrap() }
    }

    /// Packets of the file with this comment.
    fn with_comment(&self, comment: &str) -> u64 {
        self.file.windows(comment.len()).filter(|bytes| *bytes == comment.as_bytes()).count() as u64
    }

    /// Checks that each packet that was dropped for `reason`, and no other, is in the file with it.
    fn assert_has_drops(&self, reason: DropReason) {
        let dropped = self.bench.drops(reason);
        assert!(dropped > 0, "{}", reason.name());
        assert_eq!(self.with_comment(&format!("dropped: {}", reason.name())), dropped, "{}", reason.name());
    }
}

/// Packets that a worker captures while it floods 20 packets of port 0 to ports 2 and 3.
fn captured_with(options: CaptureOptions, offload: Offload, prepare: impl FnOnce(&mut Bench)) -> Captured {
    let bench = Bench::new(2, QueueFull::Drop, Capabilities::NONE);
    Captured::during(options, bench, |bench| {
        bench.source(0, &tcp(), (tcp().len(), 20), offload);
        prepare(bench);
        for now in 0..10 {
            bench.at(now);
            bench.worker.round();
        }
        bench.assert_sums_agree();
    })
}

fn captured(options: CaptureOptions, prepare: impl FnOnce(&mut Bench)) -> (CaptureCounts, Bench) {
    let captured = captured_with(options, Offload::NONE, prepare);
    (captured.counts, captured.bench)
}

/// Port 2 has no room for some of them.
fn is_short(bench: &mut Bench) {
    bench.outputs[2].lock().unwrap().room = 7;
}

#[test]
fn received_sent_and_dropped_packets_are_captured() {
    let (counts, bench) = captured(everything(None, None), is_short);
    let sent = bench.sum(|taken| taken.packets) as u64;
    let full = bench.drops(DropReason::QueueFull);
    assert!(full > 0 && sent > 0, "{full} of {sent}");
    assert_eq!((counts.written, counts.missed), (20 + sent + full, 0));
}

#[test]
fn other_ports_and_packets_that_do_not_match_are_left_out() {
    let (counts, bench) = captured(everything(Some(2), None), is_short);
    let of_port_3 = bench.outputs[3].lock().unwrap().packets as u64;
    assert_eq!(counts.written, 20 + of_port_3);
    let none = "6 0 0 0".parse().unwrap();
    assert_eq!(captured(everything(None, Some(none)), is_short).0.written, 0);
}

#[test]
fn packets_for_a_port_without_a_queue_are_captured_as_dropped() {
    let stop = |bench: &mut Bench| {
        bench.worker.handle(Command::SetPipeline(Box::new(verdicts::EvenFlooded)));
        bench.worker.handle(Command::StopTx(key(2)));
    };
    let (counts, bench) = captured(everything(Some(1), None), stop);
    assert_eq!((bench.drops(DropReason::PortDown), bench.drops(DropReason::FloodPortDown)), (10, 10));
    assert_eq!(counts.written, 20 + 10, "received, and dropped unless flooded");
}

#[test]
fn a_number_that_gets_another_port_is_captured_as_that_port() {
    let (unknown, other) = (CapturedPort::default(), CapturedPort { interface: Some(9), is_followed: false });
    let ports = CapturedPorts::new(3, other);
    let first = CapturedPort { interface: Some(0), is_followed: true };
    ports.set(PortId(1), first);
    assert_eq!([0, 1, 2, 3].map(|id| ports.get(PortId(id))), [other, first, other, other]);
    ports.set(PortId(1), unknown);
    assert_eq!(ports.get(PortId(1)), unknown);
    let options = everything(None, None);
    let ports = options.ports.clone();
    let (counts, bench) = captured(options, |_| ports.set(PortId(2), unknown));
    assert_eq!(counts.written, 20 + bench.outputs[3].lock().unwrap().packets as u64);
}

#[test]
fn packets_whose_checksum_is_completed_are_captured_as_dropped_at_a_full_queue() {
    let captured = captured_with(everything(None, None), Offload::with_checksum(34, 16), is_short);
    let sent = captured.bench.sum(|taken| taken.packets) as u64;
    captured.assert_has_drops(DropReason::QueueFull);
    assert_eq!(captured.counts.written, 20 + sent + captured.bench.drops(DropReason::QueueFull));
}

#[test]
fn a_packet_of_which_segments_are_lost_is_captured_once_as_dropped() {
    let bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    let captured = Captured::during(everything(None, None), bench, |bench| {
        bench.outputs[2].lock().unwrap().room = 64;
        bench.source(0, &tcp(), (54 + 64 * 100, 1), segments_of(64));
        (0..10).for_each(|_| _ = bench.worker.round());
        bench.assert_sums_agree();
    });
    assert_eq!(captured.bench.drops(DropReason::QueueFull), 36);
    assert_eq!(captured.bench.worker.counters.port(PortId(2)).completed.get(), 100);
    assert_eq!((captured.with_comment("dropped: queue-full"), captured.counts.written), (1, 1 + 64 + 1));
}

#[test]
fn packets_that_cannot_be_segmented_are_captured_as_dropped() {
    let bench = Bench::new(2, QueueFull::Drop, Capabilities::NONE);
    let captured = Captured::during(everything(None, None), bench, |bench| {
        bench.source(0, &[2; 60], (60, 5), segments_of(64));
        (0..10).for_each(|_| _ = bench.worker.round());
    });
    captured.assert_has_drops(DropReason::BadOffload);
}

#[test]
fn packets_that_cannot_be_edited_are_captured_as_dropped() {
    struct Long;
    impl Pipeline for Long {
        fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
            let edit = verdicts.edit(&port::Edit::splice(0, 100, &[]).unwrap());
            verdicts.emit_run(0..burst.len(), PortId(2), edit);
        }
    }
    let captured = captured_with(everything(None, None), Offload::NONE, |bench| {
        bench.worker.handle(Command::SetPipeline(Box::new(Long)));
    });
    captured.assert_has_drops(DropReason::TooShort);
}

#[test]
fn packets_that_remain_of_a_stopped_source_or_output_are_captured_as_dropped() {
    let bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    let captured = Captured::during(everything(None, None), bench, |bench| {
        bench.source(0, &tcp(), (54 + 64_000, 128), Offload::NONE);
        (0..4).for_each(|_| _ = bench.worker.round());
        bench.worker.finish();
        bench.worker.handle(Command::StopRx(key(0)));
    });
    captured.assert_has_drops(DropReason::SourceStopped);
    let bench = Bench::new(1, QueueFull::Wait, Capabilities::NONE);
    let captured = Captured::during(everything(None, None), bench, |bench| {
        bench.worker.handle(Command::SetPipeline(Box::new(ToOne(2))));
        bench.outputs[2].lock().unwrap().room = 0;
        bench.source(0, &[2; 60], (60, 20), Offload::NONE);
        (0..2).for_each(|_| _ = bench.worker.round());
        bench.worker.handle(Command::StopTx(key(2)));
    });
    captured.assert_has_drops(DropReason::PortDown);
}

/// A queue of another kind: it keeps packets back and counts an older one as lost for each, or fails.
enum Other {
    Keeps,
    Fails,
}

impl TxQueue for Other {
    fn tx(&mut self, _: &Burst, indices: &[u8], stats: &mut BurstStats) -> Result<usize, PortFault> {
        match self {
            Self::Keeps => stats.drop(DropReason::ClassFull, indices.len() as u64),
            Self::Fails => return Err(PortFault::WorkerFailed),
        }
        Ok(indices.len())
    }

    fn keeps_back(&self) -> bool {
        matches!(self, Self::Keeps)
    }

    fn notify(&mut self) {}

    fn fork(&mut self) -> Box<dyn TxQueue> {
        Box::new(Self::Fails)
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// Captured packets that a queue of another kind at port 4 has taken.
fn taken_by(queue: Other) -> Captured {
    captured_with(everything(None, None), Offload::NONE, |bench| {
        bench.worker.handle(Command::SetPipeline(Box::new(ToOne(4))));
        bench.worker.handle(Command::StartTx(key(4), Generation(0), Box::new(queue), [0].into()));
    })
}

#[test]
fn a_queue_that_keeps_packets_back_has_no_outcome_of_those_that_it_takes() {
    let captured = taken_by(Other::Keeps);
    assert_eq!(captured.bench.drops(DropReason::ClassFull), 20, "of older packets");
    assert_eq!((captured.with_comment("queued: "), captured.with_comment("dropped: ")), (20, 0));
}

#[test]
fn packets_of_a_queue_that_fails_are_captured_as_dropped() {
    taken_by(Other::Fails).assert_has_drops(DropReason::PortFault);
}
