//! Exchanges over a path that changes a bit of each twentieth frame in both directions.

use super::net::{Impairments, Net, Receive, Transmit};
use super::rng::Rng;
use super::sim::{ORIGIN, START, Scenario, plan_of, requests, seeds};
use stack::tcp::Options;
use stack::{Counters, Limits, LinkOffloads};
use std::time::Duration;

/// Changed frames in parts of 1000.
const CORRUPT: u64 = 50;
/// Bytes of requests and answers, in eighths.
const TOP: u64 = 4_000;

/// Time of a few requests over IPv6 or IPv4, from the call to open until both sides have closed, and the counters of
/// both stacks.
#[expect(clippy::large_stack_arrays, reason = "two hosts")]
fn run(seed: u64, is_v4: bool) -> (Duration, Counters) {
    let mut rng = Rng::new(seed);
    let path = Impairments { corrupt: CORRUPT, delay: Duration::from_micros(50), ..Impairments::default() };
    let mut scenario = Scenario {
        seed,
        is_v4,
        options: [Options::default(); 2],
        limits: [Limits::default(), Limits::default()],
        mtu: [1500; 2],
        offloads: [LinkOffloads::default(); 2],
        receive: [Receive::default(), Receive::default()],
        transmit: [64, 64].map(|room| Transmit { room, refill: Duration::from_micros(10) }),
        impairments: [path.clone(), path],
        plans: vec![plan_of(requests, &mut rng, START, TOP)],
        rng: rng.fork(),
    };
    let hosts = [scenario.host(0), scenario.host(1)];
    let mut net = Net::new(ORIGIN, hosts, scenario.impairments.clone(), rng.fork());
    while !net.hosts.iter().all(|host| host.app.is_done()) {
        assert!(net.step(START.after(Duration::from_mins(10))), "no end in ten minutes");
    }
    let mut counters = Counters::default();
    net.hosts.iter().for_each(|host| counters.add(host.stack.counters()));
    (Duration::from_micros(net.now.micros_since(START)), counters)
}

/// Most exchanges that lose a SYN or the first data are repaired by the initial timeout of a second and by probes.
/// Longer ones need several losses of the same segment, whose timeout doubles.
#[test]
fn exchanges_over_a_corrupting_path_end_soon() {
    for is_v4 in [false, true] {
        let seeds = seeds(20_000, 1_000);
        let mut times: Vec<_> = seeds.iter().map(|seed| (run(*seed, is_v4), seed)).collect();
        times.sort_by_key(|((time, _), _)| *time);
        let at = |share: usize| times[times.len() * share / 1000].0.0;
        let (worst, seed) = (&times[times.len() - 1].0, times[times.len() - 1].1);
        println!("IPv4 {is_v4}: {:?}, {:?}, {:?}, seed {seed}: {worst:?}", at(500), at(900), at(990));
        assert!(at(500) <= Duration::from_millis(300) && at(900) <= Duration::from_millis(1_500));
        assert!(at(990) <= Duration::from_secs(4), "{:?}", at(990));
    }
}
