//! Captures on a worker: every packet that is counted is captured once where it was received, sent or dropped.

use super::*;
use crate::capture::{Capture, CaptureOptions};
use port::pcap::{CaptureCounts, CaptureFile, Filter};

/// Everything at the ports of a bench, except port `without`.
fn everything(without: Option<usize>, filter: Option<Filter>) -> CaptureOptions {
    let interfaces = (0..PORTS).map(|port| (Some(port) != without).then_some(port as u16)).collect();
    CaptureOptions { interfaces, received: true, sent: true, dropped: true, filter, trace: None }
}

/// Packets that a worker captures while it floods 20 packets of port 0 to ports 2 and 3.
fn captured(options: CaptureOptions, prepare: impl FnOnce(&mut Bench)) -> (CaptureCounts, Bench) {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("x")).unwrap();
    let names: Vec<String> = (0..PORTS).map(|port| format!("port{port}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let file = CaptureFile::stream(file, &names, None, None).unwrap();
    let mut bench = Bench::new(2, QueueFull::Drop, Capabilities::NONE);
    let capture = Capture::new(options, file.feed());
    let id = capture.id();
    bench.worker.handle(Command::StartCapture(Box::new(capture)));
    bench.source(0, &tcp(), (tcp().len(), 20), Offload::NONE);
    prepare(&mut bench);
    for now in 0..10 {
        bench.at(now);
        bench.worker.round();
    }
    bench.assert_sums_agree();
    bench.worker.handle(Command::StopCapture(id));
    assert!(!file.has_feeds(), "the worker has dropped its end");
    (file.close(), bench)
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
