use super::*;
use crate::backoff::MAX_PAUSE;
use crate::queue::OutOfRange;
use crate::socket::ListenError;
use crate::socket::rights;
use crate::vhost::Features;
use crate::vhost::message::{Code, LogArea, MAX_DESCRIPTORS, ProtocolFeatures, Request};
use crate::vhost_user::fake::{FakeEngine, QUEUES};
use rustix::event::EventfdFlags;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

mod grace;

const MIN_PAUSE: Duration = Duration::from_millis(100);

struct Bench {
    dir: tempfile::TempDir,
    port: VhostUser,
    engine: FakeEngine,
    now: Instant,
}

impl Bench {
    fn listening() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = VhostUser::listen_with(dir.path().join("s"), Options::default(), QUEUES).unwrap();
        Self { dir, port, engine: FakeEngine::default(), now: Instant::now() }
    }

    fn connecting() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let now = Instant::now();
        let port = VhostUser::connect_with(dir.path().join("s"), Options::default(), now, QUEUES).unwrap();
        Self { dir, port, engine: FakeEngine::default(), now }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn peer(&self) -> UnixStream {
        let peer = UnixStream::connect(self.path()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        peer
    }

    /// Runs the engine's control loop while the port is readable or due.
    fn run(&mut self) {
        for _ in 0..1000 {
            let due = self.port.deadline().is_some_and(|at| at <= self.now);
            let readable = rights::wait_readable(self.port.poll_fd().unwrap(), Duration::ZERO).unwrap();
            if !due && !readable {
                return;
            }
            self.port.handle(self.now, &mut self.engine);
        }
        panic!("the port stays readable");
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.run();
    }

    fn state(&self) -> PortState {
        self.port.status().state
    }
}

fn answer(peer: &mut UnixStream) -> u64 {
    let mut bytes = [0; 20];
    peer.read_exact(&mut bytes).unwrap();
    u64::from_ne_bytes(bytes[12..].try_into().unwrap())
}

fn is_closed(peer: &mut UnixStream) -> bool {
    matches!(peer.read(&mut [0; 1]), Ok(0) | Err(_))
}

#[test]
fn front_end_connects_and_gets_replies() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    peer.write_all(&Request::GetFeatures.encode(false)).unwrap();
    bench.run();
    assert_eq!(bench.state(), PortState::Connected);
    let offered = Features(answer(&mut peer));
    assert!(offered.has(Features::VERSION_1 | Features::RING_PACKED | Features::PROTOCOL));
    assert!(!offered.has(Features::MQ) && !offered.has(Features::NET_MTU) && !offered.has(Features::STATUS));
}

#[test]
fn port_of_a_guest_that_migrates_is_not_handed_over() {
    let mut bench = Bench::listening();
    let peer = bench.peer();
    let send = |request: Request, fds: &[BorrowedFd<'_>]| {
        rights::send(peer.as_fd(), &request.encode(false), fds).unwrap();
    };
    let features = Features::VERSION_1 | Features::PROTOCOL;
    send(Request::SetFeatures(features), &[]);
    send(Request::SetProtocolFeatures(ProtocolFeatures::LOG_SHMFD), &[]);
    let log = memfd_create("log", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&log, 4096).unwrap();
    send(Request::SetLogBase(LogArea { len: 64, offset: 0 }), &[log.as_fd()]);
    bench.run();
    assert!(bench.port.as_handover().is_ok());
    send(Request::SetFeatures(features | Features::LOG_ALL), &[]);
    bench.run();
    assert_eq!(bench.port.as_handover().err(), Some(NotHandedOver::Migrates));
    send(Request::SetFeatures(features), &[]);
    bench.run();
    assert!(bench.port.as_handover().is_ok(), "the migration has ended");
}

#[test]
fn back_end_request_channel_is_neither_offered_nor_accepted() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    peer.write_all(&Request::GetProtocolFeatures.encode(false)).unwrap();
    bench.run();
    let offered = ProtocolFeatures(answer(&mut peer));
    assert!(offered.has(ProtocolFeatures::REPLY_ACK) && !offered.has(ProtocolFeatures::BACKEND_REQ));
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let message = Header::request(Code::SetBackendReqFd, true, 0).encode();
    rights::send(peer.as_fd(), &message, &[theirs.as_fd()]).unwrap();
    drop(theirs);
    bench.run();
    let PortState::Faulted(fault) = bench.state() else { panic!("{:?}", bench.state()) };
    assert!(fault.to_string().contains("SET_BACKEND_REQ_FD belongs to a feature that was not offered"));
    assert!(is_closed(&mut ours), "descriptors of a rejected message are closed");
}

