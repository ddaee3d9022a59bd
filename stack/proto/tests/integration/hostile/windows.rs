//! Windows that stay small or closed, and acknowledgements that claim too much.

use super::*;
use stack::{Closed, SendError, Slice};
use std::time::Duration;

const CHUNK: usize = 4096;

/// Queues data until the send buffer is full, and returns the number of bytes.
fn fill(victim: &mut Victim, connection: ConnectionId) -> usize {
    let mut queued = 0;
    loop {
        let chunk: Bytes = Arc::from([9; CHUNK]);
        match victim.host.stack.send(connection, Slice::new(chunk)) {
            Ok(()) => queued += CHUNK,
            Err(SendError::Full) => return queued,
            Err(SendError::Closed) => panic!("the connection is closed"),
        }
    }
}

fn closed(victim: &Victim) -> Option<Closed> {
    victim.host.events.iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(*reason),
        _ => None,
    })
}

/// Answers each probe of a closed window for this many seconds. Returns the number of segments that the stack sent.
fn keep_closed(victim: &mut Victim, peer: Peer, seconds: u64) -> usize {
    let mut sent = 0;
    for _ in 0..seconds {
        if victim.wait(SECOND) > 0 {
            let closed = Segment { window: 0, ..victim.segment(peer.port, flag::ACK, (peer.snd, peer.rcv)) };
            sent += 1 + victim.inject(&closed);
        }
    }
    sent
}

#[test]
fn hostile_windows_that_stay_closed_cost_a_probe_a_minute_and_end_with_the_connection() {
    let limits = Limits { send_buffer: 65_536, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    victim.inject(&Segment { window: 0, ..victim.segment(peer.port, flag::ACK, (peer.snd, peer.rcv)) });
    assert_eq!(fill(&mut victim, connection), 65_536);
    let sent = keep_closed(&mut victim, peer, 24 * 3600);
    assert!((24 * 60..24 * 60 + 30).contains(&sent), "{sent} probes in a day");
    assert_eq!((victim.info().len(), closed(&victim)), (1, None), "the peer is alive");
    victim.host.stack.abort(connection);
    victim.host.pump();
    assert_eq!((victim.info().len(), closed(&victim)), (0, Some(Closed::Aborted)));
    assert!(victim.host.sent.back().unwrap().1.has(flag::RST));
}

/// RFC 6429: the application has closed, so it cannot end a connection whose window stays closed. The user timeout
/// does.
#[test]
fn hostile_windows_that_stay_closed_after_closing_end_by_the_user_timeout() {
    let options = Options { user_timeout: Duration::from_mins(2), ..Options::default() };
    let mut victim = Victim::new(Limits::default(), options);
    let peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    victim.inject(&Segment { window: 0, ..victim.segment(peer.port, flag::ACK, (peer.snd, peer.rcv)) });
    victim.host.stack.send(connection, Slice::new(Arc::from([9; CHUNK]))).unwrap();
    keep_closed(&mut victim, peer, 600);
    assert_eq!(closed(&victim), None, "open connections may wait");
    victim.host.stack.close(connection);
    keep_closed(&mut victim, peer, 100);
    assert_eq!(closed(&victim), None);
    keep_closed(&mut victim, peer, 60);
    assert_eq!((victim.info().len(), closed(&victim)), (0, Some(Closed::TimedOut)));
}

/// A window of one byte: each acknowledgement releases at most one segment.
#[test]
fn hostile_windows_of_one_byte_release_a_segment_for_each_acknowledgement() {
    let limits = Limits { send_buffer: 65_536, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let syn = Segment { window: 1, ..victim.segment(1000, flag::SYN, (IRS, 0)) };
    victim.inject(&syn);
    let iss = victim.host.sent.back().unwrap().1.seq;
    let mut peer = Peer { port: 1000, snd: IRS + 1, rcv: iss + 1 };
    victim.inject(&Segment { window: 1, ..victim.segment(1000, flag::ACK, (peer.snd, peer.rcv)) });
    let connection = victim.accepted()[0];
    fill(&mut victim, connection);
    victim.host.pump();
    for _ in 0..2000 {
        victim.wait(SECOND);
        let last = victim.host.sent.back().unwrap().1.clone();
        assert!(last.payload.len() <= 1);
        peer.rcv = last.seq + last.payload.len() as u32;
        let ack = Segment { window: 1, ..victim.segment(1000, flag::ACK, (peer.snd, peer.rcv)) };
        assert!(victim.inject(&ack) <= 1);
    }
    assert_eq!(victim.info()[0].segment, 536);
}

/// The smallest segment size that a peer can ask for is 88 bytes, so that headers are less than half of the bytes.
#[test]
fn hostile_segment_sizes_have_a_lower_bound() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    victim.connect_with(1000, vec![TcpOption::Mss(1)]);
    let connection = victim.accepted()[0];
    victim.host.sent.clear();
    victim.host.stack.send(connection, Slice::new(Arc::from([9; 880]))).unwrap();
    victim.host.pump();
    assert!(victim.host.sent.iter().all(|(_, segment)| segment.payload.len() == 88));
    assert_eq!(victim.host.sent.len(), 10);
}

/// Acknowledgements of parts of a segment (RFC 3465) and of bytes before they arrive do not grow the window beyond what
/// was sent, and those of bytes that were not sent change nothing.
#[test]
fn hostile_acknowledgements_grow_the_window_by_acknowledged_bytes_only() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    fill(&mut victim, connection);
    victim.host.pump();
    let first = victim.info()[0].window.0;
    for step in 1..=1000 {
        victim.inject(&victim.segment(peer.port, flag::ACK, (peer.snd, peer.rcv + step)));
    }
    peer.rcv += 1000;
    let divided = victim.info()[0].window.0;
    assert!(divided <= first + 1000, "{first} to {divided} for 1000 bytes");
    let flight = victim.info()[0].in_flight;
    for beyond in 1..100 {
        let ack = victim.segment(peer.port, flag::ACK, (peer.snd, peer.rcv + flight + beyond));
        assert!(victim.inject(&ack) <= 1);
    }
    assert_eq!((victim.info()[0].window.0, victim.info()[0].in_flight), (divided, flight));
}
