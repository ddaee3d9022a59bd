//! The same programs over sockets of the kernel and over ports.

use crate::hosts::{LIMIT, Wire, byte, bytes, connected, pair, server};
use api::token::{Device, Kernel, Outcome, Ports, Queue, Queues, Token, WaitError};
use host::Buffer;
use stack::Slice;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of a connection: more than the send buffers, so that pushes have to wait.
const BYTES: usize = 12 << 20;
const SHORT: Option<Duration> = Some(Duration::from_millis(30));

/// Accepts connections and returns their data, until `count` of them have ended. Returns the errors.
fn echo<D: Device>(queues: &mut Queues<D>, listener: Queue, count: usize) -> Vec<ErrorKind> {
    let (mut ended, mut errors) = (0, Vec::new());
    queues.accept(listener);
    while ended < count {
        let (_, queue, outcome) = queues.wait_next(LIMIT).unwrap();
        match outcome {
            Outcome::Accepted(accepted, _) => {
                queues.pop(accepted);
                queues.accept(listener);
            }
            Outcome::Popped(data) => drop(queues.push(queue, data)),
            Outcome::Pushed => drop(queues.pop(queue)),
            Outcome::Finished => drop(queues.close(queue)),
            Outcome::Closed => ended += 1,
            Outcome::Failed(error) => {
                errors.push(error);
                queues.close(queue);
            }
            Outcome::Connected | Outcome::Shut | Outcome::PoppedFrom(..) => panic!("{outcome:?}"),
        }
    }
    errors
}

/// A connection of the client: what it sends and expects.
struct Transfer {
    queue: Queue,
    tokens: [Token; 2],
    received: usize,
}

fn open<D: Device>(queues: &mut Queues<D>, server: SocketAddr) -> Queue {
    let (queue, token) = queues.connect(server).unwrap();
    assert!(matches!(queues.wait(token, LIMIT).unwrap(), Outcome::Connected));
    queue
}