#[test]
fn message_in_single_bytes_is_assembled() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    for byte in Request::GetQueueNum.encode(false) {
        peer.write_all(&[byte]).unwrap();
        bench.run();
    }
    assert_eq!(answer(&mut peer), 1);
}

#[test]
fn messages_in_one_write_are_separated() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    peer.write_all(&Request::GetQueueNum.encode(false).repeat(150)).unwrap();
    bench.run();
    for _ in 0..150 {
        assert_eq!(answer(&mut peer), 1);
    }
}

#[test]
fn second_front_end_is_closed_and_the_first_continues() {
    let mut bench = Bench::listening();
    let mut first = bench.peer();
    bench.run();
    let mut second = bench.peer();
    bench.run();
    assert!(is_closed(&mut second));
    first.write_all(&Request::GetQueueNum.encode(false)).unwrap();
    bench.run();
    assert_eq!(answer(&mut first), 1);
    assert_eq!(bench.port.status().connects, 1);
}

#[test]
fn front_end_reconnects_at_once() {
    let mut bench = Bench::listening();
    let first = bench.peer();
    bench.run();
    drop(first);
    let mut again = bench.peer();
    again.write_all(&Request::GetQueueNum.encode(false)).unwrap();
    bench.run();
    assert_eq!(answer(&mut again), 1);
    assert_eq!(bench.port.status().connects, 2);
}

#[test]
fn protocol_violation_is_a_named_fault_and_the_port_recovers() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    peer.write_all(&[0xff; 12]).unwrap();
    bench.run();
    assert!(is_closed(&mut peer));
    let PortState::Faulted(fault) = bench.state() else { panic!("{:?}", bench.state()) };
    assert_eq!(
        fault.to_string(),
        "the front end violated the vhost-user protocol: request 4294967295 does not exist"
    );
    let mut next = bench.peer();
    next.write_all(&Request::GetQueueNum.encode(false)).unwrap();
    bench.run();
    assert!(matches!(bench.state(), PortState::Faulted(_)), "the next one waits a moment");
    bench.wait(MIN_PAUSE);
    assert_eq!(answer(&mut next), 1);
    assert_eq!(bench.state(), PortState::Connected);
    assert_eq!(bench.state().reason(), None);
}

#[test]
fn oversized_payload_is_rejected_by_its_header() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    peer.write_all(&Header::request(Code::SetFeatures, false, u32::MAX).encode()).unwrap();
    bench.run();
    assert!(
        matches!(bench.state(), PortState::Faulted(PortFault::Protocol(text)) if text.contains("4294967295 bytes"))
    );
}

#[test]
fn too_many_descriptors_are_a_fault() {
    let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let message = Request::SetOwner.encode(false);
    for pieces in [1, 3] {
        let mut bench = Bench::listening();
        let peer = bench.peer();
        bench.run();
        let fds = vec![event.as_fd(); MAX_DESCRIPTORS];
        for piece in message.chunks(message.len() / pieces) {
            rights::send(peer.as_fd(), piece, &fds).unwrap();
        }
        bench.run();
        assert!(matches!(bench.state(), PortState::Faulted(PortFault::Protocol(_))), "{:?}", bench.state());
    }
}

#[test]
fn front_end_not_reading_replies_is_a_fault() {
    let mut bench = Bench::listening();
    let peer = bench.peer();
    peer.set_nonblocking(true).unwrap();
    let request = Request::GetFeatures.encode(false);
    for _ in 0..100_000 {
        while (&peer).write_all(&request).is_ok() {}
        bench.run();
        if bench.state() != PortState::Connected {
            assert!(
                matches!(bench.state(), PortState::Faulted(PortFault::Protocol(text)) if text.contains("answers"))
            );
            return;
        }
    }
    panic!("the answers went nowhere for ever");
}

#[test]
fn engine_fault_closes_the_connection() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    bench.run();
    bench.port.fault(bench.now, PortFault::MemoryLost, &mut bench.engine);
    assert!(is_closed(&mut peer));
    assert_eq!(bench.state(), PortState::Faulted(PortFault::MemoryLost));
    bench.wait(MAX_PAUSE);
    let _again = bench.peer();
    bench.run();
    assert_eq!(bench.state(), PortState::Connected);
}

#[test]
fn client_retries_with_back_off() {
    let mut bench = Bench::connecting();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        bench.run();
        let at = bench.port.deadline().unwrap();
        pauses.push((at - bench.now).as_millis());
        bench.now = at;
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000, 2000]);
    let listener = UnixListener::bind(bench.path()).unwrap();
    bench.run();
    assert_eq!(bench.state(), PortState::Connected);
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(&Request::SetFeatures(Features::VERSION_1).encode(false)).unwrap();
    bench.run();
    drop(peer);
    bench.run();
    assert_eq!(bench.state(), PortState::Waiting(Some(PortFault::Disconnected("guest"))));
    assert_eq!(bench.port.deadline(), Some(bench.now + MIN_PAUSE), "a front end that negotiated counts");
    bench.wait(MIN_PAUSE);
    assert_eq!(bench.state(), PortState::Connected);
}

