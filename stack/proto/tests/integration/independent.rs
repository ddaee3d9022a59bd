//! The stack and smoltcp exchange streams over the simulated network.

use super::app::App;
use super::net::{Host, Net, Node};
use super::rng::Rng;
use super::sim::{ORIGIN, START, Scenario, exchange, half_close, plan_of, requests, run_all, seeds};
use super::smol::Smol;
use stack::{Closed, Time};
use std::time::Duration;

/// A host of either kind.
pub(crate) enum Peer {
    Ours(Box<Host<App>>),
    Smol(Box<Smol>),
}

impl Peer {
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Ours(host) => host.app.is_done(),
            Self::Smol(host) => host.is_done(),
        }
    }
}

impl Node for Peer {
    fn wake(&self, now: Time) -> Time {
        match self {
            Self::Ours(host) => host.wake(now),
            Self::Smol(host) => host.wake(now),
        }
    }

    fn run(&mut self, now: Time, rng: &mut Rng) {
        match self {
            Self::Ours(host) => host.run(now, rng),
            Self::Smol(host) => host.run(now, rng),
        }
    }

    fn take(&mut self, frame: Vec<u8>, now: Time) {
        match self {
            Self::Ours(host) => host.take(frame, now),
            Self::Smol(host) => host.take(frame, now),
        }
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        match self {
            Self::Ours(host) => host.sent(),
            Self::Smol(host) => host.sent(),
        }
    }
}

/// Parameters that a seed selects, within the features of smoltcp: no path MTU discovery, no simultaneous open, no
/// cookies.
fn scenario(seed: u64) -> Scenario {
    let mut scenario = Scenario::new(seed);
    scenario.mtu = [1500; 2];
    for path in &mut scenario.impairments {
        (path.mtu, path.down) = (None, None);
        path.loss = path.loss.min(100);
    }
    scenario.limits[0].half_open = 4096;
    let mut rng = scenario.rng.fork();
    let is_clean = scenario.impairments.iter().all(|path| path.loss + path.corrupt + path.reorder.0 == 0);
    let top = if is_clean { 300_000 } else { 20_000 };
    let mut at = START;
    scenario.plans = (0..rng.within(1..12))
        .map(|_| {
            at = at.after(rng.micros(0..100_000));
            let kind = rng.pick(&[exchange, requests, half_close]);
            plan_of(kind, &mut rng, at, top)
        })
        .collect();
    scenario
}

fn run(seed: u64) {
    let mut scenario = scenario(seed);
    let ours = scenario.host(0);
    let buffer = scenario.rng.magnitude(4096..200_000) as usize;
    let smol = Smol::new(1, scenario.addresses(), (seed, buffer), &scenario.plans, ORIGIN);
    let hosts = [Peer::Ours(Box::new(ours)), Peer::Smol(Box::new(smol))];
    let mut net = Net::new(ORIGIN, hosts, scenario.impairments.clone(), scenario.rng.fork());
    let limit = ORIGIN.after(Duration::from_hours(2));
    let mut steps = 0;
    while !net.hosts.iter().all(Peer::is_done) && net.step(limit) {
        steps += 1;
        assert!(steps < 1_000_000, "no end");
    }
    let [Peer::Ours(ours), Peer::Smol(smol)] = &net.hosts else { unreachable!("one of each") };
    assert!(ours.app.is_done(), "no end: {:?}", ours.app.pending());
    for (number, plan) in scenario.plans.iter().enumerate() {
        let [first, second] = [plan.sides[0].total(), plan.sides[1].total()];
        let end = ours.app.ends[&number];
        assert_eq!((end.sent, end.received, end.has_finished), (first, second, true), "connection {number}");
        assert_eq!(end.reason, Closed::Normally, "connection {number}");
        assert_eq!(smol.ends[number], Some((second, first)), "connection {number} at smoltcp");
    }
}

#[test]
fn streams_pass_between_the_stack_and_smoltcp() {
    run_all(&seeds(5_000, 100), run);
}
