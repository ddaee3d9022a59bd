//! Ports that another port continues, as another process does in an upgrade: frames in the rings arrive once and in
//! order, a port that is resumed is as before, and a description that does not fit is refused with a reason.

use crate::hand::{burst_of, frame, receive, send};
use crate::joined::{Joined, KINDS, Side, drain, options};
use port::handover::{Handover, Part};
use port::memif::{self, Memif};
use port::vhost_user::fake::FakeEngine;
use port::virtio_user::{RingKind, VirtioUser};
use port::{PortControl, PortState, Retainer, vhost_user};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Stops a port and passes its description through a socket.
fn describe<P: PortControl>(side: &mut Side<P>) -> Handover {
    let handover = side.port.as_handover().unwrap().hand_over(&mut side.engine).unwrap();
    assert!(side.engine.rx.is_empty() && side.engine.tx.is_empty());
    let (one, other) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| handover.send(one.as_fd()).unwrap());
        Handover::receive(other.as_fd()).unwrap()
    })
}

/// Replaces a port by one that takes it over.
fn replace<P: PortControl>(side: &mut Side<P>, mut next: P, now: Instant) {
    let handover = describe(side);
    next.as_handover().unwrap().take_over(handover, now, &mut side.engine).unwrap();
    next.handle(now, &mut side.engine);
    side.port.as_handover().unwrap().release(&mut FakeEngine::default());
    side.port = next;
    assert_eq!(side.port.status().state, PortState::Connected);
}

/// Lets a port take over that then fails, and resumes the one before.
fn resume<P: PortControl>(side: &mut Side<P>, mut next: P, now: Instant) {
    let handover = describe(side);
    let mut engine = FakeEngine::default();
    next.as_handover().unwrap().take_over(handover, now, &mut engine).unwrap();
    engine.rx.clear();
    engine.tx.clear();
    next.as_handover().unwrap().release(&mut engine);
    drop(next);
    side.port.as_handover().unwrap().resume(now, &mut side.engine);
    assert_eq!(side.port.status().state, PortState::Connected);
}

fn frames(lap: usize) -> Vec<Vec<u8>> {
    (0..40).map(|k| frame(60 + (lap * 37 + k * 11) % 1455, lap + k)).collect()
}

/// Frames wait in both rings of each pair while the port is replaced or resumed.
#[test]
fn virtio_user_ports_continue_in_the_middle_of_their_rings() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let mut joined = Joined::new(&path, options(kind), vhost_user::Options::default());
        for lap in 0..30 {
            let sent = frames(lap);
            send(joined.front.tx(0), &burst_of(&sent)).unwrap();
            send(joined.back.tx(0), &burst_of(&sent)).unwrap();
            let next = VirtioUser::successor(&path, options(kind)).unwrap();
            let change = if lap % 3 == 0 { resume } else { replace };
            change(&mut joined.front, next, joined.now);
            assert!(drain(joined.back.rx(0)) == sent, "{kind:?}, lap {lap}");
            assert!(drain(joined.front.rx(0)) == sent, "{kind:?}, lap {lap}");
        }
        assert_eq!(joined.front.port.status().connects, 1);
        joined.settle();
        assert_eq!(joined.back.port.status().connects, 1, "the back end has not noticed");
    }
}

#[test]
fn buffers_that_the_first_port_has_lent_are_used_by_the_second() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut joined = Joined::new(&path, options(RingKind::Split), vhost_user::Options::default());
    let mut retainer = Retainer::new(64).unwrap();
    send(joined.back.tx(0), &burst_of(&frames(0))).unwrap();
    let (mut burst, _) = receive(joined.front.rx(0)).unwrap();
    let held: Vec<_> = (0..40).map(|i| burst.retain::<mem::copy::Portable>(i, &mut retainer)).collect();
    assert!(held.iter().all(Option::is_some));
    joined.front.rx(0).complete(burst.buf_ids());
    let next = VirtioUser::successor(&path, options(RingKind::Split)).unwrap();
    resume(&mut joined.front, next, joined.now);
    let next = VirtioUser::successor(&path, options(RingKind::Split)).unwrap();
    replace(&mut joined.front, next, joined.now);
    assert!(drain(joined.front.rx(0)).is_empty());
    for lap in 0..20 {
        assert!(joined.back(0, &frames(lap)) == frames(lap), "lap {lap}");
    }
    let sent = (0..10).map(|lap| send(joined.back.tx(0), &burst_of(&frames(lap))).unwrap().0).sum::<usize>();
    assert_eq!(sent, 256, "every buffer is in the ring");
    drop(held);
}

