use super::*;
use crate::Description;
use crate::Sizes;
use crate::meter::Meter;
use engine::LocalPort;
use port::memif::Options;
use port::patch::{Exchange, Patch};
use port::wrap::{TxCoalesce, Wrappers, wrap};
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

fn timing(rate: &str) -> Timing {
    Timing {
        rate: rate.parse().unwrap(),
        pace: Pace::Constant,
        duration: Duration::from_millis(150),
        warm_up: Duration::from_millis(20),
        catch_up: None,
        timeout: Duration::from_secs(5),
        announce: true,
    }
}

fn run(streams: &[Description], rate: &str) -> Outcome {
    let rig = Rig::new(RigPorts::wire().unwrap(), streams, timing(rate), 1).unwrap();
    rig.run(&mut |_| true).unwrap()
}

fn stream(size: &str) -> Description {
    Description { size: size.parse::<Sizes>().unwrap(), ..Description::default() }
}

#[test]
fn loopback_loses_and_reorders_nothing() {
    let streams = [stream("60"), stream("imix"), stream("64,9212")];
    let outcome = run(&streams, "30kpps");
    assert!(outcome.sent > 0 && outcome.sent == outcome.received, "{outcome:?}");
    assert_eq!((outcome.lost, outcome.untagged, outcome.unknown_stream, outcome.faults), (0, 0, 0, 0));
    assert!(outcome.warm_up > 0 && outcome.returned == 0, "{outcome:?}");
    assert_eq!(outcome.streams.len(), 3);
    for stream in &outcome.streams {
        assert_eq!((stream.duplicates, stream.reordered, stream.too_late), (0, 0, 0));
        assert_eq!(stream.latency_ns.count, stream.received);
        assert_eq!(stream.histogram.iter().map(|(_, n)| n).sum::<u64>(), stream.received);
    }
}

#[test]
fn backlog_is_received_in_several_bursts_per_call() {
    let exchange = Exchange::default();
    let mut sides = [("a", "b"), ("b", "a")].map(|(name, peer)| {
        LocalPort::new(name, Box::new(Patch::new(name, peer, Options::default(), &exchange).unwrap()))
    });
    for rig_port in &mut sides {
        rig_port.open(Instant::now());
    }
    for rig_port in &mut sides {
        rig_port.poll_control(Instant::now());
    }
    let [from, to] = &mut sides;
    let mut burst = port::Burst::new();
    burst.begin(0);
    (0..port::BURST).for_each(|_| assert!(burst.push_own(&[2; 60])));
    // Five bursts are queued, as after a stall.
    (0..5).for_each(|_| assert_eq!(from.send(&burst, &port::PLACES), port::BURST));
    let mut meter = Meter::new(1, 1);
    let mut receive = || receive::<mem::copy::Portable>(to, &mut meter, || 0);
    assert_eq!([receive(), receive(), receive()], [4 * port::BURST, port::BURST, 0]);
}

#[test]
fn due_frames_are_sent_or_missed() {
    let mut ends = RigPorts::wire().unwrap();
    // A turn is longer than the phase, so most frames become due after the last query of the schedule.
    ends.inline_work = Some(InlineWork::new(|| std::thread::sleep(Duration::from_millis(30))));
    let timing = Timing { duration: Duration::from_millis(20), warm_up: Duration::ZERO, ..timing("100kpps") };
    let outcome = Rig::new(ends, &[stream("64")], timing, 1).unwrap().run(&mut |_| true).unwrap();
    assert_eq!((outcome.sent + outcome.missed.generator, outcome.missed.port), (2_000, 0), "{outcome:?}");
    assert_eq!(outcome.limit, Limit::Generator);
}

#[test]
fn coalesced_frames_are_sent_at_the_end() {
    let exchange = Exchange::default();
    let end =
        |name: &str, peer: &str| Box::new(Patch::new(name, peer, Options::default(), &exchange).unwrap());
    // Waits for more packets than ever arrive.
    let tx_coalesce = Some(TxCoalesce { frames: 256, delay: None });
    let gathers = wrap(end("a", "b"), "a", &Wrappers { tx_coalesce, ..Wrappers::default() }).unwrap();
    let (send, receive) = (LocalPort::new("a", gathers), Some(LocalPort::new("b", end("b", "a"))));
    let ends = RigPorts { send, receive, inline_work: None };
    let outcome = Rig::new(ends, &[stream("64")], timing("1kpps"), 1).unwrap().run(&mut |_| true).unwrap();
    assert!(outcome.sent > 0 && outcome.lost == 0 && outcome.warm_up > 0, "{outcome:?}");
}