#[test]
fn stale_socket_is_replaced_and_live_ones_and_files_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listen = || VhostUser::listen_with(&path, Options::default(), QUEUES);
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the standard library leaves the file behind");
    let port = listen().unwrap();
    assert!(matches!(listen(), Err(PlugError::Listen(ListenError::Live(_)))));
    drop(port);
    assert!(!path.exists(), "the file goes with the port");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(listen(), Err(PlugError::Listen(ListenError::NotASocket(_)))));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn missing_directory_and_long_path_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let listen = |name: &str| VhostUser::listen_with(dir.path().join(name), Options::default(), QUEUES);
    assert!(matches!(listen("no/s"), Err(PlugError::Listen(ListenError::NoDirectory(_)))));
    assert!(matches!(listen(&"x".repeat(120)), Err(PlugError::Listen(ListenError::TooLong(_)))));
}

#[test]
fn close_removes_only_its_own_socket_file() {
    let mut bench = Bench::listening();
    bench.port.close(&mut bench.engine);
    assert!(!bench.path().exists());
    assert_eq!(bench.state(), PortState::Closed);
    assert!(bench.port.poll_fd().is_none());
    let mut bench = Bench::listening();
    std::fs::remove_file(bench.path()).unwrap();
    let _other = UnixListener::bind(bench.path()).unwrap();
    bench.port.close(&mut bench.engine);
    assert!(bench.path().exists());
}

#[test]
fn out_of_range_options_are_rejected_and_the_mask_applies() {
    let offer = |options: Options| options.offer();
    assert!(matches!(
        offer(Options { queue_pairs: 0, ..Options::default() }),
        Err(OutOfRange::QueuePairs(0))
    ));
    assert!(matches!(
        offer(Options { queue_pairs: 129, ..Options::default() }),
        Err(OutOfRange::QueuePairs(129))
    ));
    assert!(matches!(offer(Options { mtu: Some(67), ..Options::default() }), Err(OutOfRange::Mtu(67))));
    let many = offer(Options { queue_pairs: 4, mtu: Some(9000), ..Options::default() }).unwrap();
    assert!(many.features.has(Features::MQ | Features::NET_MTU));
    let split = Options { features: Features(!Features::RING_PACKED), ..Options::default() };
    assert!(!offer(split).unwrap().features.has(Features::RING_PACKED));
}

#[test]
fn port_is_handed_over_with_its_listener_and_its_connection() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    peer.write_all(&Request::GetQueueNum.encode(false)[..5]).unwrap();
    bench.run();
    assert_eq!(bench.state(), PortState::Connected);
    let mut successor = VhostUser::successor(bench.path(), true, Options::default()).unwrap();
    let port = bench.port.as_handover().unwrap();
    let description = port.describe(&mut bench.engine).unwrap();
    successor.prepare(description, bench.now, &mut bench.engine).unwrap();
    let handover = port.hand_over(&mut bench.engine).unwrap();
    successor.take_over(handover, bench.now, &mut bench.engine).unwrap();
    std::mem::replace(&mut bench.port, successor).as_handover().unwrap().release(&mut bench.engine);
    assert_eq!((bench.state(), bench.path().exists()), (PortState::Connected, true));
    // The message that the first process received in part is answered by the second one.
    peer.write_all(&Request::GetQueueNum.encode(false)[5..]).unwrap();
    bench.run();
    assert_eq!(answer(&mut peer), 1);
    drop(peer);
    bench.wait(MAX_PAUSE);
    let _again = bench.peer();
    bench.run();
    assert_eq!(bench.state(), PortState::Connected);
    bench.port.close(&mut bench.engine);
    assert!(!bench.path().exists(), "the file belongs to the port that has taken over");
}

#[test]
fn port_continues_after_a_hand_over_that_failed() {
    let mut bench = Bench::listening();
    let mut peer = bench.peer();
    bench.run();
    let port = bench.port.as_handover().unwrap();
    drop(port.describe(&mut bench.engine).unwrap());
    drop(port.hand_over(&mut bench.engine).unwrap());
    port.resume(bench.now, &mut bench.engine);
    peer.write_all(&Request::GetQueueNum.encode(false)).unwrap();
    bench.run();
    assert_eq!(answer(&mut peer), 1);
}
