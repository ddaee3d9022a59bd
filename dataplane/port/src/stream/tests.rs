//! Tests of the port with a fake engine and real sockets.

use super::connection::{Connection, Doorbell};
use super::frames::PREFIX;
use super::{SocketAddress, Stream, tx};
use crate::vhost_user::fake::FakeEngine;
use crate::{BURST, Burst, BurstStats, DropReason, HEAD, PortControl, PortFault, PortState};
use mem::copy::Portable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Timeout, so that a hang fails the test.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Room {
    pub(super) port: Stream,
    pub(super) engine: FakeEngine,
    dir: tempfile::TempDir,
}

impl Room {
    pub(super) fn listening() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = Stream::listen(&SocketAddress::Unix(dir.path().join("s"))).unwrap();
        Self { port, engine: FakeEngine::default(), dir }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// Handles the port until its state is as wanted, with a timeout.
    #[track_caller]
    pub(super) fn until(&mut self, wanted: impl Fn(&PortState) -> bool) {
        let start = Instant::now();
        loop {
            let now = Instant::now();
            self.port.handle(now, &mut self.engine);
            if wanted(&self.port.status().state) {
                return;
            }
            assert!(now - start < TIMEOUT, "the port is {:?}", self.port.status());
            let deadline = self.port.deadline().map_or(TIMEOUT, |at| at.saturating_duration_since(now));
            let timeout = Timespec::try_from(deadline.min(Duration::from_millis(50))).unwrap();
            let fd = self.port.poll_fd().unwrap();
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap();
            let Some(rx) = self.engine.rx.get_mut(&0) else { continue };
            let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
            burst.begin(0);
            if let Err(fault) = rx.rx(&mut burst, &mut stats) {
                self.port.fault(now, fault, &mut self.engine);
            }
        }
    }

    pub(super) fn connected(&mut self) {
        self.until(|state| *state == PortState::Connected);
    }

    /// Polls until `n` frames have arrived.
    pub(super) fn receive(&mut self, n: usize) -> (Vec<Vec<u8>>, BurstStats) {
        let (mut frames, mut stats, start) = (Vec::new(), BurstStats::default(), Instant::now());
        let rx = self.engine.rx.get_mut(&0).unwrap();
        while frames.len() < n {
            assert!(start.elapsed() < TIMEOUT, "{} of {n} frames came", frames.len());
            let mut burst = Burst::new();
            burst.begin(0);
            rx.rx(&mut burst, &mut stats).unwrap();
            burst.load_heads::<Portable>();
            for i in 0..burst.len() {
                let mut frame = vec![0; burst.frame_len(i)];
                burst.frame(i).copy_to::<Portable>(&mut frame);
                frames.push(frame);
            }
            rx.complete(burst.buf_ids());
        }
        (frames, stats)
    }
}

pub(super) fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

/// Reads the next frame as a peer.
pub(super) fn read_frame(from: &mut impl Read) -> Vec<u8> {
    let mut prefix = [0; PREFIX];
    from.read_exact(&mut prefix).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
    from.read_exact(&mut frame).unwrap();
    frame
}

/// A burst with private frames of these lengths, each filled with its index.
pub(super) fn burst(lengths: &[usize]) -> Burst {
    let mut burst = Burst::new();
    burst.begin(0);
    for (i, len) in lengths.iter().enumerate() {
        assert!(burst.push_own(&vec![i as u8; *len]));
    }
    burst
}

#[test]
fn frames_pass_both_ways_and_the_peer_reconnects() {
    let mut room = Room::listening();
    for round in 1..=2 {
        let mut peer = UnixStream::connect(room.path()).unwrap();
        room.connected();
        assert_eq!(room.port.status().connects, round);
        peer.write_all(&[framed(&[1; 60]), framed(&[2; 1514])].concat()).unwrap();
        let (frames, stats) = room.receive(2);
        assert_eq!((frames, stats.packets, stats.bytes), (vec![vec![1; 60], vec![2; 1514]], 2, 1574));
        let (tx, mut stats) = (room.engine.tx.get_mut(&0).unwrap(), BurstStats::default());
        assert_eq!(tx.tx(&burst(&[60, 128]), &[1, 0], &mut stats), Ok(2));
        assert_eq!((stats.packets, stats.bytes, stats.lost), (2, 188, 0));
        assert_eq!([read_frame(&mut peer), read_frame(&mut peer)], [vec![1; 128], vec![0; 60]]);
        drop(peer);
        room.until(|state| matches!(state, PortState::Waiting(_)));
        assert!(room.engine.rx.is_empty() && room.engine.tx.is_empty());
    }
    room.port.close(&mut room.engine);
    assert!(!room.path().exists());
}