/// Forwards received frames to another port as a switch would, or drops them. Returns their number.
fn pass(from: &mut LocalPort, to: &mut LocalPort, is_lost: bool) -> usize {
    from.receive(1, port::Now::default, |burst| {
        if !is_lost {
            to.send(burst, &port::PLACES[..burst.len()]);
        }
    })
}

/// A switch between sender and receiver that drops the first `lost` frames of the receiver and all frames sent before.
fn forgetful(lost: usize) -> RigPorts {
    let exchange = Exchange::default();
    let end = |name: &str, peer: &str| {
        LocalPort::new(name, Box::new(Patch::new(name, peer, Options::default(), &exchange).unwrap()))
    };
    let (send, receive) = (end("a", "to-a"), Some(end("b", "to-b")));
    let mut own = [end("to-a", "a"), end("to-b", "b")];
    for rig_port in &mut own {
        rig_port.open(Instant::now());
    }
    let mut heard = 0;
    let turn = move || {
        for rig_port in &mut own {
            rig_port.poll_control(Instant::now());
        }
        let [left, right] = &mut own;
        heard += pass(right, left, heard < lost);
        pass(left, right, heard <= lost);
        fence(Ordering::SeqCst);
        own.iter_mut().for_each(LocalPort::notify);
    };
    RigPorts { send, receive, inline_work: Some(InlineWork::new(turn)) }
}

#[test]
fn warm_up_and_announcements_last_until_a_frame_arrives() {
    let timing = Timing { warm_up: Duration::from_millis(1), ..timing("1kpps") };
    let outcome = Rig::new(forgetful(2), &[stream("64")], timing, 1).unwrap().run(&mut |_| true).unwrap();
    assert!(outcome.warm_up > 0 && outcome.lost == 0 && outcome.returned == 0, "{outcome:?}");
}

#[test]
fn announcement_is_not_counted_without_warm_up() {
    let timing = Timing { warm_up: Duration::ZERO, ..timing("1kpps") };
    let outcome = Rig::new(forgetful(0), &[stream("64")], timing, 1).unwrap().run(&mut |_| true).unwrap();
    assert!(outcome.received > 0 && outcome.returned == 0, "{outcome:?}");
}

#[test]
fn unlimited_rate_names_the_limiting_side() {
    let outcome = run(&[stream("64")], "max");
    assert_ne!(outcome.limit, Limit::None);
    assert_eq!((outcome.lost, outcome.streams[0].asked_pps), (0, None));
}

#[test]
fn port_that_never_connects_is_named() {
    let mut ends = RigPorts::wire().unwrap();
    ends.receive = None;
    let timing = Timing { timeout: Duration::from_millis(10), ..timing("1kpps") };
    let told =
        Rig::new(ends, &[stream("64")], timing, 1).unwrap().run(&mut |_| true).unwrap_err().to_string();
    assert!(
        told.starts_with("port wire-a carried no packets within 10ms: waiting for a connection"),
        "{told}"
    );
}

#[test]
fn watcher_can_end_the_run_with_partial_results() {
    let ends = RigPorts::wire().unwrap();
    let timing = Timing { duration: Duration::from_mins(10), ..timing("10kpps") };
    let rig = Rig::new(ends, &[stream("64")], timing, 1).unwrap();
    let outcome = rig.run(&mut |progress| progress.sent < 100).unwrap();
    assert!(outcome.interrupted && outcome.sent >= 100 && outcome.lost == 0, "{outcome:?}");
}

#[test]
fn streams_are_validated_before_ports_open() {
    let validated = |streams: &[Description]| {
        Rig::new(RigPorts::wire().unwrap(), streams, timing("1kpps"), 1).unwrap_err().to_string()
    };
    assert_eq!(validated(&[]), "invalid number of streams 0; describe 1 to 256");
    assert!(validated(&[stream("64"), stream("59")]).starts_with("stream 1: `size`: a size of 59 bytes"));
}
