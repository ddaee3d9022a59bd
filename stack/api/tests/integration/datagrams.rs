//! Datagrams of tokens, and one wait over a host and sockets of the kernel.

use crate::hosts::{LIMIT, PORT, Wire, bytes, connected, pair, server};
use api::token::{Device, Kernel, Mixed, Outcome, Ports, Queue, Queues, Token, WaitError};
use host::{Buffer, Host};
use stack::Slice;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// Lengths of datagrams: an empty one, full packets, and one that is fragmented on a wire.
const LENGTHS: [usize; 5] = [0, 1, 1400, 1472, 5000];
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
const SHORT: Option<Duration> = Some(Duration::from_millis(30));

fn any(of: SocketAddr) -> SocketAddr {
    let any: IpAddr = if of.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(any, 0)
}

fn popped<D: Device>(queues: &mut Queues<D>, queue: Queue) -> (SocketAddr, Slice<Buffer>) {
    let token = queues.pop_from(queue);
    match queues.wait(token, LIMIT).unwrap() {
        Outcome::PoppedFrom(from, data) => (from, data),
        other => panic!("{other:?}"),
    }
}

fn push<D: Device>(queues: &mut Queues<D>, queue: Queue, to: SocketAddr, data: Slice<Buffer>) {
    let token = queues.push_to(queue, to, data);
    let outcome = queues.wait(token, LIMIT).unwrap();
    assert!(matches!(outcome, Outcome::Pushed), "{outcome:?}");
}

/// Returns datagrams to their senders.
fn echo<D: Device>(queues: &mut Queues<D>, queue: Queue, count: usize) {
    for _ in 0..count {
        let (from, data) = popped(queues, queue);
        push(queues, queue, from, data);
    }
    // The last one leaves in a wait.
    assert_eq!(queues.wait_next(SHORT).unwrap_err(), WaitError::TimedOut);
}

/// A server on a thread, which has bound and prepared its queue when this returns. The client's host is returned.
fn with_server(
    wire: Wire,
    prepare: fn(&mut Queues<Ports>, Queue),
    serve: impl FnOnce(&mut Queues<Ports>, Queue) + Send + 'static,
) -> (thread::JoinHandle<Ports>, Host, tempfile::TempDir) {
    let (first, second, folder) = pair(wire);
    let bound = Arc::new(Barrier::new(2));
    let server_bound = bound.clone();
    let serving = thread::spawn(move || {
        let mut queues = Queues::new(Ports::new(connected(first)));
        let queue = queues.bind(SocketAddr::from(([0, 0, 0, 0], PORT))).unwrap();
        assert_eq!(queues.bind(SocketAddr::from(([0, 0, 0, 0], PORT))), Err(ErrorKind::AddrInUse));
        prepare(&mut queues, queue);
        server_bound.wait();
        serve(&mut queues, queue);
        queues.into_device()
    });
    let client = connected(second);
    bound.wait();
    (serving, client, folder)
}

/// Sends datagrams of all lengths, one after the other, and compares what returns.
fn exchange<D: Device>(queues: &mut Queues<D>, server: SocketAddr) {
    let queue = queues.bind(any(server)).unwrap();
    assert_ne!(queues.bound(queue).unwrap().port(), 0);
    for length in LENGTHS {
        let data = queues.device().copy(&bytes(length));
        push(queues, queue, server, data);
        let (from, data) = popped(queues, queue);
        assert_eq!((from, data.len()), (server, length));
        assert!(data.to_vec() == bytes(length), "other bytes in {length}");
    }
    refuse(queues, queue, server);
}

/// Operations that a queue of datagrams does not have, and its end.
fn refuse<D: Device>(queues: &mut Queues<D>, queue: Queue, to: SocketAddr) {
    let [short, long] = [1, 70_000].map(|length| Slice::new(Buffer::from(bytes(length))));
    let wrong: [Token; 4] = [
        queues.push_to(queue, to, long),
        queues.push(queue, short.clone()),
        queues.pop(queue),
        queues.accept(queue),
    ];
    for token in wrong {
        let outcome = queues.wait(token, LIMIT).unwrap();
        assert!(matches!(outcome, Outcome::Failed(ErrorKind::InvalidInput)), "{outcome:?}");
    }
    let (pop, close) = (queues.pop_from(queue), queues.close(queue));
    assert!(matches!(queues.wait(close, LIMIT).unwrap(), Outcome::Closed));
    assert!(matches!(queues.wait(pop, LIMIT).unwrap(), Outcome::Failed(ErrorKind::ConnectionAborted)));
    assert_eq!(queues.bound(queue), Err(ErrorKind::NotConnected));
    let push = queues.push_to(queue, to, short);
    assert!(matches!(queues.wait(push, LIMIT).unwrap(), Outcome::Failed(ErrorKind::NotConnected)));
}

#[test]
fn datagrams_are_exchanged_over_ports() {
    for wire in [Wire::Patch, Wire::VhostUser] {
        let echoes = |queues: &mut Queues<Ports>, queue| echo(queues, queue, LENGTHS.len());
        let (serving, client, _folder) = with_server(wire, |_, _| (), echoes);
        let mut queues = Queues::new(Ports::new(client));
        exchange(&mut queues, server());
        let errors = |ports: Ports| ports.close(Duration::ZERO).counters.udp_errors;
        assert_eq!((errors(serving.join().unwrap()), errors(queues.into_device())), (0, 0));
    }
}

