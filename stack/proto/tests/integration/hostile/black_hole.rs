//! Paths that lose long packets without a report, because ICMP is filtered (RFC 4821).

use super::*;
use stack::Slice;
use std::time::Duration;

/// Receives all data over a path that loses packets longer than `mtu`. Returns the time in seconds, and the segment size
/// at the end.
fn transfer(mtu: usize, bytes: usize) -> (u64, u16) {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    victim.host.sent.clear();
    victim.host.stack.send(connection, Slice::new(vec![5; bytes].into())).unwrap();
    let (start, mut received) = (victim.host.micros(), 0);
    while received < bytes {
        victim.wait(10_000);
        for (_, segment) in std::mem::take(&mut victim.host.sent) {
            let is_next = segment.seq == peer.rcv && segment.payload.len() + 40 <= mtu;
            received += if is_next { segment.payload.len() } else { 0 };
            peer.rcv += if is_next { segment.payload.len() as u32 } else { 0 };
        }
        victim.inject(&victim.segment(peer.port, flag::ACK, (peer.snd, peer.rcv)));
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
