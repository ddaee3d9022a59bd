//! Memory that a peer can make the stack hold: it is limited for each connection and for all, and is returned.

use super::*;

/// Payload of single bytes, each in a frame of its own, at every second number.
fn scatter(victim: &mut Victim, peer: Peer, count: u32) {
    for i in 0..count {
        let byte = peer.at(victim, 1 + 2 * i, b"x");
        assert!(victim.inject(&byte) <= 1, "more than one answer");
    }
}

#[test]
fn hostile_bytes_out_of_order_are_limited_for_each_connection_and_for_all() {
    let limits = Limits { out_of_order_ranges: 16, out_of_order_bytes: 10 * 4096, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let peers: Vec<_> = (1000..1030).map(|port| victim.connect(port)).collect();
    for peer in &peers {
        scatter(&mut victim, *peer, 40);
        let info = victim.info().into_iter().find(|info| info.remote.port == peer.port).unwrap();
        assert!(info.out_of_order <= 16);
    }
    // A frame counts as 256 bytes at least, because it occupies a buffer.
    assert_eq!(victim.held_frames(), 10 * 4096 / 256);
    let connections = victim.accepted();
    for connection in &connections[..15] {
        victim.host.stack.abort(*connection);
    }
    victim.host.pump();
    assert_eq!(victim.held_frames(), 0, "the first connections held all");
    let (mut last, connection) = (peers[29], connections[29]);
    victim.works(&mut last, connection);
    scatter(&mut victim, last, 40);
    assert_eq!(victim.held_frames(), 16 + 1, "what was returned is available, and the request is an event");
    // Filling the gaps delivers everything, and returns the rest.
    for i in 0..40 {
        victim.inject(&last.at(&victim, 2 * i, b"yx"));
    }
    assert_eq!(victim.info().iter().map(|info| info.out_of_order).sum::<u32>(), 0);
    victim.host.events.clear();
    assert_eq!(victim.held_frames(), 0);
}

/// A slow reader: bytes that the application has not consumed are limited, although each occupies a buffer.
#[test]
fn hostile_single_bytes_to_a_slow_reader_occupy_a_limited_number_of_buffers() {
    let limits = Limits { receive_buffer: 65_536, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    for _ in 0..2000 {
        let byte = peer.data(&victim, b"x");
        victim.inject(&byte);
        victim.wait(50_000);
        peer.snd = victim.host.sent.back().expect("an acknowledgement").1.ack;
    }
    let held = victim.held_frames();
    assert!((1000..=4 * 65_536 / 256 + 1).contains(&held), "{held} frames");
    assert_eq!(
        victim.host.sent.back().map(|(_, sent)| sent.window),
        Some(0),
        "closed when payload is refused"
    );
    // After the application has read, the peer is told at once, and the connection works again.
    let bytes = victim.delivered().len();
    victim.host.events.retain(|event| !matches!(event, Event::Data { .. }));
    victim.host.stack.consumed(connection, bytes);
    assert_eq!(victim.wait(0), 1);
    assert!(victim.host.sent.back().is_some_and(|(_, sent)| sent.window > 0));
    victim.wait(SECOND);
    assert_eq!(victim.held_frames(), 0);
    victim.works(&mut peer, connection);
}

/// A reader that stops: what is sent for it is limited by the send buffer, and what it sends by the receive buffer.
#[test]
fn hostile_senders_cannot_exceed_the_receive_buffer() {
    let limits = Limits { receive_buffer: 100_000, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let peer = victim.connect(1000);
    for i in 0..500 {
        assert!(victim.inject(&peer.at(&victim, i * 1460, &[1; 1460])) <= 1);
    }
    assert!(victim.delivered().len() <= 100_000, "{} bytes", victim.delivered().len());
    assert_eq!(victim.held_frames(), 100_000_usize.div_ceil(1460));
}