/// Sends a stream over several connections at once, closes the sending sides and compares what returns.
fn exchange<D: Device>(queues: &mut Queues<D>, server: SocketAddr, connections: usize) {
    let data = Slice::new(Buffer::from(bytes(BYTES)));
    let mut open: Vec<Transfer> = (0..connections)
        .map(|_| {
            // Data is pushed before the connection is established.
            let (queue, token) = queues.connect(server).unwrap();
            queues.detach(token);
            let pushed = queues.push(queue, data.clone());
            queues.detach(pushed);
            let tokens = [queues.finish(queue), queues.pop(queue)];
            Transfer { queue, tokens, received: 0 }
        })
        .collect();
    while !open.is_empty() {
        let tokens: Vec<Token> = open.iter().map(|transfer| transfer.tokens[1]).collect();
        let (i, outcome) = queues.wait_any(&tokens, LIMIT).unwrap();
        let transfer = &mut open[i];
        match outcome {
            Outcome::Popped(data) => {
                let same = data.to_vec().iter().zip(transfer.received..).all(|(got, at)| *got == byte(at));
                assert!(same, "wrong bytes from {}", transfer.received);
                transfer.received += data.len();
                transfer.tokens[1] = queues.pop(transfer.queue);
            }
            Outcome::Finished => {
                assert_eq!(transfer.received, BYTES);
                let ended = open.swap_remove(i);
                let (tokens, mut outcomes) = ([ended.tokens[0], queues.close(ended.queue)], Vec::new());
                queues.wait_all(&tokens, LIMIT, &mut outcomes).unwrap();
                assert!(matches!(outcomes[..], [Outcome::Shut, Outcome::Closed]), "{outcomes:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Timeouts, backpressure, half close, resets and refusals, with a server on the same kind of device.
fn behave<D: Device>(queues: &mut Queues<D>, server: SocketAddr) {
    let queue = open(queues, server);
    let pop = queues.pop(queue);
    assert_eq!(queues.wait(pop, SHORT).unwrap_err(), WaitError::TimedOut);
    let message = queues.device().copy(b"late");
    let push = queues.push(queue, message);
    assert!(matches!(queues.wait(push, LIMIT).unwrap(), Outcome::Pushed));
    assert!(matches!(queues.wait(pop, LIMIT).unwrap(), Outcome::Popped(data) if data.to_vec() == b"late"));
    assert_eq!(queues.wait(pop, LIMIT).unwrap_err(), WaitError::Unknown(0), "a result is taken once");

    // The server returns nothing before it is popped here, so that all buffers fill.
    let big = Slice::new(Buffer::from(bytes(64 << 20)));
    let push = queues.push(queue, big);
    assert_eq!(queues.wait(push, Some(Duration::from_millis(300))).unwrap_err(), WaitError::TimedOut);
    let pop = queues.pop(queue);
    queues.abort(queue);
    for token in [pop, push] {
        let outcome = queues.wait(token, LIMIT).unwrap();
        assert!(
            matches!(outcome, Outcome::Popped(_) | Outcome::Failed(ErrorKind::ConnectionAborted)),
            "{outcome:?}"
        );
    }
    let token = queues.pop(queue);
    assert!(matches!(queues.wait(token, LIMIT).unwrap(), Outcome::Failed(ErrorKind::NotConnected)));

    let mut other = server;
    other.set_port(9);
    let (queue, token) = queues.connect(other).unwrap();
    assert!(matches!(queues.wait(token, LIMIT).unwrap(), Outcome::Failed(ErrorKind::ConnectionRefused)));
    let token = queues.close(queue);
    assert!(matches!(queues.wait(token, LIMIT).unwrap(), Outcome::Closed));
}

/// Runs the server on a thread, and the client here.
fn run<D: Device + Send + 'static, E: Device>(
    address: SocketAddr,
    server: impl FnOnce() -> D + Send + 'static,
    client: impl FnOnce() -> E,
) -> (D, E) {
    let serving = thread::spawn(move || {
        let mut queues = Queues::new(server());
        let listener = queues.listen(address).unwrap();
        assert_eq!(echo(&mut queues, listener, 3), [], "errors of the transfers");
        let errors = echo(&mut queues, listener, 1);
        assert_eq!(errors, [ErrorKind::ConnectionReset]);
        let token = queues.close(listener);
        assert!(matches!(queues.wait(token, LIMIT).unwrap(), Outcome::Closed));
        queues.into_device()
    });
    let mut queues = Queues::new(client());
    exchange(&mut queues, address, 3);
    behave(&mut queues, address);
    // A reset that does not match what the server has received is answered, and sent again (RFC 5961 section 3.2).
    while !serving.is_finished() {
        assert_eq!(queues.wait_next(SHORT).unwrap_err(), WaitError::TimedOut);
    }
    (serving.join().unwrap(), queues.into_device())
}

fn over(wire: Wire) {
    let (first, second, _folder) = pair(wire);
    let device = |host| move || Ports::new(connected(host));
    let (served, client) = run(server(), device(first), device(second));
    for report in [served.close(Duration::ZERO), client.close(Duration::ZERO)] {
        assert_eq!((report.faults, report.counters.tcp_checksum_errors), (0, 0));
    }
}

#[test]
fn programs_run_over_a_patch() {
    over(Wire::Patch);
}

#[test]
fn programs_run_over_vhost_user() {
    over(Wire::VhostUser);
}

/// A free port of the loopback interface.
fn loopback() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 5_000) as u16 * 2;
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    let mut free = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    free.find(|address| std::net::TcpListener::bind(address).is_ok()).unwrap()
}

#[test]
fn programs_run_over_sockets_of_the_kernel() {
    run(loopback(), || Kernel::new().unwrap(), || Kernel::new().unwrap());
}

#[test]
fn closed_queues_end_the_operations_of_their_peer() {
    let address = loopback();
    let mut queues = Queues::new(Kernel::new().unwrap());
    let listener = queues.listen(address).unwrap();
    assert!(queues.listen(address).is_err_and(|error| error == ErrorKind::AddrInUse));
    let accept = queues.accept(listener);
    let (client, connect) = queues.connect(address).unwrap();
    let mut outcomes = Vec::new();
    queues.wait_all(&[accept, connect], LIMIT, &mut outcomes).unwrap();
    let [Outcome::Accepted(served, _), Outcome::Connected] = outcomes[..] else { panic!("{outcomes:?}") };
    let (waiting, pop) = (queues.accept(listener), queues.pop(served));
    for queue in [client, listener] {
        let closed = queues.close(queue);
        assert!(matches!(queues.wait(closed, LIMIT).unwrap(), Outcome::Closed));
    }
    assert!(matches!(queues.wait(pop, LIMIT).unwrap(), Outcome::Finished));
    let outcome = queues.wait(waiting, LIMIT).unwrap();
    assert!(matches!(outcome, Outcome::Failed(ErrorKind::ConnectionAborted)), "{outcome:?}");
    assert_eq!(queues.wait_next(Some(Duration::ZERO)).unwrap_err(), WaitError::TimedOut);
}
