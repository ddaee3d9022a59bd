//! Tests of the hand-over between two ports of one process.

use super::frames::PREFIX;
use super::tests::{Room, burst, framed, read_frame};
use super::{SocketAddress, Stream};
use crate::handover::{HandOver, Handover, Part};
use crate::vhost_user::fake::FakeEngine;
use crate::{BURST, BurstStats, HEAD, PortControl, PortState};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Instant;

impl Room {
    fn successor(&self) -> Stream {
        Stream::successor(&SocketAddress::Unix(self.path())).unwrap()
    }

    /// Replaces the port by one that takes it over.
    fn replace(&mut self) {
        let handover = self.port.hand_over(&mut self.engine).unwrap();
        assert!(self.engine.rx.is_empty() && self.engine.tx.is_empty());
        let (mut next, now) = (self.successor(), Instant::now());
        next.take_over(handover, now, &mut self.engine).unwrap();
        next.handle(now, &mut self.engine);
        self.port.release(&mut FakeEngine::default());
        self.port = next;
    }

    /// Sends frames until the socket is full. Returns their number.
    fn fill(&mut self) -> usize {
        let (burst, indices) = (burst(&[HEAD - 1; BURST]), std::array::from_fn::<u8, BURST, _>(|i| i as u8));
        let (mut stats, mut done) = (BurstStats::default(), BURST);
        while done == BURST {
            done = self.engine.tx.get_mut(&0).unwrap().tx(&burst, &indices, &mut stats).unwrap();
        }
        stats.packets as usize
    }
}

/// Half of a frame is read by the first port and half of one is sent by it; the second port has the rest of both.
#[test]
fn frames_continue_in_the_middle() {
    for resumes in [false, true] {
        let mut room = Room::listening();
        let mut peer = UnixStream::connect(room.path()).unwrap();
        room.connected();
        let (one, other) = (framed(&[1; 60]), framed(&[2; 1514]));
        peer.write_all(&[&one[..], &other[..700]].concat()).unwrap();
        assert_eq!(room.receive(1).0, [vec![1; 60]]);
        let sent = room.fill();
        if resumes {
            room.port.hand_over(&mut room.engine).unwrap();
            room.port.resume(Instant::now(), &mut room.engine);
        } else {
            room.replace();
        }
        peer.write_all(&other[700..]).unwrap();
        assert_eq!(room.receive(1).0, [vec![2; 1514]]);
        let reader = std::thread::spawn(move || {
            for i in 0..sent {
                assert_eq!(read_frame(&mut peer), [(i % BURST) as u8; HEAD - 1], "frame {i}");
            }
            peer
        });
        while !reader.is_finished() {
            room.port.handle(Instant::now(), &mut room.engine);
        }
        drop(reader.join().unwrap());
        room.until(|state| matches!(state, PortState::Waiting(_)));
        let _next = UnixStream::connect(room.path()).unwrap();
        room.connected();
    }
}

#[test]
fn listening_and_connecting_ports_continue_without_a_peer() {
    let mut room = Room::listening();
    room.replace();
    let _peer = UnixStream::connect(room.path()).unwrap();
    room.connected();
    room.port.close(&mut room.engine);
    assert!(!room.path().exists(), "the file belongs to the second port");
    let listener = std::os::unix::net::UnixListener::bind(room.path()).unwrap();
    room.port = Stream::connect(&SocketAddress::Unix(room.path()), Instant::now()).unwrap();
    room.replace();
    room.connected();
    drop(listener);
}

#[test]
fn invalid_description_is_refused() {
    let part = |tag, bytes: usize| Part { tag, bytes: vec![0; bytes], descriptors: Vec::new() };
    let connection =
        |bytes| Part { descriptors: vec![UnixStream::pair().unwrap().0.into()], ..part(2, bytes) };
    let cases = [
        (vec![part(9, 0)], "not that of a stream port"),
        (vec![part(1, 0)], "not one descriptor"),
        (vec![part(2, 0)], "not that of a stream port"),
        (vec![part(3, 1)], "not that of a stream port"),
        (vec![connection(0), connection(0)], "not that of a stream port"),
        (vec![connection(PREFIX + super::frames::MAX_FRAME + 1)], "too long"),
        (vec![connection(0), part(3, 1 << 17), part(3, 1)], "too far ahead"),
    ];
    for (parts, expected) in cases {
        let (mut port, mut engine) = (Room::listening().successor(), FakeEngine::default());
        let taken = port.take_over(Handover { parts }, Instant::now(), &mut engine);
        let error = taken.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        port.close(&mut engine);
    }
}
