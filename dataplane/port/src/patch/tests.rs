use super::*;
use crate::memif::Options;
use crate::vhost_user::fake::FakeEngine;
use crate::{Burst, BurstStats, PortControl, PortFault, PortState};
use mem::copy::Portable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

struct End {
    port: Patch,
    engine: FakeEngine,
}

impl End {
    fn new(name: &str, peer: &str, options: Options, exchange: &Exchange) -> Self {
        let port = Patch::new(name, peer, options, exchange).unwrap();
        Self { port, engine: FakeEngine::default() }
    }

    /// One step of the engine's control thread.
    fn turn(&mut self, now: Instant) {
        let fd = self.port.poll_fd().unwrap();
        let readable = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&Timespec::default())).unwrap() > 0;
        if readable || self.port.deadline().is_some_and(|at| at <= now) {
            self.port.handle(now, &mut self.engine);
        }
    }
}

fn pass(from: &mut End, to: &mut End, pair: u16) -> Vec<u8> {
    let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
    burst.begin(0);
    assert!(burst.push_own(&[7; 99]));
    assert_eq!(from.engine.tx.get_mut(&pair).unwrap().tx(&burst, &[0], &mut stats).unwrap(), 1);
    let rx = to.engine.rx.get_mut(&pair).unwrap();
    burst.begin(0);
    rx.rx(&mut burst, &mut stats).unwrap();
    burst.load_heads::<Portable>();
    let frame = burst.head(0).to_vec();
    rx.complete(burst.buf_ids());
    frame
}

#[test]
fn ends_connect_in_either_order_and_reconnect() {
    let (exchange, now) = (Exchange::default(), Instant::now());
    let options = Options { queue_pairs: 2, ring_size: 128, ..Options::default() };
    let mut ends = [("b", "a"), ("a", "b")].map(|(name, peer)| End::new(name, peer, options, &exchange));
    for round in 1..5 {
        for end in &mut ends {
            end.port.handle(now, &mut end.engine);
        }
        for end in &mut ends {
            end.turn(now);
        }
        let [one, other] = &mut ends;
        for pair in 0..2 {
            assert_eq!(pass(one, other, pair), [7; 99]);
            assert_eq!(pass(other, one, pair), [7; 99]);
        }
        let status = one.port.status();
        assert_eq!((status.state, status.kind, status.queues.len()), (PortState::Connected, "patch", 2));
        let gone = round % 2;
        let (name, peer) = if gone == 0 { ("b", "a") } else { ("a", "b") };
        let mut left = std::mem::replace(&mut ends[gone], End::new(name, peer, options, &exchange));
        left.port.close(&mut left.engine);
        ends[1 - gone].turn(now);
        let alone = &ends[1 - gone];
        assert!(matches!(alone.port.status().state, PortState::Waiting(_)));
        assert!(alone.engine.rx.is_empty() && alone.engine.tx.is_empty());
    }
}

#[test]
fn an_end_without_a_peer_says_so_until_it_connects() {
    let (exchange, now) = (Exchange::default(), Instant::now());
    let mut end = End::new("a", "b", Options::default(), &exchange);
    end.port.handle(now, &mut end.engine);
    assert_eq!(end.port.status().state, PortState::Waiting(None), "the peer may follow");
    let due = end.port.deadline().unwrap();
    end.turn(due);
    let reason = PortFault::Unreachable("port \"b\" is missing or not ready".to_owned());
    assert_eq!(end.port.status().state, PortState::Waiting(Some(reason)));
    assert_eq!(end.port.deadline(), None);
    let mut other = End::new("b", "a", Options::default(), &exchange);
    other.port.handle(due, &mut other.engine);
    end.turn(due);
    assert_eq!(end.port.status().state, PortState::Connected);
}

#[test]
fn fault_of_one_end_disconnects_both_until_the_pause_ends() {
    let (exchange, mut now) = (Exchange::default(), Instant::now());
    let options = Options::default();
    let mut ends = [("a", "b"), ("b", "a")].map(|(name, peer)| End::new(name, peer, options, &exchange));
    for end in &mut ends {
        end.port.handle(now, &mut end.engine);
    }
    for end in &mut ends {
        end.turn(now);
    }
    let [one, other] = &mut ends;
    one.port.fault(now, PortFault::MemoryLost, &mut one.engine);
    other.turn(now);
    assert_eq!(one.port.status().state, PortState::Faulted(PortFault::MemoryLost));
    assert!(matches!(other.port.status().state, PortState::Waiting(_)));
    assert!(one.engine.rx.is_empty() && other.engine.rx.is_empty());
    one.turn(now);
    assert!(one.engine.rx.is_empty(), "the pause is not over");
    now += Duration::from_secs(2);
    one.turn(now);
    other.turn(now);
    assert_eq!(pass(one, other, 0), [7; 99]);
}

#[test]
fn ends_of_different_pairs_never_connect() {
    let (exchange, now) = (Exchange::default(), Instant::now());
    let names = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")];
    let mut ends = names.map(|(name, peer)| End::new(name, peer, Options::default(), &exchange));
    for end in &mut ends {
        end.port.handle(now, &mut end.engine);
        assert!(matches!(end.port.status().state, PortState::Waiting(_)));
    }
    drop(ends);
    let mut other = End::new("b", "a", Options::default(), &exchange);
    other.port.handle(now, &mut other.engine);
    assert!(other.engine.rx.is_empty(), "a dropped end leaves the pair");
}
