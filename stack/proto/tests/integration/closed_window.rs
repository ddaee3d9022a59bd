//! A reader that stops for a minute: its window closes, the sender probes it at growing intervals, and nothing is lost.

use super::app::{After, End, Plan, Side};
use super::independent::Peer;
use super::net::{Impairments, Net, Receive, Transmit};
use super::sim::{ORIGIN, START, Scenario, side};
use super::smol::Smol;
use stack::tcp::Options;
use stack::{Closed, Limits, LinkOffloads, Time};
use std::time::Duration;

const PAUSE: Duration = Duration::from_mins(1);
/// Receive and send buffer in bytes.
const BUFFER: u32 = 65_536;
/// Bytes of the stream.
const TOTAL: u64 = 1_000_000;
/// Time in which a window closes after the start, or a stream ends after the pause.
const SETTLED: Duration = Duration::from_secs(2);

/// Host 1 sends a stream to host 0, which pauses at its first byte.
fn scenario() -> Scenario {
    let reader = Side { pause: Some((1, PAUSE)), ..side(Vec::new(), After::Finished) };
    let sender = side(vec![(After::Received(0), TOTAL)], After::Received(0));
    let limits = Limits { receive_buffer: BUFFER, send_buffer: BUFFER, ..Limits::default() };
    let path = Impairments { delay: Duration::from_millis(5), ..Impairments::default() };
    Scenario {
        is_v4: true,
        options: [Options::default(); 2],
        limits: [limits.clone(), limits],
        mtu: [1500; 2],
        offloads: [LinkOffloads::default(); 2],
        receive: [Receive::default(), Receive::default()],
        transmit: [(); 2].map(|()| Transmit { room: 64, refill: Duration::from_micros(10) }),
        impairments: [path.clone(), path],
        plans: vec![Plan { at: START, opener: 1, is_simultaneous: false, sides: [reader, sender] }],
        ..Scenario::new(0)
    }
}

/// Asserts that each end holds at most its buffer.
fn check_memory(hosts: &[Peer; 2]) {
    for host in hosts {
        let Peer::Ours(host) = host else { continue };
        for info in host.stack.connections() {
            assert!(info.held + info.out_of_order <= BUFFER, "{info:?}");
            assert!(info.queued <= BUFFER, "{info:?}");
        }
    }
}

/// Runs the stream, and checks its end. Returns the times at which segments arrived at the reader.
fn transfer(sender: fn(&mut Scenario) -> Peer) -> Vec<Time> {
    let mut scenario = scenario();
    let hosts = [Peer::Ours(Box::new(scenario.host(0))), sender(&mut scenario)];
    let mut net = Net::new(ORIGIN, hosts, scenario.impairments.clone(), scenario.rng.fork());
    let (mut arrivals, mut segments) = (Vec::new(), 0);
    while !net.hosts.iter().all(Peer::is_done) && net.step(START.after(PAUSE + SETTLED)) {
        check_memory(&net.hosts);
        let Peer::Ours(reader) = &net.hosts[0] else { unreachable!("the reader is ours") };
        let tcp_in = reader.stack.counters().tcp_in;
        if std::mem::replace(&mut segments, tcp_in) < tcp_in {
            arrivals.push(net.now);
        }
    }
    let all = End { reason: Closed::Normally, sent: 0, received: TOTAL, has_finished: true };
    match &net.hosts {
        [Peer::Ours(reader), Peer::Ours(sender)] => {
            assert_eq!(reader.app.ends.get(&0), Some(&all));
            assert_eq!(sender.app.ends.get(&0), Some(&End { sent: TOTAL, received: 0, ..all }));
        }
        [Peer::Ours(reader), Peer::Smol(sender)] => {
            assert_eq!(reader.app.ends.get(&0), Some(&all));
            assert_eq!(sender.ends, [Some((TOTAL, 0))]);
        }
        _ => unreachable!("the reader is ours"),
    }
    arrivals
}

/// Asserts that the segments during the pause are a few probes, each after a longer time than the one before.
fn check_probes(arrivals: &[Time]) {
    let paused = START.after(SETTLED)..START.after(PAUSE);
    let probes: Vec<_> = arrivals.iter().filter(|at| paused.contains(at)).map(|at| at.micros()).collect();
    assert!((3..=8).contains(&probes.len()), "{probes:?}");
    let intervals: Vec<_> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(intervals.windows(2).all(|pair| pair[1] * 2 > pair[0] * 3), "{intervals:?}");
}

#[test]
fn a_window_that_is_closed_for_a_minute_loses_nothing_of_the_stack() {
    check_probes(&transfer(|scenario| Peer::Ours(Box::new(scenario.host(1)))));
}

#[test]
fn a_window_that_is_closed_for_a_minute_loses_nothing_of_smoltcp() {
    check_probes(&transfer(|scenario| {
        let addresses = scenario.addresses();
        Peer::Smol(Box::new(Smol::new(1, addresses, (scenario.seed, 65_536), &scenario.plans, ORIGIN)))
    }));
}