#[test]
fn virtio_user_port_that_negotiates_connects_again() {
    let dir = tempfile::tempdir().unwrap();
    let (path, now) = (dir.path().join("s"), Instant::now());
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut front = Side::new(VirtioUser::connect(&path, options(RingKind::Split), now).unwrap());
    front.handle(now);
    let (_first, _) = listener.accept().unwrap();
    let handover = describe(&mut front);
    assert!(handover.parts.is_empty());
    let mut next = VirtioUser::successor(&path, options(RingKind::Split)).unwrap();
    next.as_handover().unwrap().take_over(handover, now, &mut front.engine).unwrap();
    next.handle(now, &mut front.engine);
    listener.accept().unwrap();
}

/// A server, a client, and the time passed to both.
struct Memifs {
    server: Side<Memif>,
    client: Side<Memif>,
    now: Instant,
}

fn memif_options() -> memif::Options {
    memif::Options { ring_size: 128, queue_pairs: 2, ..memif::Options::default() }
}

impl Memifs {
    fn new(path: &Path) -> Self {
        let now = Instant::now();
        let server = Side::new(Memif::listen(path, memif_options()).unwrap());
        let client = Side::new(Memif::connect(path, memif_options(), now).unwrap());
        let mut memifs = Self { server, client, now };
        memifs.settle(300);
        memifs
    }

    fn settle(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.now += Duration::from_millis(1);
            self.server.handle(self.now);
            self.client.handle(self.now);
        }
    }
}

#[test]
fn memif_ports_continue_in_the_middle_of_their_rings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut memifs = Memifs::new(&path);
    for lap in 0..30 {
        let sent = frames(lap);
        for pair in 0..2 {
            send(memifs.server.tx(pair), &burst_of(&sent)).unwrap();
            send(memifs.client.tx(pair), &burst_of(&sent)).unwrap();
        }
        let (is_server, change) = (lap % 2 == 0, if lap % 3 == 0 { resume } else { replace });
        let next = Memif::successor(&path, is_server, memif_options()).unwrap();
        change(if is_server { &mut memifs.server } else { &mut memifs.client }, next, memifs.now);
        for pair in 0..2 {
            assert!(drain(memifs.server.rx(pair)) == sent, "lap {lap}");
            assert!(drain(memifs.client.rx(pair)) == sent, "lap {lap}");
        }
    }
    memifs.settle(10);
    assert_eq!(memifs.server.port.status().state, PortState::Connected);
    memifs.client.port.close(&mut memifs.client.engine);
    memifs.settle(10);
    assert!(matches!(memifs.server.port.status().state, PortState::Waiting(_)));
    memifs.client = Side::new(Memif::connect(&path, memif_options(), memifs.now).unwrap());
    memifs.settle(300);
    assert_eq!(memifs.server.port.status().state, PortState::Connected, "the second server listens");
}

/// A memif server whose client has not finished its handshake.
#[test]
fn memif_handshake_continues_in_the_middle() {
    for rounds in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let now = Instant::now();
        let server = Side::new(Memif::listen(&path, memif_options()).unwrap());
        let client = Side::new(Memif::connect(&path, memif_options(), now).unwrap());
        let mut memifs = Memifs { server, client, now };
        memifs.settle(1 + rounds);
        if memifs.server.port.status().state == PortState::Connected {
            let next = Memif::successor(&path, true, memif_options()).unwrap();
            replace(&mut memifs.server, next, now);
        }
        memifs.settle(300);
        let sent = frames(rounds);
        send(memifs.server.tx(1), &burst_of(&sent)).unwrap();
        assert!(drain(memifs.client.rx(1)) == sent);
        assert_eq!(memifs.client.port.status().connects, 1);
    }
}