#[test]
fn groups_are_received_over_ports_until_they_are_left() {
    fn join(queues: &mut Queues<Ports>, queue: Queue) {
        queues.join(queue, GROUP, None).unwrap();
        assert_eq!(queues.join(queue, GROUP, Some([10, 9, 0, 1].into())), Err(ErrorKind::AddrInUse));
        assert_eq!(queues.join(queue, [10, 9, 0, 2].into(), None), Err(ErrorKind::InvalidInput));
        let other = queues.join(queue, GROUP, Some([10, 9, 0, 9].into()));
        assert_eq!(other, Err(ErrorKind::AddrNotAvailable));
    }
    fn receive(queues: &mut Queues<Ports>, queue: Queue) {
        let (from, data) = popped(queues, queue);
        assert_eq!(data.to_vec(), b"1");
        queues.leave(queue, GROUP, None).unwrap();
        assert_eq!(queues.leave(queue, GROUP, None), Err(ErrorKind::AddrNotAvailable));
        push(queues, queue, from, data);
        assert_eq!(popped(queues, queue).1.to_vec(), b"3", "the second one went to the group");
    }
    let (serving, client, _folder) = with_server(Wire::Patch, join, receive);
    let mut queues = Queues::new(Ports::new(client));
    let queue = queues.bind(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
    let to_group = SocketAddr::new(GROUP, PORT);
    push(&mut queues, queue, to_group, Slice::new(b"1".to_vec().into()));
    assert_eq!(popped(&mut queues, queue).1.to_vec(), b"1");
    for (to, byte) in [(to_group, b"2"), (server(), b"3")] {
        push(&mut queues, queue, to, Slice::new(byte.to_vec().into()));
    }
    while !serving.is_finished() {
        assert_eq!(queues.wait_next(SHORT).unwrap_err(), WaitError::TimedOut);
    }
    serving.join().unwrap();
}

#[test]
fn groups_are_joined_by_sockets_of_the_kernel() {
    let mut queues = Queues::new(Kernel::new().unwrap());
    let queue = queues.bind(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
    let (group, at) = (GROUP, Some(IpAddr::from([127, 0, 0, 1])));
    queues.join(queue, group, at).unwrap();
    assert_eq!(queues.join(queue, group, at), Err(ErrorKind::AddrInUse));
    queues.leave(queue, group, at).unwrap();
    assert_eq!(queues.leave(queue, group, at), Err(ErrorKind::AddrNotAvailable));
    let v6 = "ff05::7".parse().unwrap();
    assert_eq!(queues.join(queue, v6, at), Err(ErrorKind::InvalidInput));
}

#[test]
fn datagrams_are_exchanged_over_sockets_of_the_kernel() {
    for local in ["127.0.0.1:0", "[::1]:0"] {
        let mut queues = Queues::new(Kernel::new().unwrap());
        let queue = queues.bind(local.parse().unwrap()).unwrap();
        let address = queues.bound(queue).unwrap();
        let serving = thread::spawn(move || echo(&mut queues, queue, LENGTHS.len()));
        exchange(&mut Queues::new(Kernel::new().unwrap()), address);
        serving.join().unwrap();
    }
}

/// Passes datagrams of the kernel to the server and its answers back, with one wait for both.
fn relay(queues: &mut Queues<Mixed>, inside: Queue, outside: Queue, count: usize) {
    let mut tokens = [queues.pop_from(inside), queues.pop_from(outside)];
    let (mut client, mut returned) = (None, 0);
    while returned < count {
        let (at, outcome) = queues.wait_any(&tokens, LIMIT).unwrap();
        let Outcome::PoppedFrom(from, data) = outcome else { panic!("{outcome:?}") };
        let from_client = at == 0;
        let (to, through) = if from_client { (server(), outside) } else { (client.unwrap(), inside) };
        if from_client {
            client = Some(from);
        }
        returned += usize::from(!from_client);
        push(queues, through, to, data);
        tokens[at] = queues.pop_from(if from_client { inside } else { outside });
    }
}

#[test]
fn one_wait_covers_a_host_and_sockets_of_the_kernel() {
    const COUNT: usize = 20;
    let echoes = |queues: &mut Queues<Ports>, queue| echo(queues, queue, COUNT);
    let (serving, host, _folder) = with_server(Wire::Patch, |_, _| (), echoes);
    let mixed = Mixed::new(host, |address| address.ip().is_loopback()).unwrap();
    let mut queues = Queues::new(mixed);
    let inside = queues.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let outside = queues.bind(SocketAddr::from(([10, 9, 0, 2], PORT))).unwrap();
    let (relay_at, own) = (queues.bound(inside).unwrap(), queues.bound(outside).unwrap());
    assert_eq!(own, SocketAddr::from(([10, 9, 0, 2], PORT)));
    let client = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(LIMIT).unwrap();
        for i in 0..COUNT {
            // The host sleeps meanwhile, and the kernel's socket wakes it.
            thread::sleep(Duration::from_millis(5));
            socket.send_to(&bytes(i), relay_at).unwrap();
            let mut received = [0; 2 * COUNT];
            let (length, from) = socket.recv_from(&mut received).unwrap();
            assert_eq!((&received[..length], from), (&bytes(i)[..], relay_at));
        }
    });
    relay(&mut queues, inside, outside, COUNT);
    client.join().unwrap();
    serving.join().unwrap().close(Duration::ZERO);
    let report = queues.into_device().into_ports().close(Duration::ZERO);
    assert!(report.rounds.2 > 0, "the host did not sleep");
}
