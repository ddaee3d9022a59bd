//! Paths that lose long packets without a report, because ICMP is filtered (RFC 4821).

use super::*;
use stack::Slice;
use stack::tcp::CongestionAlgorithm;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two acknowledgements of the receiver.
const STEP: u64 = 10_000;

/// A receiver behind a path that loses packets longer than `mtu`.
struct Receiver {
    mtu: usize,
    peer: Peer,
    /// Segments out of order.
    held: BTreeMap<u32, u32>,
}

impl Receiver {
    fn new(victim: &mut Victim, mtu: usize) -> Self {
        let peer = victim.connect(1000);
        victim.host.sent.clear();
        Self { mtu, peer, held: BTreeMap::new() }
    }

    /// Receives what was sent in a step, and acknowledges it. Returns the number of bytes in order.
    fn step(&mut self, victim: &mut Victim) -> usize {
        victim.wait(STEP);
        let before = self.peer.rcv;
        let sent = std::mem::take(&mut victim.host.sent).into_iter().map(|(_, segment)| segment);
        for segment in sent.filter(|segment| segment.payload.len() + 40 <= self.mtu) {
            let len = self.held.entry(segment.seq).or_default();
            *len = (*len).max(segment.payload.len() as u32);
        }
        while let Some((seq, len)) = self.held.pop_first() {
            if seq > self.peer.rcv {
                self.held.insert(seq, len);
                break;
            }
            self.peer.rcv = self.peer.rcv.max(seq + len);
        }
        let blocks: Vec<_> = self.held.iter().take(3).map(|(seq, len)| (*seq, seq + len)).collect();
        let mut ack = victim.segment(self.peer.port, flag::ACK, (self.peer.snd, self.peer.rcv));
        if !blocks.is_empty() {
            ack.options = vec![TcpOption::Nop, TcpOption::Nop, TcpOption::Sack(blocks)];
        }
        victim.inject(&ack);
        (self.peer.rcv - before) as usize
    }
}

/// Receives all data at once. Returns the time in seconds, and the segment size at the end.
fn transfer(mtu: usize, bytes: usize) -> (u64, u16) {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let mut receiver = Receiver::new(&mut victim, mtu);
    let connection = victim.accepted()[0];
    victim.host.stack.send(connection, Slice::new(vec![5; bytes].into())).unwrap();
    let (start, mut received) = (victim.host.micros(), 0);
    while received < bytes {
        received += receiver.step(&mut victim);
        assert!(victim.host.micros() - start < 600 * SECOND, "{received} bytes in ten minutes");
    }
    (Duration::from_micros(victim.host.micros() - start).as_secs(), victim.info()[0].segment)
}

#[test]
fn full_segments_shrink_where_long_packets_are_lost_silently() {
    assert_eq!(transfer(1500, 100_000), (0, 1460));
    let (seconds, segment) = transfer(1400, 100_000);
    assert!(seconds <= 5 && segment == 1160, "{seconds} s, {segment} bytes");
    let (seconds, segment) = transfer(600, 20_000);
    assert!(seconds <= 60 && segment == 536, "{seconds} s, {segment} bytes");
}

/// Sends data for some seconds, 8000 bytes each 100 ms.
fn stream(victim: &mut Victim, receiver: &mut Receiver, seconds: u64) {
    let connection = victim.accepted()[0];
    for _ in 0..seconds * 10 {
        victim.host.stack.send(connection, Slice::new(vec![5; 8000].into())).expect("space");
        for _ in 0..SECOND / 10 / STEP {
            receiver.step(victim);
        }
    }
}

#[test]
fn the_size_that_a_path_carries_is_found_without_reductions() {
    for congestion in [CongestionAlgorithm::NewReno, CongestionAlgorithm::Cubic, CongestionAlgorithm::Bbr] {
        let mut victim = Victim::new(Limits::default(), Options { congestion, ..Options::default() });
        let mut receiver = Receiver::new(&mut victim, 1400);
        stream(&mut victim, &mut receiver, 10);
        let before = (victim.info()[0].window.1, *victim.host.stack.counters());
        stream(&mut victim, &mut receiver, 50);
        let (threshold, after) = (victim.info()[0].window.1, *victim.host.stack.counters());
        let segment = victim.info()[0].segment;
        assert!((1344..=1360).contains(&segment), "{congestion:?}: {segment} bytes");
        assert!(after.tcp_mtu_raised >= 2 && after.tcp_retransmits > before.1.tcp_retransmits);
        assert_eq!(threshold, before.0, "{congestion:?}: a lost probe is no sign of congestion");
        assert_eq!((after.tcp_timeouts, after.tcp_black_holes), (before.1.tcp_timeouts, 1), "{congestion:?}");
    }
}

/// An outage looks like a black hole: the first probe ends it. A path that became better is found by the timer.
#[test]
fn a_path_that_carries_long_packets_again_is_used_again() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let mut receiver = Receiver::new(&mut victim, 1400);
    stream(&mut victim, &mut receiver, 60);
    let found = victim.info()[0].segment;
    receiver.mtu = 1500;
    stream(&mut victim, &mut receiver, 300);
    assert_eq!(victim.info()[0].segment, found, "no probes before the timer");
    stream(&mut victim, &mut receiver, 330);
    assert_eq!((victim.info()[0].segment, victim.host.stack.counters().tcp_black_holes), (1460, 1));
}