/// Changes a description in one way and expects this error of the port that takes it over.
fn refused<P: PortControl>(side: &mut Side<P>, mut next: P, expected: &str, change: fn(&mut Vec<Part>)) {
    let mut handover = describe(side);
    change(&mut handover.parts);
    let now = Instant::now();
    let mut engine = FakeEngine::default();
    let taken = next.as_handover().unwrap().take_over(handover, now, &mut engine);
    let error = taken.expect_err(expected).to_string();
    assert!(error.contains(expected), "{error}");
    next.as_handover().unwrap().release(&mut engine);
    side.port.as_handover().unwrap().resume(now, &mut side.engine);
}

fn first(parts: &mut [Part], tag: u8) -> &mut Part {
    parts.iter_mut().find(|part| part.tag == tag).unwrap()
}

#[test]
fn virtio_user_description_that_does_not_fit_is_refused() {
    type Change = fn(&mut Vec<Part>);
    let changes: [(&str, Change); 9] = [
        ("not that of a virtio-user port", |parts| first(parts, 3).tag = 9),
        ("not that of a virtio-user port", |parts| first(parts, 3).bytes.truncate(5)),
        ("not that of a virtio-user port", |parts| first(parts, 4).bytes.truncate(50)),
        ("not that of a virtio-user port", |parts| drop(parts.pop())),
        ("not that of a virtio-user port", |parts| first(parts, 2).descriptors.clear()),
        ("at other places", |parts| parts.iter_mut().filter(|p| p.tag == 3).nth(5).unwrap().bytes[20] ^= 64),
        ("not an eventfd", |parts| {
            let mut rings = parts.iter_mut().filter(|p| p.tag == 3 && !p.descriptors.is_empty());
            let (memory, call) = (rings.next().unwrap(), rings.next().unwrap());
            call.descriptors = vec![memory.descriptors[0].try_clone().unwrap()];
        }),
        ("not a sealed file", |parts| {
            let memory = parts.iter_mut().find(|p| p.tag == 3 && !p.descriptors.is_empty()).unwrap();
            memory.descriptors = vec![tempfile::tempfile().unwrap().into()];
        }),
        // The position behind the last posted buffer.
        ("the state of the stopped queue is invalid", |parts| first(parts, 4).bytes[4] ^= 1),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut joined = Joined::new(&path, options(RingKind::Split), vhost_user::Options::default());
    for (expected, change) in changes {
        let next = VirtioUser::successor(&path, options(RingKind::Split)).unwrap();
        refused(&mut joined.front, next, expected, change);
        assert!(joined.there(0, &frames(1)) == frames(1) && joined.back(0, &frames(2)) == frames(2));
    }
    let other = virtio_user_with_other_rings();
    refused(&mut joined.front, VirtioUser::successor(&path, other).unwrap(), "sealed file", |_| ());
}

fn virtio_user_with_other_rings() -> port::virtio_user::Options {
    port::virtio_user::Options { queue_size: 512, ..options(RingKind::Split) }
}

#[test]
fn memif_description_that_does_not_fit_is_refused() {
    type Change = fn(&mut Vec<Part>);
    let both: [(&str, Change); 5] = [
        ("not that of a memif port", |parts| first(parts, 3).tag = 9),
        ("a message of 5 bytes", |parts| first(parts, 3).bytes.truncate(5)),
        ("not that of a memif port", |parts| first(parts, 4).bytes.truncate(3)),
        ("another number of queues", |parts| drop(parts.pop())),
        ("do not agree with the memif ring", |parts| first(parts, 4).bytes[6] ^= 1),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut memifs = Memifs::new(&path);
    for (expected, change) in both {
        for is_server in [true, false] {
            let next = Memif::successor(&path, is_server, memif_options()).unwrap();
            let side = if is_server { &mut memifs.server } else { &mut memifs.client };
            refused(side, next, expected, change);
        }
        send(memifs.server.tx(0), &burst_of(&frames(1))).unwrap();
        assert!(drain(memifs.client.rx(0)) == frames(1));
    }
    let other = memif::Options { buffer_size: 4096, ..memif_options() };
    let next = Memif::successor(&path, false, other).unwrap();
    refused(&mut memifs.client, next, "not a sealed file", |_| ());
    let other = memif::Options { id: 7, ..memif_options() };
    let next = Memif::successor(&path, true, other).unwrap();
    refused(&mut memifs.server, next, "it wants interface 0", |_| ());
}