#[test]
fn fragmented_frames_and_the_last_frames_of_a_peer_arrive() {
    let mut room = Room::listening();
    let mut peer = UnixStream::connect(room.path()).unwrap();
    room.connected();
    let sent: Vec<_> = [14, 60, 1514, 65_550].iter().map(|len| vec![*len as u8; *len]).collect();
    let bytes: Vec<u8> = sent.iter().flat_map(|frame| framed(frame)).collect();
    let writer = std::thread::spawn(move || {
        for piece in bytes.chunks(7) {
            peer.write_all(piece).unwrap();
        }
    });
    let (frames, stats) = room.receive(4);
    assert!(frames == sent && stats.lost == 0, "{stats:?}");
    writer.join().unwrap();
    room.until(|state| matches!(state, PortState::Waiting(_)));
}

#[test]
fn short_frames_are_counted_and_a_long_one_disconnects() {
    let mut room = Room::listening();
    let mut peer = UnixStream::connect(room.path()).unwrap();
    room.connected();
    peer.write_all(&[framed(&[]), framed(&[1; 13]), framed(&[2; 14])].concat()).unwrap();
    let (frames, stats) = room.receive(1);
    assert_eq!((frames, stats.packets, stats.bytes), (vec![vec![2; 14]], 3, 27));
    assert_eq!(stats.drops[DropReason::TooShort as usize], 2);
    peer.write_all(&65_551_u32.to_be_bytes()).unwrap();
    room.until(|state| matches!(state, PortState::Faulted(PortFault::Peer(_))));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0, "a clear end");
    let _another = UnixStream::connect(room.path()).unwrap();
    room.connected();
    assert_eq!(room.port.status().state.reason(), None);
}

#[test]
fn second_peer_is_closed_at_once() {
    let mut room = Room::listening();
    let _first = UnixStream::connect(room.path()).unwrap();
    room.connected();
    let mut second = UnixStream::connect(room.path()).unwrap();
    room.port.handle(Instant::now(), &mut room.engine);
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
    assert_eq!(room.port.status().connects, 1);
}

/// Fills the socket, then reads all of it: no frame may be split, and the frames counted must be those received.
#[test]
fn full_socket_is_a_full_queue_without_torn_frames() {
    let mut room = Room::listening();
    let mut peer = UnixStream::connect(room.path()).unwrap();
    room.connected();
    let (burst, indices) = (burst(&[HEAD - 1; BURST]), std::array::from_fn::<u8, BURST, _>(|i| i as u8));
    let (mut stats, mut done) = (BurstStats::default(), BURST);
    while done == BURST {
        done = room.engine.tx.get_mut(&0).unwrap().tx(&burst, &indices, &mut stats).unwrap();
    }
    let refused = room.engine.tx.get_mut(&0).unwrap().tx(&burst, &indices, &mut stats).unwrap();
    assert_eq!((refused, stats.lost), (0, 0), "the engine waits or drops");
    assert_eq!(stats.bytes, stats.packets * (HEAD as u64 - 1));
    // Only the control thread can now send the rest of the last frame.
    peer.set_nonblocking(true).unwrap();
    let wanted = stats.packets as usize * (PREFIX + HEAD - 1);
    let (mut got, start) = (Vec::new(), Instant::now());
    while got.len() < wanted {
        room.port.handle(Instant::now(), &mut room.engine);
        match peer.read_to_end(&mut got) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            ended => panic!("{ended:?}"),
        }
        assert!(start.elapsed() < TIMEOUT, "{} of {wanted} bytes", got.len());
    }
    for (i, frame) in got.chunks(PREFIX + HEAD - 1).enumerate() {
        assert!(frame == framed(&[(i % BURST) as u8; HEAD - 1]), "frame {i} is torn");
    }
    assert_eq!(got.len(), wanted);
    assert!(room.port.poll_fd().is_some_and(|fd| !readable(fd)), "nothing is waited for any more");
}

fn readable(fd: rustix::fd::BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).unwrap() > 0
}

#[test]
fn frames_sent_before_a_disconnect_arrive() {
    let mut room = Room::listening();
    let mut peer = UnixStream::connect(room.path()).unwrap();
    room.connected();
    peer.write_all(&framed(&[5; 99])).unwrap();
    drop(peer);
    let mut stats = BurstStats::default();
    room.engine.tx.get_mut(&0).unwrap().tx(&burst(&[60]), &[0], &mut stats).unwrap();
    room.port.handle(Instant::now(), &mut room.engine);
    assert_eq!(room.receive(1).0, [vec![5; 99]]);
    room.until(|state| matches!(state, PortState::Waiting(_)));
}

#[test]
fn disconnect_during_send_loses_only_those_frames() {
    let mut room = Room::listening();
    let peer = UnixStream::connect(room.path()).unwrap();
    room.connected();
    drop(peer);
    let mut stats = BurstStats::default();
    let tx = room.engine.tx.get_mut(&0).unwrap();
    assert_eq!(tx.tx(&burst(&[60, 60]), &[0, 1], &mut stats), Ok(2));
    assert_eq!((stats.packets, stats.drops[DropReason::PortDown as usize]), (0, 2));
    room.until(|state| matches!(state, PortState::Waiting(_)));
}

#[test]
fn frames_of_several_workers_do_not_interleave() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let wire = Arc::new(Connection::new(ours.into(), Doorbell::new().unwrap()));
    let mut first = tx::start(wire.clone());
    let handles = [first.fork(), first.fork(), first];
    let total = 3 * 2000;
    let threads: Vec<_> = handles
        .into_iter()
        .map(|mut tx| {
            std::thread::spawn(move || {
                let (burst, mut stats) = (burst(&[20, 128, 77, 33]), BurstStats::default());
                let mut done = 0;
                while done < 2000 {
                    done += tx.tx(&burst, &[(done % 4) as u8], &mut stats).unwrap();
                }
                assert_eq!(stats.packets, 2000);
            })
        })
        .collect();
    let mut read = 0;
    while read < total {
        // As the control thread does for a partially sent frame.
        wire.finish().unwrap();
        let frame = read_frame(&mut theirs);
        let i = frame[0];
        assert_eq!(frame, vec![i; [20, 128, 77, 33][usize::from(i)]]);
        read += 1;
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

fn loopback() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn tcp_client_port_reports_its_error_and_connects_later() {
    let (listener, address) = loopback();
    drop(listener);
    let port = Stream::connect(&SocketAddress::Tcp(address), Instant::now()).unwrap();
    let mut room = Room { port, engine: FakeEngine::default(), dir: tempfile::tempdir().unwrap() };
    let start = Instant::now();
    while room.port.status().state.reason().is_none() {
        room.port.handle(Instant::now(), &mut room.engine);
        assert!(start.elapsed() < TIMEOUT);
    }
    let reason = room.port.status().state.reason().unwrap().to_string();
    assert!(reason.starts_with("the peer is not reachable yet: Connection refused"), "{reason}");
    let listener = TcpListener::bind(address).unwrap();
    room.connected();
    assert_eq!(room.port.status().state.reason(), None);
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(&framed(&[9; 700])).unwrap();
    assert_eq!(room.receive(1).0, [vec![9; 700]]);
}

#[test]
fn tcp_server_port_serves_a_peer() {
    let (listener, address) = loopback();
    drop(listener);
    let port = Stream::listen(&SocketAddress::Tcp(address)).unwrap();
    let mut room = Room { port, engine: FakeEngine::default(), dir: tempfile::tempdir().unwrap() };
    let mut peer = TcpStream::connect(address).unwrap();
    room.connected();
    let mut stats = BurstStats::default();
    room.engine.tx.get_mut(&0).unwrap().tx(&burst(&[100]), &[0], &mut stats).unwrap();
    assert_eq!(read_frame(&mut peer), vec![0; 100]);
}

/// The port connects to the path of a restarting server.
#[test]
fn unix_client_port_reconnects_to_a_restarted_peer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let port = Stream::connect(&SocketAddress::Unix(path.clone()), Instant::now()).unwrap();
    let mut room = Room { port, engine: FakeEngine::default(), dir };
    for round in 1..=2 {
        let listener = UnixListener::bind(&path).unwrap();
        room.connected();
        assert_eq!(room.port.status().connects, round);
        drop(listener.accept().unwrap());
        std::fs::remove_file(&path).unwrap();
        room.until(|state| matches!(state, PortState::Waiting(_)));
    }
}
